package handover

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/certs"
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
	var why *Hold
	if err := mayMove(from, filepath.Join(other, "m")); !errors.As(err, &why) || why.Reason != DataApart ||
		!strings.Contains(why.Next, flag) {
		t.Errorf("before anything is stopped: %v", err)
	}
	if err := moveMember(from, filepath.Join(other, "m")); !errors.As(err, &why) || why.Reason != DataApart {
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
	now := time.Now()
	missing, source, err := missingCAs(dir, pki, now)
	if err != nil || len(missing) != 3 {
		t.Fatal(missing, err)
	}
	if err := source.write(pki, certs.PeersCA, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(filepath.Join(pki, certs.PeersCA+".crt"))); err != nil {
		t.Fatal(err)
	}
	if missing, _, err = missingCAs(dir, pki, now); err != nil || len(missing) != 3 {
		t.Errorf("with half a pair: %v, %v", missing, err)
	}
	for _, name := range missing {
		if err := source.write(pki, name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if missing, _, err = missingCAs(dir, pki, now); err != nil || len(missing) != 0 {
		t.Errorf("with all of them: %v, %v", missing, err)
	}
	for path, mode := range map[string]os.FileMode{".key": 0o600, ".crt": 0o644} {
		if st, err := os.Stat(filepath.Join(pki, certs.ManagerCA+path)); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, st.Mode(), err)
		}
	}
	if got, err := ownCA(dir, pki, now); err != nil || got.crt != nil {
		t.Errorf("on the way back, the same CA is there: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	if got, err := ownCA(dir, pki, now); err != nil || got.crt != nil {
		t.Errorf("its key is kept elsewhere: %v", err)
	}
	if err := os.Rename(filepath.Join(pki, certs.PeersCA+".key"), filepath.Join(pki, "away")); err != nil {
		t.Fatal(err)
	}
	var why *Hold
	if _, _, err := missingCAs(dir, pki, now); !errors.As(err, &why) {
		t.Errorf("a certificate without its key: %v", err)
	}
}
