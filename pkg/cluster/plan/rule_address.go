package plan

import (
	"fmt"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// ruleAddress reports members that the others look for where their nodes do not
// serve them: the machine has another address than when the member was added.
// The connections that the member itself makes may hide that for a while.
func ruleAddress(l *view) (Operation, verdict) {
	settled := l.obs.Leader != 0 && l.healthy >= cluster.Quorum(len(l.voters))
	for _, m := range l.obs.Members {
		n := l.nodeOf(m)
		if n == nil || m.Name == "" || !n.Reachable || n.Conflict != "" || !l.runsMember(n, m) {
			continue
		}
		if len(n.URLs.Peer) == 0 || cluster.SharePeerURL(n.URLs.Peer, m.PeerURLs) {
			continue
		}
		if l.atOtherURLs(n, m) && l.allHealthy() {
			continue // see ruleMoved
		}
		if why := l.scheme(n, m); why != "" {
			l.hold(PeerURLDiffers, "etcd has %s on record for %s, and its flags say %s; %s",
				strings.Join(m.PeerURLs, ","), m.Name, strings.Join(n.URLs.Peer, ","), why)
			continue
		}
		what := fmt.Sprintf("etcd has %s on record for %s, but its node serves %s",
			strings.Join(m.PeerURLs, ","), m.Name, strings.Join(n.URLs.Peer, ","))
		if !settled {
			l.hold(PeerURLDiffers, "%s; etcd can change that only with a healthy majority: give the machine its old "+
				"address back", what)
			continue
		}
		l.hold(PeerURLDiffers, "%s; run: etcdctl --endpoints=%s member update %s --peer-urls=%s",
			what, l.ask(m), m.ID, strings.Join(n.URLs.Peer, ","))
	}
	return nil, goOn
}

// ask returns the client URLs at which a person can ask the cluster: those of
// the members that serve, or else of m.
func (l *view) ask(m cluster.Member) string {
	var urls []string
	for _, v := range l.voters {
		if n := l.nodeOf(v); l.serves(v) && n != nil {
			urls = append(urls, clientURLs(n)...)
		}
	}
	if n := l.nodeOf(m); len(urls) == 0 && n != nil {
		urls = clientURLs(n)
	}
	return strings.Join(urls, ",")
}

// clientURLs returns where the member on n serves its clients.
func clientURLs(n *cluster.Node) []string {
	if n.Assigned != nil && n.Assigned.Quarantined && len(n.URLs.Quarantine) > 0 {
		return n.URLs.Quarantine
	}
	return n.URLs.Client
}
