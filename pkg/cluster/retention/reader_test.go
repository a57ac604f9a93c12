package retention

import (
	"testing"
	"time"
)

// FuzzReader holds the fast reader to the slow one.
func FuzzReader(f *testing.F) {
	for _, s := range []string{
		"2026-11-20T10:39:37Z-000001", "2024-02-29T23:59:59Z-1", "2026-02-29T00:00:00Z-1", "2026-13-01T00:00:00Z-1",
		"2026-00-10T00:00:00Z-1", "2026-11-31T00:00:00Z-1", "2026-11-20T24:00:00Z-1", "2026-11-20T10:60:00Z-1",
		"2026-11-20T10:39:60Z-1", "2026-11-20T10:39:37Z", "2026-11-20T10:39:37Zx000001", "2026-11-20T10:39:37+01:00-1",
		"0000-01-01T00:00:00Z-", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		var r reader
		for range 2 { // the second time it remembers the day
			fast, ok := r.read(name)
			if !ok {
				return
			}
			slow, err := ParseName(name)
			if err != nil || slow.Unix() != fast {
				t.Errorf("%q is %d, and %s (%v) to the slow reader", name, fast, slow, err)
			}
		}
	})
}

func TestTheUsualNamesAreReadFast(t *testing.T) {
	at := time.Date(2026, 11, 20, 10, 39, 37, 0, time.UTC)
	var r reader
	if got, ok := r.read(Name(at, 1)); !ok || got != at.Unix() {
		t.Errorf("%d, %t", got, ok)
	}
}
