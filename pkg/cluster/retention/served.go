package retention

import (
	"cmp"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// What a stretch without a good backup counts at most, in days: for the hourly
// retention, and for the daily one. A clock that jumps ahead, and a cluster that was
// off, leave such stretches, and neither is a reason to delete what is there. Weekly
// backups leave none for the daily retention.
const (
	hourlyGap = 1
	dailyGap  = 8
)

// served returns how far back a time lies in days on which backups were taken,
// and not in those of a clock. It is made of days, of which thinning out leaves
// each one a good backup: so what it says does not change by deleting.
type served struct {
	// days are the days of UTC with a good backup, and today, newest first.
	days []int64
	// hourly and daily are how many days before each of them do not count.
	hourly, daily []int64
}

// newServed returns the days of the good backups that are not from the future.
func newServed(now time.Time, all []parsed, backups []cluster.Backup) served {
	today := slot(now.Unix(), day)
	days := map[int64]struct{}{today: {}}
	for i, p := range all {
		if p.dated && !p.future && !backups[i].Damaged {
			days[slot(p.unix, day)] = struct{}{}
		}
	}
	s := served{days: make([]int64, 0, len(days))}
	for d := range days {
		s.days = append(s.days, d)
	}
	slices.Sort(s.days)
	slices.Reverse(s.days)
	s.hourly, s.daily = make([]int64, len(s.days)), make([]int64, len(s.days))
	for i := 1; i < len(s.days); i++ {
		gap := s.days[i-1] - s.days[i]
		s.hourly[i] = s.hourly[i-1] + max(0, gap-hourlyGap)
		s.daily[i] = s.daily[i-1] + max(0, gap-dailyGap)
	}
	return s
}

// uncounted returns how many seconds are to be taken off the age of a backup of that
// time, for the hourly and for the daily retention.
func (s served) uncounted(unix int64) (hourly, daily int64) {
	if len(s.days) == 0 {
		return 0, 0
	}
	d := slot(unix, day)
	// The last of the days that is not before d; today is one.
	i, there := slices.BinarySearchFunc(s.days, d, func(a, b int64) int { return cmp.Compare(b, a) })
	if !there {
		i--
	}
	gap := s.days[i] - d
	return (s.hourly[i] + max(0, gap-hourlyGap)) * seconds(day), (s.daily[i] + max(0, gap-dailyGap)) * seconds(day)
}
