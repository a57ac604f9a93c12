package handover

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

func TestDataOnAnotherFileSystem(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "mount")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", other, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(other, unix.MNT_DETACH) })
	from := filepath.Join(dir, "etcd")
	write(t, filepath.Join(from, "member", "snap", "db"), "x")
	var why *machine.Hold
	if err := mayMove(from, filepath.Join(other, "m")); !errors.As(err, &why) || why.Reason != machine.DataApart ||
		!strings.Contains(why.Next, "--manager-data-dir") {
		t.Errorf("before anything is stopped: %v", err)
	}
	if err := moveMember(from, filepath.Join(other, "m")); !errors.As(err, &why) || why.Reason != machine.DataApart {
		t.Errorf("when the data is to be moved: %v", err)
	}
	if there, err := hasMember(from); !there || err != nil {
		t.Errorf("the data is not where it was: %v", err)
	}
	// A data directory that is a mount point of its own is no trouble: what is in
	// it moves.
	write(t, filepath.Join(other, "etcd", "member", "snap", "db"), "y")
	if err := errors.Join(mayMove(other, filepath.Join(other, "manager")),
		moveMember(filepath.Join(other, "etcd"), filepath.Join(other, "manager"))); err != nil {
		t.Error(err)
	}
}

// Data takes the place of an empty directory, and of nothing else.
func TestDataInTheWay(t *testing.T) {
	for _, c := range []struct{ name, there, problem string }{
		{"no directory", "", ""},
		{"an empty data directory", "to/", ""},
		{"an empty member", "to/member/", ""},
		{"a database", "to/member/snap/db", "to"},
		{"what may be one", "to/member/snap/", "to"},
		{"a file", "to/member", "not a directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
			write(t, filepath.Join(from, "member", "snap", "db"), "x")
			if at := filepath.Join(dir, c.there); strings.HasSuffix(c.there, "/") {
				if err := os.MkdirAll(at, 0o700); err != nil {
					t.Fatal(err)
				}
			} else if c.there != "" {
				write(t, at, "y")
			}
			err := moveMember(from, to)
			if (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
				t.Errorf("error %v, want %q", err, c.problem)
			}
			if there, err := hasMember(from); there != (c.problem != "") || err != nil {
				t.Errorf("data is where it was: %t, %v", there, err)
			}
		})
	}
}

func TestTryingToMoveLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	write(t, filepath.Join(from, probeDir, "x"), "") // somebody's, strange as it is
	if err := mayMove(from, to); err != nil {
		t.Fatal(err)
	}
	_ = os.RemoveAll(filepath.Join(to, probeDir))
	for range 2 {
		if err := mayMove(from, to); err != nil {
			t.Fatal(err)
		}
		for _, d := range []string{from, to} {
			if left, err := os.ReadDir(d); err != nil || len(left) > 0 {
				t.Errorf("%s has %v, %v", d, left, err)
			}
		}
	}
}

// A pair that was cut in half is finished, and one that differs is left alone.
func TestCAs(t *testing.T) {
	dir, pki := t.TempDir(), filepath.Join(t.TempDir(), "pki")
	newCA(t, dir, "ca")
	want := func(direction machine.Action, source machine.CAState, others ...machine.CAState) {
		t.Helper()
		var h machine.Handover
		cfg := machine.Config{Paths: machine.Paths{Certificates: dir}}
		r := newRunner(Options{Manager: machine.Manager{PKIDir: pki}}, direction)
		if err := r.authorities(&h, cfg, time.Now()); err != nil {
			t.Fatal(err)
		}
		var got []machine.CAState
		for _, a := range h.Others {
			got = append(got, a.State)
			if a.State == machine.CABad && a.Problem == "" {
				t.Errorf("nobody says what is wrong with %+v", a)
			}
		}
		if h.Source.State != source || !slices.Equal(got, others) {
			t.Errorf("%s: the source is %s, the others are %s", direction, h.Source.State, got)
		}
	}
	const absent, ok, external, bad, other = machine.CAAbsent, machine.CAReady, machine.CAExternal, machine.CABad,
		machine.CAOther
	want(machine.ToManager, ok, absent, absent, absent)
	source, err := readPair(dir, "ca")
	if err == nil {
		err = source.write(pki, certs.PeersCA, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	want(machine.ToManager, ok, absent, ok, absent)
	if err := os.Remove(filepath.Join(pki, certs.PeersCA+".crt")); err != nil {
		t.Fatal(err)
	}
	want(machine.ToManager, ok, absent, absent, absent) // half a pair
	for _, name := range managerCAs {
		if err := source.write(pki, name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	want(machine.ToManager, ok, ok, ok, ok)
	for path, mode := range map[string]os.FileMode{".key": 0o600, ".crt": 0o644} {
		if st, err := os.Stat(filepath.Join(pki, certs.ManagerCA+path)); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, st.Mode(), err)
		}
	}
	want(machine.FromManager, ok, ok, ok)
	if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	want(machine.FromManager, ok, ok, external) // its key is kept elsewhere
	want(machine.ToManager, bad, other, other, other)
	newCA(t, dir, "ca")
	want(machine.FromManager, ok, ok, other)
	want(machine.ToManager, ok, other, other, other)
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(machine.FromManager, ok, ok, bad)
}
