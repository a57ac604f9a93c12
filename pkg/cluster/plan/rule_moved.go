package plan

import (
	"fmt"
	"net/url"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// ruleMoved has etcd's record of where its members are follow the nodes' own URLs.
// A member is started for the URLs on record, since the others look for it there: so
// first the record changes, and then the member is started again if it has to listen
// elsewhere. One goes after the other: between the two steps, a member has only the
// connections that it makes itself.
func ruleMoved(l *view) (Operation, verdict) {
	if !l.allHealthy() {
		return nil, goOn // ruleAddress reports what differs
	}
	for _, m := range l.obs.Members {
		n := l.nodeOf(m)
		if n == nil || !l.inPlace(n, m) || follows(*n, m) == nil {
			continue
		}
		op := &MemberStart{Node: n.Name, Token: n.Assigned.Token, Mode: StartRestart, Version: n.Assigned.Version,
			Peers: l.initialMembers()}
		if !l.failing(op) {
			return op, goOn
		}
		return nil, goOn
	}
	for _, m := range l.obs.Members {
		if n := l.nodeOf(m); n != nil && l.inPlace(n, m) && l.atOtherURLs(n, m) {
			op := &MemberUpdate{ID: m.ID, PeerURLs: n.URLs.Peer, ExpectPeerURLs: m.PeerURLs}
			if !l.failing(op) {
				return op, goOn
			}
			return nil, goOn
		}
	}
	return nil, goOn
}

// allHealthy reports whether all members vote, and are healthy, and one leads.
func (l *view) allHealthy() bool {
	unfit := func(m cluster.Member) bool { return m.Learner || !m.Healthy }
	return l.obs.Leader != 0 && !slices.ContainsFunc(l.obs.Members, unfit)
}

// inPlace reports whether n runs m and reports it.
func (l *view) inPlace(n *cluster.Node, m cluster.Member) bool {
	return m.Name != "" && n.Reachable && n.Conflict == "" && n.Assigned != nil && !n.Assigned.Stopped &&
		n.Process.State == cluster.ProcessRunning && l.runsMember(n, m)
}

// atOtherURLs reports whether m is to be looked for elsewhere.
func (l *view) atOtherURLs(n *cluster.Node, m cluster.Member) bool {
	return len(n.URLs.Peer) > 0 && n.Serving != nil && !cluster.SharePeerURL(n.URLs.Peer, m.PeerURLs) &&
		l.scheme(n, m) == ""
}

// scheme says why m is not looked for with or without TLS, as its node asks for, "" where
// it may be. TLS is not given up in a cluster that runs: who asks for that may not know
// that it does. It is not switched on while a member has no keys to call m with.
func (l *view) scheme(n *cluster.Node, m cluster.Member) string {
	record, flags := cluster.SecureURLs(m.PeerURLs), cluster.SecureURLs(n.URLs.Peer)
	keyless := l.obs.Keyless()
	switch {
	case record && !flags:
		return fmt.Sprintf("TLS is not switched off in a running cluster: give the daemon on %s its URLs with https again, "+
			"and no --etcd-insecure", n.Name)
	case !record && flags && len(keyless) > 0:
		return fmt.Sprintf("TLS is not switched on while %s could not call it, for want of keys: put the CAs etcd-peers-ca "+
			"and etcd-clients-ca into --pki-dir there, and start the daemon again", names(keyless))
	}
	return ""
}

// follows returns the peer URLs for which m has to be started again, nil where it
// listens for those on record, or nothing is known.
func follows(n cluster.Node, m cluster.Member) []string {
	if n.Serving == nil || !cluster.SharePeerURL(n.URLs.Peer, m.PeerURLs) ||
		slices.Equal(ports(n.Serving), ports(m.PeerURLs)) {
		return nil
	}
	return m.PeerURLs
}

// ports returns schemes and ports, which is what a member that listens on all
// addresses of its machine makes of its URLs.
func ports(urls []string) []string {
	var list []string
	for _, text := range urls {
		if u, err := url.Parse(cluster.NormalURL(text)); err == nil {
			list = append(list, u.Scheme+":"+u.Port())
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
