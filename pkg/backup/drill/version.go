package drill

import (
	"fmt"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A VersionError says that no etcd on this machine may run on a backup.
type VersionError struct {
	// Want is the version that the backup is of.
	Want etcdversion.Version
	Have []etcdversion.Version
}

func (e *VersionError) Error() string {
	have := make([]string, len(e.Have))
	for i, v := range e.Have {
		have[i] = v.String()
	}
	list := strings.Join(have, ", ")
	if list == "" {
		list = "none"
	}
	return fmt.Sprintf("the backup is of etcd %s, but neither that minor version nor the next one is on this machine "+
		"(there is %s)", e.Want, list)
}

// Hint says how to get one.
func (e *VersionError) Hint() string {
	return fmt.Sprintf("etcdadm download --version=%s, or name the directory that has it: --etcd-dir", e.Want)
}

// choose returns the version to restore a backup with that is of the version
// want: this very one, or else the latest patch of its minor version, or else
// of the next one, which etcd's rules for upgrades allow. The error is a
// [*VersionError].
func choose(have []etcdversion.Version, want etcdversion.Version) (etcdversion.Version, error) {
	best := etcdversion.Version{}
	rank := 0
	for _, v := range have {
		r := 0
		switch {
		case v == want:
			r = 3
		case v.Major == want.Major && v.Minor == want.Minor:
			r = 2
		case v.Major == want.Major && v.Minor == want.Minor+1:
			r = 1
		}
		if r > rank || r == rank && r > 0 && v.Compare(best) > 0 {
			best, rank = v, r
		}
	}
	if rank == 0 {
		return best, &VersionError{want, have}
	}
	return best, nil
}
