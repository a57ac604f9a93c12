package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// triedToken returns the token by which s was to be staged a moment ago and which
// failed, or else that of s. By a fresh token each time it would be another operation,
// which never has to wait.
func (l *view) triedToken(s cluster.Staged) cluster.Token {
	r := l.request(cluster.RequestRestore)
	for _, f := range l.obs.Failures {
		_, rest, ok := strings.Cut(f.Line, " --token=")
		if !ok || r == nil {
			continue
		}
		word, _, _ := strings.Cut(rest, " ")
		op := stageOn("", *r, s)
		op.Token = cluster.Token(word)
		for _, v := range s.Voters {
			op.Node, op.Replaces = v.Name, ""
			if n := l.node(v.Name); n.Staged != nil {
				op.Replaces = n.Staged.Token
			}
			if Line(op) == f.Line && !recordedToken(l.obs, op.Token) {
				return op.Token
			}
		}
	}
	return s.Token
}

func stageOn(n cluster.NodeName, r cluster.Request, s cluster.Staged) *RestoreStage {
	return &RestoreStage{
		Node: n, Request: r.Name, Backup: r.Backup, Token: s.Token, Version: s.Version, Revision: s.Revision,
		Voters: s.Voters, Lost: r.Lost,
	}
}

// refusesOrders says why a node would refuse the orders of who holds the lease of the present
// record of lease voters, empty where it would not, or nobody needs a lease. An order
// has to be of the newest incarnation in the store, or of the node's own, or one to
// which the majority of its own lease voters has gone.
func (l *view) refusesOrders(r cluster.Request, n *cluster.Node) string {
	claim := l.obs.LeaseVoters
	if len(claim.Names) == 0 || cluster.Lost(claim.Names, r.Lost) || n.Name == l.obs.Observer ||
		n.Lease.Holder == l.obs.Observer && n.Lease.Running {
		return ""
	}
	own := n.LeaseVoters
	if n.Assigned == nil && n.Prepared == nil {
		own = cluster.LeaseVoters{} // a spare's is of the past
	}
	newest := newestRecord(l.obs)
	switch {
	case own.Token == claim.Token && len(own.Names) > 0, newest != nil && newest.Token == claim.Token:
		return ""
	case newest != nil && n.Assigned == nil && n.Disk.Token == newest.Token:
		return fmt.Sprintf("%s has the data of incarnation %s, the newest in the store, but not the state file by which "+
			"it would take part: restore its file state or etcdadm.json", n.Name, newest.Token)
	case newest != nil:
		return fmt.Sprintf("%s takes orders by the lease of incarnation %s, the newest in the store, and not by that of %s",
			n.Name, newest.Token, claim.Token)
	case len(own.Names) > 0 && !l.followed(own, claim.Token):
		return fmt.Sprintf("%s has promised to begin incarnation %s, which may have begun; if no cluster "+
			"runs with it, stop its daemon, move its file state away and start it", n.Name, own.Token)
	}
	return ""
}

// followed reports whether a majority of these lease voters has gone to another
// incarnation.
func (l *view) followed(own cluster.LeaseVoters, token cluster.Token) bool {
	gone := slices.DeleteFunc(slices.Clone(own.Names), func(name cluster.NodeName) bool {
		n := l.node(name)
		return n == nil || !n.Reachable || n.LeaseVoters.Token != token
	})
	return len(gone) >= cluster.Quorum(len(own.Names))
}
