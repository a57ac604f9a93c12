package nodestate

import (
	"cmp"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// Seen is what an observation of the node has found.
type Seen struct {
	Disk cluster.Disk
	// Report is what the node's own member says, nil for nothing.
	Report *cluster.Report
	// Begun says, of a node that is [State.Bootstrapping], whether the member on the disk
	// has committed anything.
	Begun bool
	// AsksForCluster says that an operator's word for a new cluster is on the disk.
	AsksForCluster bool
}

// A Learned is what an observation has found and the node does not remember yet.
type Learned struct {
	// Token is the incarnation that it is about.
	Token cluster.Token
	// Fulfilled is the incarnation whose promise is over: from now on an empty disk means
	// lost data.
	Fulfilled cluster.Token
	// Recognized is the report by which the member is known, with its voters, and Mark how
	// far the revisions have come; nil for nothing new. It shows whose data is on the disk
	// when etcd does not run.
	Recognized *cluster.Report
	Voters     []cluster.InitialMember
	Mark       cluster.Revision
	// HasCluster says that the word for a new cluster has been followed.
	HasCluster bool
}

// Learn decides what a node is to remember of an observation. s is the state by which
// it observed.
func Learn(s State, seen Seen) Learned {
	if s.Assigned == nil {
		return Learned{}
	}
	l := Learned{Token: s.Assigned.Token}
	data := seen.Disk.State == cluster.DiskData
	promised := s.Prepared != nil
	if promised && data && (!s.Bootstrapping() || seen.Begun) {
		l.Fulfilled, promised = s.Assigned.Token, false
	}
	l.HasCluster = seen.AsksForCluster && data && !promised
	r := seen.Report
	if r == nil {
		return l
	}
	mark, voters := Mark(s.Revision, r.Revision), votersOf(*r)
	newVersion := !r.Cluster.IsZero() && r.Cluster != s.DataVersion()
	if newVersion || r.ID != s.MemberID || mark != s.Revision || !sameVoters(voters, s.Voters) {
		l.Recognized, l.Voters, l.Mark = r, voters, mark
	}
	return l
}

// Changes says whether the state changes by it.
func (l Learned) Changes() bool { return l.Fulfilled != "" || l.Recognized != nil }

// Empty says that there is nothing to remember.
func (l Learned) Empty() bool { return !l.Changes() && !l.HasCluster }

// Transition is the change of the state.
func (l Learned) Transition() Transition {
	return func(s *State) error {
		if l.Fulfilled != "" {
			if err := EndPromise(l.Fulfilled)(s); err != nil {
				return err
			}
		}
		if l.Recognized == nil {
			return nil
		}
		return Recognize(l.Token, *l.Recognized, l.Voters, l.Mark)(s)
	}
}

// Bootstrapping says that the node may still have to bootstrap its cluster: its promise
// lasts until its member has committed that.
func (s State) Bootstrapping() bool {
	return s.Bootstrap && s.Assigned != nil && s.Prepared != nil && s.Prepared.Token == s.Assigned.Token &&
		s.Prepared.Backup == ""
}

// votersOf returns the voters that a member lists, by name. A learner lists
// none.
func votersOf(r cluster.Report) []cluster.InitialMember {
	var list []cluster.InitialMember
	for _, m := range r.Members {
		if !m.Learner && m.Name != "" {
			list = append(list, cluster.InitialMember{Name: m.Name, PeerURLs: m.PeerURLs})
		}
	}
	slices.SortFunc(list, func(a, b cluster.InitialMember) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func sameVoters(a, b []cluster.InitialMember) bool {
	return slices.EqualFunc(a, b, func(a, b cluster.InitialMember) bool {
		return a.Name == b.Name && slices.Equal(a.PeerURLs, b.PeerURLs)
	})
}
