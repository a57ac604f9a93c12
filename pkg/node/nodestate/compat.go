package nodestate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// toCompat returns the content of the file state for s. known holds what the
// existing etcd-manager last wrote about other nodes, where that is more than
// a place says.
func toCompat(s State, self Self, known []etcdNode) []byte {
	if s.Assigned == nil {
		return nil // as the existing etcd-manager writes it for a stopped node
	}
	c := &etcdCluster{token: string(s.Assigned.Token)}
	found := false
	for _, initialMember := range s.Peers {
		c.nodes = append(c.nodes, compatNode(initialMember, self, known))
		found = found || initialMember.Name == self.Name
	}
	if !found {
		initialMember := cluster.InitialMember{Name: self.Name, PeerURLs: self.URLs.Peer}
		c.nodes = append(c.nodes, compatNode(initialMember, self, known))
	}
	return etcdState{
		newCluster:  s.Bootstrap,
		cluster:     c,
		version:     s.Assigned.Version.String(),
		quarantined: s.Assigned.Quarantined,
	}.encode()
}

func compatNode(initialMember cluster.InitialMember, self Self, known []etcdNode) etcdNode {
	n := etcdNode{Name: string(initialMember.Name), PeerURLs: initialMember.PeerURLs}
	// Where it says so, the existing etcd-manager changes the record to https alone, and not
	// what the member listens to.
	n.TLS = len(initialMember.PeerURLs) > 0 && cluster.SecureURLs(initialMember.PeerURLs)
	if initialMember.Name == self.Name {
		n.ClientURLs, n.QuarantineURLs = self.URLs.Client, self.URLs.Quarantine
		return n
	}
	if i := slices.IndexFunc(known, func(k etcdNode) bool { return k.Name == n.Name }); i >= 0 {
		n.ClientURLs, n.QuarantineURLs = known[i].ClientURLs, known[i].QuarantineURLs
	}
	return n
}

// adopt takes over into s what the content b of the file state says: the
// assignment and the peers. What only this package knows (terms, lease voters, the
// spec) stays. A promise ends: the existing etcd-manager was in charge, and
// may have started what was promised not to have been started.
func adopt(s State, b []byte) (State, []etcdNode, error) {
	e, err := decodeState(b)
	if err != nil {
		return State{}, nil, err
	}
	s.Assigned, s.Bootstrap, s.Peers, s.Prepared = nil, false, nil, nil
	if e.cluster == nil {
		return s, nil, nil
	}
	if len(e.cluster.nodes) == 0 {
		return State{}, nil, errors.New("its cluster has no nodes")
	}
	version, err := etcdversion.Parse(e.version)
	if err != nil {
		return State{}, nil, err
	}
	s.Assigned = &cluster.Assigned{Token: cluster.Token(e.cluster.token), Version: version, Quarantined: e.quarantined}
	s.Bootstrap = e.newCluster
	for _, n := range e.cluster.nodes {
		if len(n.PeerURLs) == 0 {
			return State{}, nil, fmt.Errorf("its node %q has no peer URL", n.Name)
		}
		s.Peers = append(s.Peers, cluster.InitialMember{Name: cluster.NodeName(n.Name), PeerURLs: n.PeerURLs})
	}
	s.Voters = moved(s.Voters, s.Peers) // it may have moved them
	return s, e.cluster.nodes, s.check()
}
