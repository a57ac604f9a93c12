package backupagent

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/adhocore/gronx"
)

// A Schedule says when a backup is due: an interval after the one before, or at
// the times of a cron expression.
type Schedule struct {
	// Interval is the time between two backups, from start to start. It is used
	// where Cron is empty.
	Interval time.Duration
	// Cron is an expression with the five fields of cron, in UTC.
	Cron string
	// Offset is added to the times of Cron: clusters with the same expression
	// need not all use the store in the same second.
	Offset time.Duration
}

// Spread returns the offset of a cluster within a time: always the same one,
// and another for other clusters.
func Spread(clusterName string, within time.Duration) time.Duration {
	if within <= 0 {
		return 0
	}
	return time.Duration(hash(clusterName) % uint64(within)).Truncate(time.Second)
}

// hash is FNV, with its bits mixed: names differ in their last letter, and FNV
// alone hardly carries that to the upper bits.
func hash(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		// Never fails.
		_, _ = h.Write([]byte(p + "\x00"))
	}
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	return x ^ x>>33
}

// scheduleSlack is how long before its time a backup counts as that of a cron
// expression: clocks differ.
const scheduleSlack = 20 * time.Second

// Validate reports what is wrong with the schedule.
func (s Schedule) Validate() error {
	if s.Cron == "" {
		if s.Interval < time.Second {
			return fmt.Errorf("the interval %s is shorter than a second", s.Interval)
		}
		return nil
	}
	if n := len(strings.Fields(s.Cron)); n != 5 && !strings.HasPrefix(s.Cron, "@") {
		return fmt.Errorf("cron expression %q has %d fields, not the five for minute, hour, day, month and weekday",
			s.Cron, n)
	}
	if strings.HasPrefix(s.Cron, "@everysecond") || !gronx.IsValid(s.Cron) {
		return fmt.Errorf("cron expression %q cannot be read", s.Cron)
	}
	// An expression such as "0 0 30 2 *" is well formed and never comes.
	if _, err := s.next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); err != nil {
		return errors.New("cron expression " + s.Cron + " has a time that never comes")
	}
	return nil
}

// next returns the first time of Cron, with the offset, after t.
func (s Schedule) next(t time.Time) (time.Time, error) {
	tick, err := gronx.NextTickAfter(s.Cron, t.UTC().Add(-s.Offset), false)
	return tick.Add(s.Offset), err
}

// Due returns when the backup after the one of a time is due. After none, which
// is the zero time, it has long been due.
func (s Schedule) Due(newest time.Time) time.Time {
	if newest.IsZero() {
		return time.Time{}
	}
	if s.Cron == "" {
		return newest.Add(s.Interval)
	}
	due, err := s.next(newest.Add(scheduleSlack))
	if err != nil {
		// Validate has seen that there is a next time; to be safe, a day later.
		return newest.Add(24 * time.Hour)
	}
	return due
}

// Slot returns the time from which on a backup is that of now: for agents that
// cannot see the store's backups, and have to agree on a time all the same.
func (s Schedule) Slot(now time.Time) time.Time {
	if s.Cron == "" {
		return now.UTC().Truncate(s.Interval)
	}
	tick, err := gronx.PrevTickBefore(s.Cron, now.UTC().Add(-s.Offset), true)
	if err != nil {
		return now.UTC().Truncate(24 * time.Hour)
	}
	return tick.Truncate(time.Minute).Add(s.Offset)
}

// Period is about the time between two backups, from a time on.
func (s Schedule) Period(from time.Time) time.Duration {
	if s.Cron == "" {
		return s.Interval
	}
	first := s.Due(from)
	return s.Due(first).Sub(first)
}

// missedBackups is how many backups may be missed until that is a fault.
const missedBackups = 3

// Overdue returns when it is a fault that there is no backup newer than one of a
// time: when the third after it is due.
func (s Schedule) Overdue(newest time.Time) time.Time {
	for range missedBackups {
		newest = s.Due(newest)
	}
	return newest
}
