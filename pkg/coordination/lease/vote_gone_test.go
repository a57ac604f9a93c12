package lease

import (
	"testing"
	"time"
)

// Whose lease has run out is still known when another one, also this node itself, has got
// it and renews it: its first observation is not to wait for a machine that is off. Later
// it counts as any other.
func TestWhoLapsedIsKnownToTheNextOne(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	v := (*Vote)(nil).After(now, "b", Request{Holder: "a"}, true)
	if got := v.Lapsed(now.Add(time.Second)); got != "" {
		t.Errorf("%s has lapsed while its lease runs", got)
	}
	taken := now.Add(DefaultTTL)
	for _, after := range []time.Duration{0, 500 * time.Millisecond, time.Second} {
		v = v.After(taken.Add(after), "b", Request{Holder: "b"}, true)
		if got := v.Lapsed(taken.Add(after)); got != "a" {
			t.Errorf("%s after the next lease %q has lapsed, want a", after, got)
		}
	}
	v = v.After(taken.Add(1500*time.Millisecond), "b", Request{Holder: "b"}, true)
	if got := v.Lapsed(taken.Add(DefaultTTL)); got != "" {
		t.Errorf("%s has lapsed forever", got)
	}
	// Who lapses, and takes its own lease again, is not gone.
	again := (&Vote{At: now, To: "a"}).After(taken, "b", Request{Holder: "a"}, true)
	if got := again.Lapsed(taken); got != "" {
		t.Errorf("%s has lapsed, and has the lease", got)
	}
}
