package nodestate

import (
	"errors"
	"fmt"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A Transition changes what a node remembers, or says why it may not. It decides
// by the state alone, so that [File.Update] may apply it to whatever is on the
// disk by then.
type Transition func(*State) error

// errUnassigned says that the node has nothing to run any more.
var errUnassigned = errors.New("the node has no assignment")

// errUnchanged says that no change of the version is under way.
var errUnchanged = errors.New("the node does not change its version")

// Promise makes the promise to take part in a bootstrap. What was promised before
// and never begun is remembered with it.
func Promise(p cluster.Prepared) Transition {
	return func(s *State) error {
		promise := p.After(s.Prepared)
		s.Prepared = &promise
		return nil
	}
}

// EndPromise ends the promise of a bootstrap voter that has begun: from now on
// an empty disk means lost data. A promise that was made since stays.
func EndPromise(token cluster.Token) Transition {
	return func(s *State) error {
		if s.Assigned != nil && s.Assigned.Token == token {
			s.Prepared, s.Bootstrap = nil, false
		}
		return nil
	}
}

// An Assignment is the order to run a member.
type Assignment struct {
	Token   cluster.Token
	Version etcdversion.Version
	// Peers is the membership, empty for the one that the node was given last.
	Peers []cluster.InitialMember
	// Bootstrap says that the member takes part in a bootstrap. Its promise stays
	// until it has begun, any other one ends.
	Bootstrap bool
	// Quarantined keeps clients away if the incarnation is new to the node.
	Quarantined bool
	// AcceptData forgets what is known against the member's data.
	AcceptData bool
}

// Assign has the node run a member.
func Assign(a Assignment) Transition {
	return func(s *State) error {
		if s.Assigned == nil || s.Assigned.Token != a.Token {
			s.Assigned = &cluster.Assigned{Token: a.Token, Quarantined: a.Quarantined}
			s.MemberID, s.ClusterID, s.MemberToken = 0, 0, ""
		}
		s.Assigned.Version, s.Assigned.Stopped = a.Version, false
		if a.AcceptData {
			s.Differs = nil
		}
		s.Bootstrap = a.Bootstrap
		if !s.Bootstrap {
			s.Prepared = nil
		}
		if len(a.Peers) > 0 {
			s.Peers = a.Peers
		}
		return nil
	}
}

// TakeOver has the node run a member that has run on the machine without it, with
// its data. The lease voters, if there are any, are those that the node begins with.
func TakeOver(a Assignment, id cluster.MemberID, c cluster.ClusterID, voters []cluster.NodeName) Transition {
	return func(s *State) error {
		if len(voters) > 0 {
			d, err := s.Durable().Prepare(a.Token, voters)
			if err != nil {
				return err
			}
			s.LeaseVoters = d.LeaseVoters
		}
		if err := Assign(a)(s); err != nil {
			return err
		}
		s.MemberID, s.ClusterID, s.MemberToken = id, c, a.Token
		return nil
	}
}

// Stop has the member not run, also after a restart.
func Stop(s *State) error {
	if s.Assigned == nil {
		return errUnassigned
	}
	s.Assigned.Stopped = true
	return nil
}

// Quarantine records whether clients are kept away from the member.
func Quarantine(on bool) Transition {
	return func(s *State) error {
		if s.Assigned == nil {
			return errUnassigned
		}
		s.Assigned.Quarantined = on
		return nil
	}
}

// Evict forgets the member that the node ran, and every promise. The marks, the
// lease voters' record and what is staged stay.
func Evict(s *State) error {
	s.Assigned, s.Prepared, s.Peers = nil, nil, nil
	s.MemberID, s.ClusterID, s.MemberToken, s.Bootstrap = 0, 0, "", false
	s.Voters, s.Differs, s.Change, s.Seen = nil, nil, nil, nil
	return nil
}

// Switch leaves the incarnation that the node runs, and makes of what is staged,
// nil for nothing, the promise to take part in the restored one.
func Switch(staged *cluster.Staged) Transition {
	return func(s *State) error {
		if err := Evict(s); err != nil || staged == nil {
			return err
		}
		s.Prepared = &cluster.Prepared{
			Token: staged.Token, Version: staged.Version, Voters: staged.Voters, Backup: staged.Backup,
		}
		s.Revision, s.Staged = max(s.Revision, staged.Revision), nil
		return nil
	}
}

// Stage begins to prepare a restore, in place of any other one.
func Stage(staged cluster.Staged) Transition {
	return func(s *State) error {
		s.Staged = &staged
		return nil
	}
}

// StageReady records that the data of a staged restore is there.
func StageReady(staged cluster.Staged) Transition {
	return func(s *State) error {
		if s.Staged == nil || s.Staged.Token != staged.Token {
			return fmt.Errorf("the restore of %s was cancelled", staged.Backup)
		}
		s.Staged.Ready = true
		return nil
	}
}

// Unstage forgets what is staged of an incarnation, and nothing that was staged
// since.
func Unstage(token cluster.Token) Transition {
	return func(s *State) error {
		if s.Staged != nil && s.Staged.Token == token {
			s.Staged = nil
		}
		return nil
	}
}

// Recognize records who the node's member is, who its voters are, of which version
// its data is, and how far the revisions have come. Of a member that the node runs no
// more, and of a report that comes later than one of a later raft index, only the last
// counts.
func Recognize(token cluster.Token, r cluster.Report, voters []cluster.InitialMember,
	mark cluster.Revision) Transition {
	return func(s *State) error {
		s.Revision = max(s.Revision, mark)
		late := s.Seen != nil && s.Seen.Token == token && r.Applied < s.Seen.Applied
		if s.Assigned == nil || s.Assigned.Token != token || late {
			return nil
		}
		if v := r.DataVersion(); !v.IsZero() {
			s.Seen = &SeenVersion{Token: token, Version: v, Applied: r.Applied}
		}
		s.MemberID, s.ClusterID, s.MemberToken, s.Voters = r.ID, r.ClusterID, token, voters
		s.follow(voters)
		return nil
	}
}

// RecordDifference records what is known against the data of the member that then names.
// The error is other if the node runs another one now.
func RecordDifference(then State, text string, other error) Transition {
	return func(s *State) error {
		if !s.SameMember(then) {
			return other
		}
		s.Differs = &Differs{Token: s.Assigned.Token, MemberID: s.MemberID, Text: text}
		return nil
	}
}

// SameMember reports whether the node runs the member that it ran then, when it
// may not have known the member's id yet.
func (s State) SameMember(then State) bool {
	return s.Assigned != nil && then.Assigned != nil && s.Assigned.Token == then.Assigned.Token &&
		(then.MemberID == 0 || s.MemberID == then.MemberID)
}

// Wanted keeps the spec, for a start without the store.
func Wanted(spec cluster.Spec) Transition {
	return func(s *State) error {
		s.Spec = &spec
		return nil
	}
}

// Found remembers where the nodes were found.
func Found(hosts []cluster.HostEntry) Transition {
	return func(s *State) error {
		s.Hosts = hosts
		return nil
	}
}

// Paused keeps the request by which the daemons are paused, nil for none.
func Paused(r *cluster.Request) Transition {
	return func(s *State) error {
		s.Pause = r
		return nil
	}
}

// SeenBackup keeps the name of the newest backup in the store.
func SeenBackup(name string) Transition {
	return func(s *State) error {
		s.NewestBackup = name
		return nil
	}
}

// RecordGrant writes down what the node has promised about the lease.
func RecordGrant(d lease.Durable) Transition {
	return func(s *State) error {
		s.Term, s.Grant, s.LeaseVoters = d.Term, d.Grant, d.LeaseVoters
		return nil
	}
}

// Durable returns what the node has promised about the lease.
func (s State) Durable() lease.Durable {
	return lease.Durable{Term: s.Term, Grant: s.Grant, LeaseVoters: s.LeaseVoters}
}
