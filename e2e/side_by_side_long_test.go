//go:build e2e

package e2e

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// sideBySide is how long two of ours and one of the existing kind live side by side;
// ETCDADM_E2E_BESIDE gives another time, and from ten minutes on the stand-in has the times
// of the existing one: it pings every 5 s, and a round takes 10 s.
func sideBySide(t *testing.T) (long, ping time.Duration) {
	t.Helper()
	long = time.Minute
	if testing.Short() {
		long = 20 * time.Second
	}
	if text := os.Getenv("ETCDADM_E2E_BESIDE"); text != "" {
		var err error
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if long >= 10*time.Minute {
		return long, 5 * time.Second
	}
	return long, 250 * time.Millisecond
}

// Two machines have our daemon and one has the existing one, for long. It leads alone and
// takes the backups, ours change nothing, whatever the spec says, and when it goes at last
// the cluster is taken over.
func TestTwoOfOursAndOneOfTheirs(t *testing.T) {
	t.Parallel()
	long, ping := sideBySide(t)
	// More often than the backups are looked for below: a round of the stand-in comes late.
	x := newExchange(t, ping, "--backup-interval="+(long/15).String())
	w := x.c.WriteEvery(20 * time.Millisecond)
	for _, n := range x.nodes[1:] {
		x.exchange(n, x.startOurs)
	}
	x.c.WaitHold(harness.Soon, "existing-daemon")
	w.WaitMore(harness.Soon, 10)
	w.LongestGap()
	began, first := time.Now(), x.backups()
	taken := map[string]bool{} // what is older than an hour is pruned
	for time.Since(began) < long {
		pause(x.c, long/10)
		x.ignoresSpec()
		for _, name := range x.backups() {
			if !slices.Contains(first, name) {
				taken[name] = true
			}
		}
		t.Logf("after %s: %d writes, the longest gap %s, %d new backups", time.Since(began).Round(time.Second), w.Acked(),
			w.LongestGap().Round(time.Millisecond), len(taken))
	}
	if len(taken) < 8 {
		t.Errorf("the new backups are %v, at first there were %v", slices.Sorted(maps.Keys(taken)), first)
	}
	for _, n := range x.nodes {
		log, err := os.ReadFile(n.Log)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d rounds of the stand-in failed", n.Name, bytes.Count(log, []byte("the round of the leader: ")))
	}
	x.exchange(x.nodes[0], x.startOurs)
	x.takenOver()
	w.WaitMore(harness.Soon, 10)
}
