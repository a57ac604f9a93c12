package nodestate

import (
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// ChangeVersion has the member run another version, by the order of that id.
func ChangeVersion(token cluster.Token, to etcdversion.Version, order string) Transition {
	return func(s *State) error {
		if s.Assigned == nil {
			return errUnassigned
		}
		s.Change = &cluster.VersionChange{Token: token, From: s.Assigned.Version, To: to, Order: order}
		s.Assigned.Version = to
		return nil
	}
}

// EndChange forgets a change of the version that has succeeded. One that was reverted
// stays, for those who ask why.
func EndChange(s *State) error {
	if c := s.Changing(); c != nil && !c.Back {
		s.Change = nil
	}
	return nil
}

// RevertChange ends a change of the version that failed, for the reason in why: the
// member runs the old version again, except where stays says why it cannot.
func RevertChange(why, stays string) Transition {
	return func(s *State) error {
		c := s.Changing()
		switch {
		case c == nil:
			return errUnchanged
		case stays != "":
			c.Failed = why + "; it cannot go back: " + stays
		default:
			c.Failed, c.Back = why, true
			s.Assigned.Version = c.From
		}
		return nil
	}
}

// ForgetChange deletes the record of a change of the version that was never begun: what
// runs is none, or is not of the new version. Where there is no such record, the state
// stays, and what the disk has is made certain.
func ForgetChange(token cluster.Token, to etcdversion.Version, runs *etcdversion.Version) Transition {
	return func(s *State) error {
		c := s.Changing()
		if c.Pending() && c.Token == token && c.To == to && (runs == nil || *runs != to) {
			s.Change, s.Assigned.Version = nil, c.From
		}
		return nil
	}
}
