package retention

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// randomWorld returns backups of all kinds, some of them damaged, and a policy
// whose limits are often, but not always, reached.
func randomWorld(seed uint64, most int) (Policy, []cluster.Backup) {
	r := rand.New(rand.NewPCG(seed, 2))
	backups := randomBackups(r, 1+r.IntN(most))
	damage := r.IntN(5)
	for i := range backups {
		backups[i].Size = r.Int64N(100)
		backups[i].Damaged = r.IntN(6) < damage
	}
	policy := Policy{Hourly: time.Duration(1+r.IntN(10)) * day, Daily: time.Duration(10+r.IntN(500)) * day}
	if r.IntN(2) == 0 {
		policy.MaxCount = 1 + r.IntN(most)
	}
	if r.IntN(2) == 0 {
		policy.MaxBytes = 1 + r.Int64N(int64(50*most))
	}
	return policy, backups
}

func keptOf(policy Policy, backups []cluster.Backup) []cluster.Backup {
	var kept []cluster.Backup
	for _, v := range Keep(policy, testNow, backups) {
		if v.Keep {
			kept = append(kept, v.Backup)
		}
	}
	return kept
}

// lasting returns the newest backup that is not from the future, and the newest
// good one, by sorting.
func lasting(backups []cluster.Backup) (newest, good string) {
	sorted := slices.SortedFunc(slices.Values(backups), func(a, b cluster.Backup) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	for _, b := range sorted {
		if _, err := ParseName(b.Name); err != nil || b.At.After(testNow) {
			continue
		}
		newest = b.Name
		if !b.Damaged {
			good = b.Name
		}
	}
	return newest, good
}

func TestWhatHoldsForEveryPolicy(t *testing.T) {
	for seed := range uint64(400) {
		policy, backups := randomWorld(seed, 200)
		verdicts := Keep(policy, testNow, backups)
		newest, good := lasting(backups)
		count, bytes, floor := 0, int64(0), 0
		kept := keptOf(policy, backups)
		for i, v := range verdicts {
			_, err := ParseName(v.Backup.Name)
			last := v.Backup.Name == newest || v.Backup.Name == good
			switch {
			case v.Backup != backups[i] || v.Reason == "":
				t.Fatalf("seed %d: verdict %d is %+v", seed, i, v)
			case !v.Keep && (last || err != nil || v.Backup.At.After(testNow)):
				t.Errorf("seed %d: %+v is removed", seed, v)
			case v.Keep && err == nil && !v.Backup.At.After(testNow):
				count++
				bytes += v.Backup.Size
				if last {
					floor++
				}
			}
		}
		// Over a limit is only what must stay.
		if policy.MaxCount > 0 && count > policy.MaxCount && count > floor {
			t.Errorf("seed %d: %d are kept, %d may be", seed, count, policy.MaxCount)
		}
		if policy.MaxBytes > 0 && bytes > policy.MaxBytes && count > floor {
			t.Errorf("seed %d: %d bytes in %d backups are kept, %d bytes may be", seed, bytes, count, policy.MaxBytes)
		}
		if again := keptOf(policy, kept); !slices.Equal(again, kept) {
			t.Errorf("seed %d: of %d that were kept a second observation keeps %d", seed, len(kept), len(again))
		}
	}
}

func TestTheOrderOfTheBackupsDoesNotMatter(t *testing.T) {
	for seed := range uint64(200) {
		policy, backups := randomWorld(seed, 200)
		want := map[string]Verdict{}
		for _, v := range Keep(policy, testNow, backups) {
			want[v.Backup.Name] = v
		}
		r := rand.New(rand.NewPCG(seed, 3))
		r.Shuffle(len(backups), func(i, j int) { backups[i], backups[j] = backups[j], backups[i] })
		for _, v := range Keep(policy, testNow, backups) {
			if v != want[v.Backup.Name] {
				t.Errorf("seed %d: in another order it is %+v, not %+v", seed, v, want[v.Backup.Name])
			}
		}
	}
}

func TestATighterLimitKeepsNothingMore(t *testing.T) {
	for seed := range uint64(200) {
		policy, backups := randomWorld(seed, 200)
		before := keptOf(policy, backups)
		r := rand.New(rand.NewPCG(seed, 4))
		tighter := policy
		if tighter.MaxCount == 0 || r.IntN(2) == 0 {
			tighter.MaxCount = 1 + r.IntN(max(1, len(before)))
			if policy.MaxCount > 0 {
				tighter.MaxCount = min(tighter.MaxCount, policy.MaxCount)
			}
		} else {
			tighter.MaxBytes = 1 + r.Int64N(max(1, policy.MaxBytes))
		}
		for _, b := range keptOf(tighter, backups) {
			if !slices.Contains(before, b) {
				t.Errorf("seed %d: %+v keeps %s, which %+v does not", seed, tighter, b.Name, policy)
			}
		}
	}
}

func TestLongerRetentionKeepsNoFewer(t *testing.T) {
	for seed := range uint64(200) {
		policy, backups := randomWorld(seed, 200)
		policy.MaxCount, policy.MaxBytes = 0, 0
		longer := policy
		longer.Daily += 30 * day
		if a, b := len(keptOf(policy, backups)), len(keptOf(longer, backups)); b < a {
			t.Errorf("seed %d: %d are kept for %s, %d for %s", seed, a, policy.Daily, b, longer.Daily)
		}
	}
}

// What was let go stays let go when another backup is taken. Bytes are left
// out: where a small backup takes the place of a large one there is room again.
func TestANewBackupBringsNoneBack(t *testing.T) {
	for seed := range uint64(200) {
		policy, backups := randomWorld(seed, 200)
		policy.MaxBytes = 0
		before := keptOf(policy, backups)
		newer := cluster.Backup{Name: Name(testNow, 900), At: testNow}
		for _, b := range keptOf(policy, append(slices.Clone(backups), newer)) {
			if b != newer && !slices.Contains(before, b) {
				t.Errorf("seed %d: %s was let go and is kept again", seed, b.Name)
			}
		}
	}
}

func TestKeepAllocatesLittle(t *testing.T) {
	backups := randomBackups(rand.New(rand.NewPCG(1, 1)), 10_000)
	for _, policy := range []Policy{{}, {MaxCount: 50, MaxBytes: 1 << 30}} {
		if n := testing.AllocsPerRun(3, func() { Keep(policy, testNow, backups) }); n > 1000 {
			t.Errorf("%.0f allocations for %d backups under %+v", n, len(backups), policy)
		}
	}
}

func BenchmarkKeep(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		// Twice as many, as some names come twice and are left out.
		backups := randomBackups(rand.New(rand.NewPCG(1, 1)), 2*n)[:n]
		for i := range backups {
			backups[i].Size, backups[i].Damaged = 1<<20, i%100 == 0
		}
		for name, policy := range map[string]Policy{
			"ages": {}, "limits": {Hourly: year, Daily: 3 * year, MaxCount: 1000, MaxBytes: 500 << 20},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					Keep(policy, testNow, backups)
				}
			})
		}
	}
}

// FuzzKeep takes each three bytes for a backup: its age, what it is named and
// whether it is damaged.
func FuzzKeep(f *testing.F) {
	f.Add([]byte("some bytes that are backups"), uint16(3), uint32(100))
	f.Add([]byte{0, 0, 0, 255, 255, 255, 1, 1, 1}, uint16(0), uint32(1))
	f.Fuzz(func(t *testing.T, b []byte, count uint16, bytes uint32) {
		var backups []cluster.Backup
		seen := map[string]bool{}
		for ; len(b) >= 3; b = b[3:] {
			age := time.Duration(int(b[0])-10) * time.Duration(b[1]+1) * 17 * time.Minute
			x := named(Name(testNow.Add(-age), int(b[2]>>2)))[0]
			if b[2] == 0 {
				x.Name = string(b[:2])
			}
			x.Damaged, x.Size = b[2]&1 == 1, int64(b[2])
			if !seen[x.Name] {
				backups = append(backups, x)
			}
			seen[x.Name] = true
		}
		policy := Policy{Hourly: day, Daily: 100 * day, MaxCount: int(count), MaxBytes: int64(bytes)}
		kept := keptOf(policy, backups)
		if again := keptOf(policy, kept); !slices.Equal(again, kept) {
			t.Errorf("%d are kept, then %d", len(kept), len(again))
		}
		newest, good := lasting(backups)
		for _, name := range []string{newest, good} {
			if name != "" && !slices.ContainsFunc(kept, func(b cluster.Backup) bool { return b.Name == name }) {
				t.Errorf("%s is removed", name)
			}
		}
		if n := len(Expired(policy, testNow, backups)); n+len(kept) != len(backups) {
			t.Errorf("%d of %d are kept and %d expired", len(kept), len(backups), n)
		}
	})
}
