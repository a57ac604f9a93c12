package operate

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// What was found decides whether a machine may build a new member, and whether it may drop
// what a first start has left. Evidence of data beats absence of it.
func TestWhatADataDirectoryHolds(t *testing.T) {
	const log, db = "member/wal/0000000000000000-0000000000000000.wal", "member/snap/db"
	for name, c := range map[string]struct {
		// files are paths below the data directory; one that ends in "/" is a directory, one
		// with " -> " a symbolic link.
		files       []string
		state       cluster.DiskState
		uncommitted bool
	}{
		"nothing":                      {nil, cluster.DiskEmpty, false},
		"no member":                    {[]string{"lost+found/"}, cluster.DiskEmpty, false},
		"an empty member":              {[]string{"member/"}, cluster.DiskEmpty, false},
		"directories alone":            {[]string{"member/wal/", "member/snap/"}, cluster.DiskEmpty, false},
		"a file":                       {[]string{""}, cluster.DiskUnreadable, false},
		"a member that is a file":      {[]string{"member"}, cluster.DiskUnreadable, false},
		"a log that is not begun":      {[]string{"member/wal.tmp/0.wal"}, cluster.DiskUnreadable, true},
		"a database alone":             {[]string{db}, cluster.DiskUnreadable, true},
		"a log that names no member":   {[]string{log, db}, cluster.DiskUnreadable, false},
		"a log that cannot be read":    {[]string{"member/wal -> wal", db}, cluster.DiskUnreadable, false},
		"a member that cannot be read": {[]string{"member -> member"}, cluster.DiskUnreadable, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := dataMachine(t)
			for _, f := range c.files {
				lay(t, m.cfg.Paths.Data, f)
			}
			got := m.data()
			if got.State != c.state || got.Uncommitted != c.uncommitted ||
				(got.Problem != "") != (c.state == cluster.DiskUnreadable) {
				t.Errorf("state %s (%q), uncommitted %t, want %s and %t", got.State, got.Problem, got.Uncommitted,
					c.state, c.uncommitted)
			}
		})
	}
}

// A disk that fails may have hidden anything: it is not an empty one.
func TestDirectoriesThatCannotBeReadAreNotEmpty(t *testing.T) {
	m := dataMachine(t)
	lay(t, m.cfg.Paths.Data, "member/wal/")
	lay(t, m.cfg.Paths.Data, "member/snap/")
	unprivileged(t)
	if got := m.data(); got.State != cluster.DiskEmpty {
		t.Fatalf("directories alone are %s: %s", got.State, got.Problem)
	}
	for _, dir := range []string{"wal", "snap"} {
		path := filepath.Join(m.cfg.Paths.Member(), dir)
		if err := os.Chmod(path, 0); err != nil {
			t.Fatal(err)
		}
		if got := m.data(); got.State != cluster.DiskUnreadable || got.Uncommitted != (dir == "snap") {
			t.Errorf("a directory %s that cannot be read: %s, uncommitted %t", dir, got.State, got.Uncommitted)
		}
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// dataMachine returns a machine whose directories are those of the test.
func dataMachine(t *testing.T) *Machine {
	t.Helper()
	cfg := onDisk(t)
	cfg.Paths.Environment = t.TempDir()
	return &Machine{cfg: cfg}
}

// unprivileged has the test meet the modes of files as others than root do.
func unprivileged(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // capabilities are those of a thread
	t.Cleanup(runtime.UnlockOSThread)
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&head, &caps[0]); err != nil {
		t.Fatal(err)
	}
	before := caps
	caps[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	if err := unix.Capset(&head, &caps[0]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Capset(&head, &before[0]); err != nil {
			t.Error(err)
		}
	})
}

// lay makes a file, a directory ("x/") or a link ("x -> y") below dir.
func lay(t *testing.T, dir, what string) {
	t.Helper()
	name, target, link := strings.Cut(what, " -> ")
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	var err error
	switch {
	case link:
		err = os.Symlink(target, path)
	case strings.HasSuffix(name, "/"):
		err = os.MkdirAll(path, 0o755)
	default:
		err = os.WriteFile(path, []byte("x"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
