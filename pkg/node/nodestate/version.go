package nodestate

import (
	"fmt"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A SeenVersion is the version that a member reported for its data
// ([cluster.Report.DataVersion]): an older etcd must not be started on it. It becomes
// an earlier one only where etcd itself has made the data so, for a downgrade.
type SeenVersion struct {
	Token   cluster.Token       `json:"token"`
	Version etcdversion.Version `json:"version"`
	// Applied is the raft index that the member had applied then. Of two reports that are
	// recorded in the wrong order the later one counts.
	Applied uint64 `json:"applied,omitempty"`
}

// Changing returns the change of version of the assigned incarnation, nil for none.
func (s State) Changing() *cluster.VersionChange {
	c := s.Change
	if c == nil || s.Assigned == nil || c.Token != s.Assigned.Token {
		return nil
	}
	// Another program may have changed the version since.
	if runs := s.Assigned.Version; c.Back && runs != c.From || !c.Back && runs != c.To {
		return nil
	}
	return c
}

// DataVersion returns the version that the data of the assigned incarnation is known
// to be of, zero where that is not known.
func (s State) DataVersion() etcdversion.Version {
	if s.Seen == nil || s.Assigned == nil || s.Seen.Token != s.Assigned.Token {
		return etcdversion.Version{}
	}
	return s.Seen.Version
}

// TooOld reports why v must not be started on the data of the assigned
// incarnation, nil where it may. etcd 3.0 to 3.4 start on data of 3.6 without a
// word, and read it wrongly.
func (s State) TooOld(v etcdversion.Version) error {
	seen := s.DataVersion()
	if seen.IsZero() || v.AtLeast(seen.Major, seen.Minor) {
		return nil
	}
	return fmt.Errorf("the data is of cluster version %d.%d, and etcd %s is older", seen.Major, seen.Minor, v)
}
