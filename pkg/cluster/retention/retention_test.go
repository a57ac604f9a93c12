package retention

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/internal/bytesize"
)

// TestScenarios runs testdata/scenarios.txt. Its blocks are "policy", "limits"
// (number and bytes, 0 for none), "now", backup names and, after each name, the
// verdict that Keep must give. A name may be followed by "damaged" and a size.
func TestScenarios(t *testing.T) {
	file, err := os.Open("testdata/scenarios.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	type scenario struct {
		name     string
		policy   Policy
		now      time.Time
		backups  []cluster.Backup
		verdicts []string
	}
	var scenarios []*scenario
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		word, rest, _ := strings.Cut(line, " ")
		var last *scenario
		if len(scenarios) > 0 {
			last = scenarios[len(scenarios)-1]
		}
		switch word {
		case "", "#":
		case "scenario":
			scenarios = append(scenarios, &scenario{name: rest})
		case "policy":
			hourly, daily, _ := strings.Cut(rest, " ")
			if last.policy.Hourly, err = ParseDuration(hourly); err != nil {
				t.Fatal(err)
			}
			if last.policy.Daily, err = ParseDuration(daily); err != nil {
				t.Fatal(err)
			}
		case "limits":
			count, bytes, _ := strings.Cut(rest, " ")
			if last.policy.MaxCount, err = strconv.Atoi(count); err != nil {
				t.Fatal(err)
			}
			if last.policy.MaxBytes, err = bytesize.Parse(bytes); err != nil {
				t.Fatal(err)
			}
		case "now":
			if last.now, err = time.Parse(time.RFC3339, rest); err != nil {
				t.Fatal(err)
			}
		default:
			b := named(word)[0]
			if r, ok := strings.CutPrefix(rest, "damaged "); ok {
				b.Damaged, rest = true, r
			}
			if size, r, ok := strings.Cut(rest, " "); ok {
				if n, err := bytesize.Parse(size); err == nil {
					b.Size, rest = n, r
				}
			}
			last.backups = append(last.backups, b)
			last.verdicts = append(last.verdicts, strings.TrimSpace(rest))
		}
	}
	if len(scenarios) < 5 {
		t.Fatalf("read %d scenarios", len(scenarios))
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			for i, v := range Keep(s.policy, s.now, s.backups) {
				got := "remove: " + v.Reason
				if v.Keep {
					got = "keep: " + v.Reason
				}
				if got != s.verdicts[i] || v.Backup != s.backups[i] {
					t.Errorf("%s\n got %s\nwant %s", s.backups[i].Name, got, s.verdicts[i])
				}
			}
		})
	}
}

func named(names ...string) []cluster.Backup {
	var backups []cluster.Backup
	for _, n := range names {
		at, _ := ParseName(n)
		backups = append(backups, cluster.Backup{Name: n, At: at})
	}
	return backups
}

var testNow = time.Date(2026, 11, 20, 10, 39, 37, 0, time.UTC)

// randomBackups returns n backups whose ages cover every rule, in no order.
func randomBackups(r *rand.Rand, n int) []cluster.Backup {
	spans := []time.Duration{time.Hour, 3 * time.Hour, 8 * day, 400 * day, 3 * year}
	var names []string
	for range n {
		age := time.Duration(r.Int64N(int64(spans[r.IntN(len(spans))])))
		if r.IntN(50) == 0 {
			age = -age
		}
		name := Name(testNow.Add(-age), r.IntN(3))
		if r.IntN(100) == 0 {
			name = fmt.Sprintf("hand-made-%d", r.IntN(1000))
		}
		names = append(names, name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return named(names...)
}

// naive is the policy again, written as its description reads.
func naive(p Policy, now time.Time, backups []cluster.Backup) map[string]bool {
	sorted := slices.Clone(backups)
	slices.SortFunc(sorted, func(a, b cluster.Backup) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	keep := map[string]bool{}
	hours, days := map[string]bool{}, map[string]bool{}
	newest := ""
	// Days are counted from 1970, in UTC.
	dayOf := func(at time.Time) int64 { return at.Unix() / (24 * 60 * 60) }
	occupied, today := map[int64]bool{}, dayOf(now)
	first := today
	for _, b := range sorted {
		if at, err := ParseName(b.Name); err == nil && !at.After(now) {
			occupied[dayOf(at)] = true
			first = min(first, dayOf(at))
		}
	}
	// counted walks back from now, day by day, to the first: of each stretch without
	// a backup the first days count, up to most. It returns the ages that count.
	counted := func(most int) func(at time.Time) time.Duration {
		left, run, uncounted := time.Duration(0), 0, map[int64]time.Duration{}
		for d := today - 1; d >= first; d-- {
			if run++; run > most {
				left += day
			}
			if occupied[d] {
				run = 0
			}
			uncounted[d] = left
		}
		return func(at time.Time) time.Duration { return now.Sub(at) - uncounted[dayOf(at)] }
	}
	hourly, daily := counted(1), counted(8)
	for _, b := range sorted {
		at, err := ParseName(b.Name)
		age := now.Sub(at)
		if err != nil || age < 0 {
			keep[b.Name] = true
			continue
		}
		newest = b.Name
		hour, date := at.Format("2006-01-02 15"), at.Format("2006-01-02")
		switch {
		case age < time.Hour:
			keep[b.Name] = true
		case hourly(at) < p.Hourly:
			keep[b.Name] = !hours[hour]
			hours[hour] = true
		case daily(at) < p.Daily:
			keep[b.Name] = !days[date]
			days[date] = true
		}
	}
	keep[newest] = true
	return keep
}

func TestKeepDoesWhatThePolicySays(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		backups := randomBackups(r, 1+r.IntN(300))
		policy := Policy{Hourly: time.Duration(1+r.IntN(10)) * day, Daily: time.Duration(1+r.IntN(500)) * day}
		want := naive(policy, testNow, backups)
		var kept []cluster.Backup
		for i, v := range Keep(policy, testNow, backups) {
			if v.Backup != backups[i] {
				t.Fatalf("seed %d: verdict %d is about %s, not %s", seed, i, v.Backup.Name, backups[i].Name)
			}
			if v.Keep != want[v.Backup.Name] {
				t.Errorf("seed %d: %s: keep is %t (%s)", seed, v.Backup.Name, v.Keep, v.Reason)
			}
			if v.Reason == "" {
				t.Errorf("seed %d: %s: no reason", seed, v.Backup.Name)
			}
			if v.Keep {
				kept = append(kept, v.Backup)
			}
		}
		// What is kept stays kept: pruning twice is pruning once.
		for _, v := range Keep(policy, testNow, kept) {
			if !v.Keep {
				t.Errorf("seed %d: %s was kept and is then removed: %s", seed, v.Backup.Name, v.Reason)
			}
		}
	}
}

// A store that is pruned each minute, with a backup every fifteen, holds in the
// end what the policy promises and not much more.
func TestPruningForMonthsKeepsOneAnHourAndOneADay(t *testing.T) {
	policy := Policy{Hourly: 2 * day, Daily: 30 * day}
	var store []cluster.Backup
	now := testNow
	for range 60 * 24 * 4 {
		now = now.Add(15 * time.Minute)
		store = append(store, named(Name(now, 1))...)
		var kept []cluster.Backup
		for _, v := range Keep(policy, now, store) {
			if v.Keep {
				kept = append(kept, v.Backup)
			}
		}
		store = kept
	}
	hours, days := map[int64]bool{}, map[int64]bool{}
	for _, b := range store {
		hours[slot(b.At.Unix(), time.Hour)] = true
		days[slot(b.At.Unix(), day)] = true
	}
	for age := time.Duration(0); age < policy.Daily; age += time.Hour {
		at := now.Add(-age).Unix()
		if age < policy.Hourly && !hours[slot(at, time.Hour)] {
			t.Errorf("no backup of the hour %s ago", age)
		}
		// The oldest day goes piecemeal: its earliest backup first.
		if age < policy.Daily-day && !days[slot(at, day)] {
			t.Errorf("no backup of the day %s ago", age)
		}
	}
	if most := 4 + 48 + 1 + 30 + 1; len(store) > most {
		t.Errorf("%d backups are kept, at most %d are needed", len(store), most)
	}
}

func TestKeepOfNothing(t *testing.T) {
	if v := Keep(Policy{}, testNow, nil); len(v) != 0 {
		t.Errorf("%v", v)
	}
}

func TestSlotRoundsDownBefore1970(t *testing.T) {
	for _, c := range []struct{ unix, want int64 }{{-1, -1}, {-3600, -1}, {-3601, -2}, {0, 0}, {3599, 0}, {3600, 1}} {
		if got := slot(c.unix, time.Hour); got != c.want {
			t.Errorf("slot(%d) = %d, want %d", c.unix, got, c.want)
		}
	}
}
