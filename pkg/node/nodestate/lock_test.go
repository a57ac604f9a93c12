package nodestate

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// Somebody deletes the lock file of a running daemon. Nobody else gets the data
// directory for that, and the daemon has its lock file again.
func TestALockFileThatSomebodyDeletes(t *testing.T) {
	f := open(t, t.TempDir())
	path := filepath.Join(f.dir, lockName)
	var locked *hostfs.LockedError
	if again, err := f.KeepLock(); again || err != nil {
		t.Errorf("with the file there: again %t, %v", again, err)
	}
	remove(t, path)
	if _, err := Open(f.dir, self); !errors.As(err, &locked) || locked.Path != f.dir {
		t.Errorf("another opens the directory: %v", err)
	}
	if again, err := f.KeepLock(); !again || err != nil {
		t.Errorf("again %t, %v", again, err)
	}
	if _, err := Open(f.dir, self); !errors.As(err, &locked) || locked.Path != path || locked.Holder != os.Getpid() {
		t.Errorf("another opens the directory with its lock file: %v", err)
	}
	reopen(t, f)
}

// A daemon that knows no lock but the file's (an older one) has taken the new file.
func TestALockFileThatAnotherHas(t *testing.T) {
	f := open(t, t.TempDir())
	path := filepath.Join(f.dir, lockName)
	remove(t, path)
	other, err := hostfs.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	var locked *hostfs.LockedError
	if again, err := f.KeepLock(); again || !errors.As(err, &locked) {
		t.Errorf("again %t, %v", again, err)
	}
	if err := other.Unlock(); err != nil {
		t.Fatal(err)
	}
	if again, err := f.KeepLock(); !again || err != nil {
		t.Errorf("when the other has gone: again %t, %v", again, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if again, err := f.KeepLock(); again || err != nil {
		t.Errorf("after the end: again %t, %v", again, err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
