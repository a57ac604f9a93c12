package backupagent

import (
	"testing"
	"time"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	x, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestDue(t *testing.T) {
	for _, c := range []struct {
		name         string
		s            Schedule
		newest, want string
	}{
		{"an interval counts from the newest", Schedule{Interval: 15 * time.Minute}, "2026-11-20T10:39:37Z",
			"2026-11-20T10:54:37Z"},
		{"cron", Schedule{Cron: "0 3 * * *"}, "2026-11-20T02:59:00Z", "2026-11-20T03:00:00Z"},
		{"a backup at its time is that of the time", Schedule{Cron: "0 3 * * *"}, "2026-11-20T03:00:00Z",
			"2026-11-21T03:00:00Z"},
		{"and one a little later", Schedule{Cron: "0 3 * * *"}, "2026-11-20T03:07:11Z", "2026-11-21T03:00:00Z"},
		{"and one by a clock that is ahead", Schedule{Cron: "0 3 * * *"}, "2026-11-20T02:59:50Z", "2026-11-21T03:00:00Z"},
		{"every minute", Schedule{Cron: "* * * * *"}, "2026-11-20T03:00:01Z", "2026-11-20T03:01:00Z"},
		{"on weekdays", Schedule{Cron: "30 22 * * 1-5"}, "2026-11-20T22:30:05Z", "2026-11-23T22:30:00Z"},
		{"a name", Schedule{Cron: "@hourly"}, "2026-11-20T22:30:05Z", "2026-11-20T23:00:00Z"},
		{"with an offset", Schedule{Cron: "0 * * * *", Offset: 7 * time.Minute}, "2026-11-20T10:05:00Z",
			"2026-11-20T10:07:00Z"},
		{"after the offset", Schedule{Cron: "0 * * * *", Offset: 7 * time.Minute}, "2026-11-20T10:07:03Z",
			"2026-11-20T11:07:00Z"},
		{"in UTC", Schedule{Cron: "0 3 * * *"}, "2026-11-20T04:30:00+02:00", "2026-11-20T03:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.s.Validate(); err != nil {
				t.Fatal(err)
			}
			if got := c.s.Due(at(t, c.newest)); !got.Equal(at(t, c.want)) {
				t.Errorf("%s, want %s", got, c.want)
			}
			if !c.s.Due(time.Time{}).IsZero() {
				t.Error("the first is not due at once")
			}
		})
	}
}

func TestSlotIsTheSameForAllAgents(t *testing.T) {
	for _, c := range []struct {
		s         Schedule
		now, want string
	}{
		{Schedule{Interval: 15 * time.Minute}, "2026-11-20T10:39:37Z", "2026-11-20T10:30:00Z"},
		{Schedule{Interval: 15 * time.Minute}, "2026-11-20T10:30:00Z", "2026-11-20T10:30:00Z"},
		{Schedule{Cron: "0 3 * * *"}, "2026-11-20T10:39:37Z", "2026-11-20T03:00:00Z"},
		{Schedule{Cron: "0 3 * * *"}, "2026-11-20T03:00:00Z", "2026-11-20T03:00:00Z"},
		{Schedule{Cron: "0 3 * * *"}, "2026-11-20T03:00:59Z", "2026-11-20T03:00:00Z"},
		{Schedule{Cron: "0 3 * * *"}, "2026-11-20T02:59:59Z", "2026-11-19T03:00:00Z"},
		{Schedule{Cron: "0 * * * *", Offset: 7 * time.Minute}, "2026-11-20T10:06:59Z", "2026-11-20T09:07:00Z"},
		{Schedule{Cron: "0 * * * *", Offset: 7 * time.Minute}, "2026-11-20T10:07:30Z", "2026-11-20T10:07:00Z"},
	} {
		if got := c.s.Slot(at(t, c.now)); !got.Equal(at(t, c.want)) {
			t.Errorf("%+v at %s: %s, want %s", c.s, c.now, got, c.want)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, bad := range []Schedule{
		{}, {Interval: -time.Minute}, {Interval: time.Millisecond},
		{Cron: "x"}, {Cron: "* * * *"}, {Cron: "0 0 3 * * *"}, {Cron: "61 * * * *"}, {Cron: "0 0 30 2 *"}, {Cron: "@never"}, {
			Cron: "@everysecond",
		},
	} {
		if err := bad.Validate(); err == nil {
			t.Errorf("%+v is accepted; next %s", bad, bad.Due(at(t, "2026-11-20T10:39:37Z")))
		}
	}
}

func TestOverdueAfterThreeMissedBackups(t *testing.T) {
	from := at(t, "2026-11-20T10:00:00Z")
	if got := (Schedule{Interval: time.Hour}).Overdue(from); got.Sub(from) != 3*time.Hour {
		t.Errorf("%s", got)
	}
	if got := (Schedule{Cron: "0 3 * * *"}).Overdue(from); !got.Equal(at(t, "2026-11-23T03:00:00Z")) {
		t.Errorf("%s", got)
	}
	if got := (Schedule{Cron: "0 3 * * *"}).Period(from); got != 24*time.Hour {
		t.Errorf("%s", got)
	}
}

func TestSpreadIsOfTheCluster(t *testing.T) {
	seen := map[time.Duration]bool{}
	for _, name := range []string{"main", "events", "main-b", "main-c"} {
		d := Spread(name, 10*time.Minute)
		if d < 0 || d >= 10*time.Minute || d != Spread(name, 10*time.Minute) {
			t.Errorf("%s: %s", name, d)
		}
		seen[d] = true
	}
	if len(seen) < 3 || Spread("main", 0) != 0 {
		t.Errorf("%v", seen)
	}
}

func FuzzCron(f *testing.F) {
	f.Add("0 3 * * *", int64(0))
	f.Add("*/7 1-5 L * 2#1", int64(1<<31))
	f.Add("@daily", int64(99))
	f.Fuzz(func(t *testing.T, cron string, unix int64) {
		s := Schedule{Cron: cron}
		if cron == "" || s.Validate() != nil {
			return
		}
		from := time.Unix(unix%(1<<32), 0)
		if due := s.Due(from); !due.After(from) {
			t.Errorf("%q: after %s comes %s", cron, from, due)
		}
		if slot := s.Slot(from); slot.After(from.Add(time.Minute)) {
			t.Errorf("%q: the slot of %s is %s", cron, from, slot)
		}
	})
}
