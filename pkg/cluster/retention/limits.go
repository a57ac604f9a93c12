package retention

import (
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// limit lets go what is over the limits of the policy: of the backups that the
// rules of age keep, the damaged ones first and then the good ones, each the
// oldest first.
//
// Backups from the future, and those without a time in the name, are neither
// counted nor deleted: a clock that was wrong once, or copies made by hand,
// would otherwise push out everything else.
func (s *sieve) limit(policy Policy, backups []cluster.Backup) {
	if policy.MaxCount <= 0 && policy.MaxBytes <= 0 {
		return
	}
	var kept []int32
	count, bytes := 0, int64(0)
	for i := range backups {
		if c := s.all[i].bucket.class(); c == unparsed || c == future || !s.reasons[i].keep() {
			continue
		}
		kept = append(kept, int32(i))
		count++
		bytes += backups[i].Size
	}
	overCount := func() bool { return policy.MaxCount > 0 && count > policy.MaxCount }
	overBytes := func() bool { return policy.MaxBytes > 0 && bytes > policy.MaxBytes }
	if !overCount() && !overBytes() {
		return
	}
	slices.SortFunc(kept, func(i, j int32) int { return s.compare(backups, int(i), int(j)) })
	for _, i := range kept {
		var why reason
		switch {
		case overCount():
			why = overMaxCount
		case overBytes():
			why = overMaxBytes
		default:
			return
		}
		switch {
		case int(i) == s.newest:
			s.reasons[i] = newest
			continue
		case int(i) == s.newestGood:
			s.reasons[i] = newestGood
			continue
		case backups[i].Damaged:
			why += overDamaged
		}
		s.reasons[i] = why
		count--
		bytes -= backups[i].Size
	}
}

// compare orders backups by how soon a limit lets them go.
func (s *sieve) compare(backups []cluster.Backup, i, j int) int {
	a, b := backups[i], backups[j]
	switch {
	case a.Damaged && !b.Damaged:
		return -1
	case b.Damaged && !a.Damaged:
		return 1
	case s.all[i].unix < s.all[j].unix:
		return -1
	case s.all[i].unix > s.all[j].unix:
		return 1
	}
	return strings.Compare(a.Name, b.Name)
}
