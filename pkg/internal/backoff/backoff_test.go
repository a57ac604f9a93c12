package backoff

import (
	"math"
	"testing"
	"time"
)

func TestDoubled(t *testing.T) {
	for _, tt := range []struct {
		name           string
		first, longest time.Duration
		n              int
		want           time.Duration
	}{
		{"the first failure", time.Second, time.Minute, 0, time.Second},
		{"before any failure", time.Second, time.Minute, -1, time.Second},
		{"it doubles", time.Second, time.Minute, 3, 8 * time.Second},
		{"up to the longest", time.Second, time.Minute, 6, time.Minute},
		{"the longest is no power of two", time.Second, 5 * time.Second, 3, 5 * time.Second},
		{"the first is longer", time.Hour, time.Minute, 0, time.Minute},
		{"after a year of failures", time.Millisecond, time.Minute, 1 << 30, time.Minute},
		{"it does not overflow", time.Second, math.MaxInt64, 1000, math.MaxInt64},
	} {
		if got := Doubled(tt.first, tt.longest, tt.n); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
