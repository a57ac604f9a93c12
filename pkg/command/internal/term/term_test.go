package term

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// poisoned is what a node has on disk that has followed a caller gone wrong.
const poisoned = `{"format":1,"written":[],"state":{"term":18446744073709551615,
"grant":{"term":18446744073709551615,"holder":"x","boot":"b"},
"leaseVoters":{"token":"tok","term":18446744073709551615,"seq":2,"names":["a","b"]},"revision":3000000}}`

func run(args ...string) (string, error) {
	cmd := New()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(append([]string{"reset"}, args...))
	err := cmd.Execute()
	return out.String(), err
}

func writePoisoned(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "etcdadm.json"), []byte(poisoned), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestResetMakesAPoisonedDiskUsable(t *testing.T) {
	dir := t.TempDir()
	writePoisoned(t, dir)
	self := nodestate.Self{Name: "a"}
	f, err := nodestate.Open(dir, self)
	if err != nil {
		t.Fatal(err)
	}
	// The daemon has it open.
	var locked *hostfs.LockedError
	if _, err := run("--data-dir", dir, "--to", "41"); !errors.As(err, &locked) {
		t.Fatalf("beside a daemon: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := run("--data-dir", dir, "--to", "42", "-o", "json"); err != nil ||
		!strings.Contains(out, `"kind": "TermReset"`) {
		t.Fatalf("%q, %v", out, err)
	}
	writePoisoned(t, dir)
	out, err := run("--data-dir", dir, "--to", "41")
	if err != nil || !strings.Contains(out, "18446744073709551615 and now is 41") {
		t.Fatalf("%q, %v", out, err)
	}
	if f, err = nodestate.Open(dir, self); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := f.State()
	if s.Term != 41 || s.Grant.Term != 41 || s.Grant.Holder != "x" || s.LeaseVoters.Term != 41 || s.Revision != 3000000 {
		t.Errorf("the state is %+v", s)
	}
	err = f.Update(func(s *nodestate.State) error { s.Term = math.MaxUint64; return nil })
	if err == nil || f.State().Term != 41 {
		t.Errorf("the disk takes a poisoned term: %v", err)
	}
	if err := f.Update(func(s *nodestate.State) error { s.Term = cluster.Term(42); return nil }); err != nil {
		t.Error(err)
	}
}

func TestResetRefuses(t *testing.T) {
	empty, healthy := t.TempDir(), t.TempDir()
	disk := `{"format":1,"written":[],"state":{"term":7,"grant":{"term":7,"holder":"x","boot":"b"}}}`
	if err := os.WriteFile(filepath.Join(healthy, "etcdadm.json"), []byte(disk), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		dir, to, kind, hint string
	}{
		{healthy, "0", cli.KindUsage, "lease.term"},
		{healthy, "9223372036854775808", cli.KindUsage, "lease.term"},
		{healthy, "8", cli.KindUsage, "lease.term"},
		{healthy, "5", cli.KindRefused, "start etcd-manager"},
		{healthy, "7", cli.KindRefused, "start etcd-manager"},
		{empty, "5", cli.KindFailed, "--data-dir"},
		{filepath.Join(empty, "missing"), "5", cli.KindFailed, "--data-dir"},
	} {
		out, err := run("--data-dir", tc.dir, "--to", tc.to)
		var hinted interface{ Hint() string }
		if err == nil || cli.Classify(err).Kind != tc.kind || !errors.As(err, &hinted) ||
			!strings.Contains(hinted.Hint(), tc.hint) {
			t.Errorf("--to=%s in %s: %q, %v", tc.to, tc.dir, out, err)
		}
	}
	if _, err := run("--data-dir", healthy); err == nil {
		t.Error("it goes back to no term at all")
	}
	if left, err := os.ReadDir(empty); err != nil || len(left) > 0 {
		t.Errorf("an empty directory has %v, %v", left, err)
	}
	if got, err := os.ReadFile(filepath.Join(healthy, "etcdadm.json")); err != nil || string(got) != disk {
		t.Errorf("a healthy node was changed to %s, %v", got, err)
	}
}
