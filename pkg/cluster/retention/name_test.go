package retention

import (
	"testing"
	"time"
)

func TestNames(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 39, 37, 999, time.FixedZone("east", 2*3600))
	for _, c := range []struct {
		sequence int
		want     string
	}{
		{1, "2026-11-20T10:39:37Z-000001"},
		{999999, "2026-11-20T10:39:37Z-999999"},
		{1000000, "2026-11-20T10:39:37Z-000000"},
		{-5, "2026-11-20T10:39:37Z-000000"},
	} {
		name := Name(at, c.sequence)
		if name != c.want {
			t.Errorf("sequence %d: %s, want %s", c.sequence, name, c.want)
		}
		got, err := ParseName(name)
		if err != nil || !got.Equal(at.Truncate(time.Second)) || got.Location() != time.UTC {
			t.Errorf("%s is read as %v, %v", name, got, err)
		}
	}
}

func TestParseName(t *testing.T) {
	for _, good := range []string{
		"2026-11-20T10:39:37Z-000001", "2026-11-20T10:39:37Z-", "2026-11-20T10:39:37Z-by-handZ-1",
		"2026-11-20T10:39:37Z", "2026-11-20T12:39:37+02:00",
	} {
		at, err := ParseName(good)
		if err != nil || !at.Equal(time.Date(2026, 11, 20, 10, 39, 37, 0, time.UTC)) {
			t.Errorf("%s: %v, %v", good, at, err)
		}
	}
	for _, bad := range []string{
		"", "Z-", "control", "2026-11-20", "2026-11-20T10:39:37", "2026-11-20T10:39:37-000001",
		"2026-13-20T10:39:37Z-000001", "x2026-11-20T10:39:37Z-000001", "2026-11-20T12:39:37+02:00-000001",
	} {
		if at, err := ParseName(bad); err == nil {
			t.Errorf("%q is read as %v", bad, at)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"168h": 168 * time.Hour, "7d": 168 * time.Hour, "90d": 90 * 24 * time.Hour, "2y": 17520 * time.Hour,
		"1h30m": 90 * time.Minute, "0": 0, "0d": 0, "292y": 292 * 365 * 24 * time.Hour,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, bad := range []string{
		"", "d", "y", "7", "-7d", "+7d", "-1h", "1.5d", "1d12h", "7 d", "7w", "293y", "4294967295y", "99999999999999999999d",
	} {
		if got, err := ParseDuration(bad); err == nil {
			t.Errorf("%q is read as %s", bad, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("2026-11-20T10:39:37Z-000001")
	f.Add("90d")
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParseDuration(s); err == nil && d < 0 {
			t.Errorf("%q is read as %s", s, d)
		}
		if at, err := ParseName(s); err == nil {
			if back, err := ParseName(Name(at, 1)); at.Year() > 0 && (err != nil || back.Unix() != at.Unix()) {
				t.Errorf("%q is read as %v, which is written and read as %v, %v", s, at, back, err)
			}
		}
	})
}
