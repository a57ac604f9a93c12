package nodestate

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// A State is what a node remembers.
type State struct {
	// Assigned is what the node runs, nil for nothing.
	Assigned *cluster.Assigned `json:"assigned,omitempty"`
	// Bootstrap says that the assigned member takes part in the bootstrap of its
	// incarnation and has not started yet.
	Bootstrap bool `json:"bootstrap,omitempty"`
	// Peers is the membership that the node was given last, itself included:
	// etcd's initial cluster.
	Peers []cluster.InitialMember `json:"peers,omitempty"`

	// MemberID and ClusterID are what the member on this node was called when it
	// ran last; MemberToken is the incarnation it ran in.
	MemberID    cluster.MemberID  `json:"memberID,omitzero"`
	ClusterID   cluster.ClusterID `json:"clusterID,omitzero"`
	MemberToken cluster.Token     `json:"memberToken,omitempty"`

	// Voters are the voters that the member reported last, with their peer URLs.
	Voters []cluster.InitialMember `json:"voters,omitempty"`
	// Differs is what is known against the member's data, nil for nothing.
	Differs *Differs `json:"differs,omitempty"`

	// Change is a change of the etcd version that has begun, or has failed, nil for
	// none. It counts for the incarnation that it names.
	Change *cluster.VersionChange `json:"change,omitempty"`
	// Seen is the last cluster version that the member has reported.
	Seen *SeenVersion `json:"seen,omitempty"`

	// Prepared is the node's promise to take part in a bootstrap.
	Prepared *cluster.Prepared `json:"prepared,omitempty"`
	// Staged is a restore that the node prepares, nil for none. What is on the
	// disk of it is in RestoreDir.
	Staged *cluster.Staged `json:"staged,omitempty"`
	// Revision is above every revision that the node's member has reported, in
	// whatever incarnation. It is written ahead, see [Mark].
	Revision cluster.Revision `json:"revision,omitzero"`
	// NewestBackup is the name of the newest backup that the node has seen in the
	// store, empty for none.
	NewestBackup string `json:"newestBackup,omitempty"`
	// LeaseVoters is the newest lease voter record that the node was given.
	LeaseVoters cluster.LeaseVoters `json:"leaseVoters,omitzero"`
	// Term is the highest term that the node has seen.
	Term cluster.Term `json:"term,omitzero"`
	// Grant is the last lease that the node granted.
	Grant lease.Grant `json:"grant,omitzero"`
	// Spec is the last spec that the node saw, nil for none: it is known when
	// the store is not reachable.
	Spec *cluster.Spec `json:"spec,omitempty"`
	// Hosts is what the node's hosts file says of the nodes.
	Hosts []cluster.HostEntry `json:"hosts,omitempty"`
	// Pause is the request by which the daemons are paused, as the node last saw
	// it, nil for none.
	Pause *cluster.Request `json:"pause,omitempty"`
}

// Differs says that the data of one member is not that of a majority of the
// voters, so that the member is not started again.
type Differs struct {
	Token    cluster.Token    `json:"token"`
	MemberID cluster.MemberID `json:"memberID,omitzero"`
	Text     string           `json:"text"`
}

// Self is what the state file of the existing etcd-manager says about the node
// that it is on.
type Self struct {
	Name cluster.NodeName
	URLs cluster.URLs
}

// PeerURLs returns where the members look for the one of that name, as far as it is
// known: where its own member last reported that it is, or was ordered to be.
func (s State) PeerURLs(name cluster.NodeName) []string {
	for _, list := range [][]cluster.InitialMember{s.Voters, s.Peers} {
		for _, m := range list {
			if m.Name == name && len(m.PeerURLs) > 0 {
				return m.PeerURLs
			}
		}
	}
	return nil
}

// follow takes the peer URLs of voters over into what the node was given: the existing
// etcd-manager starts its member for those.
func (s *State) follow(voters []cluster.InitialMember) { s.Peers = moved(s.Peers, voters) }

// moved returns members with the peer URLs that those of the same name have in to.
func moved(members, to []cluster.InitialMember) []cluster.InitialMember {
	list := slices.Clone(members)
	for i, m := range list {
		for _, t := range to {
			if t.Name == m.Name && len(t.PeerURLs) > 0 {
				list[i].PeerURLs = t.PeerURLs
			}
		}
	}
	return list
}

// clone copies s deeply. It goes through the form on the disk, so what cannot
// be read back is found here, before it is written.
func (s State) clone() (State, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return State{}, err
	}
	var c State
	if err := json.Unmarshal(b, &c); err != nil {
		return State{}, err
	}
	return c, nil
}

// check reports what in s makes no sense, whatever was there before.
func (s State) check() error {
	if a := s.Assigned; a != nil {
		if err := a.Token.Validate(); err != nil {
			return fmt.Errorf("assignment: %w", err)
		}
		if a.Version.IsZero() {
			return fmt.Errorf("assignment: etcd version is missing")
		}
	}
	if s.Bootstrap && s.Assigned == nil {
		return fmt.Errorf("bootstrap without an assignment")
	}
	for _, p := range s.Peers {
		if err := p.Name.Validate(); err != nil {
			return fmt.Errorf("peers: %w", err)
		}
	}
	if p := s.Prepared; p != nil {
		if err := p.Token.Validate(); err != nil {
			return fmt.Errorf("promise: %w", err)
		}
	}
	if st := s.Staged; st != nil {
		if err := st.Token.Validate(); err != nil {
			return fmt.Errorf("staged restore: %w", err)
		}
	}
	if s.MemberToken != "" {
		if err := s.MemberToken.Validate(); err != nil {
			return fmt.Errorf("member: %w", err)
		}
	}
	if s.Grant.Term > s.Term {
		return fmt.Errorf("lease granted in term %d, but the highest term seen is %d", s.Grant.Term, s.Term)
	}
	return nil
}

// checkStep reports which promise is broken by going from s to next. It is the
// last line of defence: callers have checked before.
func (s State) checkStep(next State) error {
	switch {
	case next.Revision < s.Revision:
		return fmt.Errorf("the high-water mark would go back from %d to %d", s.Revision, next.Revision)
	case next.Term < s.Term:
		return fmt.Errorf("the term would go back from %d to %d", s.Term, next.Term)
	case next.Term > s.Term && next.Term > lease.MaxTerm:
		return fmt.Errorf("term %d is above the maximum, %d", next.Term, lease.MaxTerm)
	case next.Grant.Term < s.Grant.Term:
		return fmt.Errorf("the grant would go back from term %d to %d", s.Grant.Term, next.Grant.Term)
	case next.Grant.Term != s.Grant.Term || s.Grant.Holder == "":
		// a first grant, or one in a later term
	case next.Grant.Holder != s.Grant.Holder, next.Grant.Boot != s.Grant.Boot:
		return fmt.Errorf("the lease of term %d is already granted to %s, not to %q", s.Grant.Term, s.Grant.Holder,
			string(next.Grant.Holder))
	case s.Grant.Released && !next.Grant.Released:
		return fmt.Errorf("the lease of term %d was given back by %s", s.Grant.Term, s.Grant.Holder)
	}
	return next.check()
}

// markStep is how far ahead of what was seen a mark is written, so that it is
// written seldom.
const markStep cluster.Revision = 1_000_000

// Mark returns the high-water mark for a revision that was seen: mark as long
// as it is not below.
func Mark(mark, seen cluster.Revision) cluster.Revision {
	if seen <= mark {
		return mark
	}
	return (seen/markStep + 1) * markStep
}
