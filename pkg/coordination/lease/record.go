package lease

import (
	"fmt"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// Newer reports whether a is a newer record than b. A record with names is
// newer than one without. Records of different incarnations have no order, and
// neither is newer.
func Newer(a, b cluster.LeaseVoters) bool {
	if a.Token != b.Token || len(a.Names) == 0 {
		return false
	}
	if len(b.Names) == 0 {
		return true
	}
	if a.Term != b.Term {
		return a.Term > b.Term
	}
	return a.Seq > b.Seq
}

// Steps returns how many names are in one of the two lists only.
func Steps(a, b []cluster.NodeName) int {
	n := 0
	for _, name := range a {
		if !slices.Contains(b, name) {
			n++
		}
	}
	for _, name := range b {
		if !slices.Contains(a, name) {
			n++
		}
	}
	return n
}

// conflict says why a node whose record is own cannot grant on record, empty
// if it can.
func conflict(own, record cluster.LeaseVoters) string {
	if Newer(own, record) {
		return fmt.Sprintf("lease voter record %s is older than %s", stamp(record), stamp(own))
	}
	if record.Term != own.Term {
		return ""
	}
	switch steps := Steps(own.Names, record.Names); {
	case record.Seq == own.Seq && steps > 0:
		return fmt.Sprintf("lease voter record %s names %v here, not %v", stamp(own), own.Names, record.Names)
	case record.Seq == own.Seq+1 && steps > 1:
		return fmt.Sprintf("lease voter record %s changes %d names of %s at once", stamp(record), steps, stamp(own))
	}
	return ""
}

func stamp(e cluster.LeaseVoters) string { return fmt.Sprintf("%d.%d", e.Term, e.Seq) }

// validRecord reports why e cannot be a record to vote by.
func validRecord(e cluster.LeaseVoters) error {
	if err := e.Token.Validate(); err != nil {
		return fmt.Errorf("lease voter record: %w", err)
	}
	if len(e.Names) == 0 {
		return fmt.Errorf("lease voter record has no names")
	}
	for i, name := range e.Names {
		if err := name.Validate(); err != nil {
			return fmt.Errorf("lease voter record: %w", err)
		}
		if i > 0 && e.Names[i-1] >= name {
			return fmt.Errorf("lease voter record is not sorted: %q before %q", e.Names[i-1], name)
		}
	}
	return nil
}

func sorted(names []cluster.NodeName) []cluster.NodeName {
	s := slices.Clone(names)
	slices.Sort(s)
	return s
}

func cloneRecord(e cluster.LeaseVoters) cluster.LeaseVoters {
	e.Names = slices.Clone(e.Names)
	return e
}

func sameStamp(a, b cluster.LeaseVoters) bool {
	return a.Token == b.Token && a.Term == b.Term && a.Seq == b.Seq
}
