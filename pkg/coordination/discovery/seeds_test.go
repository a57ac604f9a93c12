package discovery

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseSeeds(t *testing.T) {
	for text, want := range map[string]Seed{
		"10.0.0.1":                  {"", "10.0.0.1:3996"},
		"10.0.0.1:4000":             {"", "10.0.0.1:4000"},
		" 10.0.0.1:4000 ":           {"", "10.0.0.1:4000"},
		"b=10.0.0.1:4000":           {"b", "10.0.0.1:4000"},
		"b=10.0.0.1":                {"b", "10.0.0.1:3996"},
		"fd00::1":                   {"", "[fd00::1]:3996"},
		"[fd00::1]":                 {"", "[fd00::1]:3996"},
		"[fd00::1]:4000":            {"", "[fd00::1]:4000"},
		"b=[fd00::1]:4000":          {"b", "[fd00::1]:4000"},
		"b=fd00::1":                 {"b", "[fd00::1]:3996"},
		"etcd-1.example.com":        {"", "etcd-1.example.com:3996"},
		"etcd_1=etcd-1.local:65535": {"etcd_1", "etcd-1.local:65535"},
	} {
		got, err := ParseSeeds([]string{text}, 3996)
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
			continue
		}
		again, err := ParseSeeds([]string{got[0].String()}, 1)
		if err != nil || !slices.Equal(again, got) {
			t.Errorf("%q is written as %q, which is read as %v, %v", text, got[0], again, err)
		}
	}
}

func TestParseSeedsRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "host is missing",
		"b=":                    "host is missing",
		":4000":                 "host is missing",
		"=10.0.0.1":             "node name is empty",
		"a b=10.0.0.1":          "has the character ' '",
		"10.0.0.1:0":            "not a number from 1 to 65535",
		"10.0.0.1:65536":        "not a number from 1 to 65535",
		"10.0.0.1:http":         "not a number from 1 to 65535",
		"10.0.0.1:":             "not a number from 1 to 65535",
		"fd00::1:40000":         "needs brackets",
		"[fd00::1":              "needs brackets",
		"http://10.0.0.1:4000":  "needs brackets",
		"a=b=10.0.0.1":          "neither an IP address nor a host name",
		"10.0.0.1/24":           "neither an IP address nor a host name",
		"0.0.0.0":               "not reached at 0.0.0.0",
		"[::]:4000":             "not reached at ::",
		"fe80::1%eth0":          "not reached at fe80::1%eth0",
		"10.0.0.1,10.0.0.2":     "neither an IP address nor a host name",
		"10.0.0.1:1,10.0.0.2:2": "needs brackets",
	} {
		got, err := ParseSeeds([]string{"10.0.0.9", text}, 3996)
		if err == nil || got != nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), `seed "`+text) {
			t.Errorf("%q: %v, %v, want %q", text, got, err, want)
		}
	}
}

func TestParseSeedsReturnsEachOnceInOrder(t *testing.T) {
	got, err := ParseSeeds([]string{"10.0.0.2", "10.0.0.1", "10.0.0.2:3996", "b=10.0.0.2"}, 3996)
	want := []Seed{{"", "10.0.0.2:3996"}, {"", "10.0.0.1:3996"}, {"b", "10.0.0.2:3996"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if got, err := ParseSeeds(nil, 3996); err != nil || got != nil {
		t.Errorf("no seeds: %v, %v", got, err)
	}
}

func touch(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, n := range names {
		if err := os.WriteFile(filepath.Join(dir, n), []byte("whatever"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSeedsDir(t *testing.T) {
	dir := t.TempDir()
	touch(t, dir, "10.0.0.2", "10.0.0.1", "fd00::1", ".10.0.0.3.swp")
	want := []Seed{{"", "10.0.0.1:3996"}, {"", "10.0.0.2:3996"}, {"", "[fd00::1]:3996"}}
	got, err := SeedsDir(dir, 3996)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	// What is wrong is reported, what is right is used.
	touch(t, dir, "README", "0.0.0.0")
	got, err = SeedsDir(dir, 3996)
	if err == nil || !strings.Contains(err.Error(), "0.0.0.0, README") || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestSeedsDirThatIsNone(t *testing.T) {
	dir := t.TempDir()
	if got, err := SeedsDir(filepath.Join(dir, "missing"), 3996); err != nil || got != nil {
		t.Errorf("missing: %v, %v", got, err)
	}
	touch(t, dir, "file")
	if got, err := SeedsDir(filepath.Join(dir, "file"), 3996); err == nil || got != nil ||
		!strings.Contains(err.Error(), "read seeds") {
		t.Errorf("a file: %v, %v", got, err)
	}
}
