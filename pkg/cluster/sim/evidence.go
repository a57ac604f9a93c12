package sim

import (
	"maps"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// evidence is what n finds out about a claim, also in its store, where that is to be consulted.
func (w *world) evidence(n *node, c lease.Claim, own lease.Standing, consult bool) lease.Evidence {
	e := lease.Evidence{Own: own, Answers: map[cluster.NodeName]lease.Standing{n.name: own}}
	var ask []cluster.NodeName
	if consult {
		if i := len(w.store.incarnations); i > 0 && !w.unreadable(n) {
			newest := w.store.incarnations[i-1]
			e.Newest, e.InitialMembers = newest.Token, cluster.InitialMemberNames(newest.Voters)
			e.LeaseVoters = w.publishedLeaseVoters(newest.Token)
		}
		ask = names
	}
	for range lease.AskRounds {
		maps.Copy(e.Answers, w.standings(n, append(c.Ask(e), ask...)))
		ask = nil
	}
	return e
}

// publishedLeaseVoters are those of an incarnation that a coordinator has published in the store of
// the node that acts, as the last one that did.
func (w *world) publishedLeaseVoters(token cluster.Token) []cluster.NodeName {
	if p := w.published; p != nil && p.in == w.store && p.obs.LeaseVoters.Token == token {
		return p.obs.LeaseVoters.Names
	}
	return nil
}

// standings asks nodes what they say of the lease.
func (w *world) standings(by *node, ask []cluster.NodeName) map[cluster.NodeName]lease.Standing {
	answers := map[cluster.NodeName]lease.Standing{}
	for _, name := range ask {
		if n := w.node(name); n != nil && n != by && w.reaches(by, n) {
			answers[name] = n.grantor.Standing(n.mono(w.now))
		}
	}
	return answers
}
