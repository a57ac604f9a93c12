package handover

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// hasMember says whether a data directory has something in the place of etcd's
// data.
func hasMember(dir string) (bool, error) {
	entries, err := os.ReadDir(datadir.At(dir).Member())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(entries) > 0, err
}

// probeDir is renamed to try whether data can be.
const probeDir = ".handover-probe"

// mayMove finds out whether what is in from can be renamed into to, which is
// made, by doing that with an empty directory: file systems may be apart in
// more ways than their numbers show (bind mounts, quotas of projects).
func mayMove(from, to string) error {
	if err := hostfs.MakeDir(to, 0o700); err != nil {
		return err
	}
	if err := hostfs.MakeDir(from, 0o700); err != nil {
		return err
	}
	probe, there := filepath.Join(from, probeDir), filepath.Join(to, probeDir)
	if err := os.Mkdir(probe, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	err := os.Rename(probe, there)
	_, _ = os.Remove(probe), os.Remove(there)
	return apart(err, from, to)
}

// apart explains why a rename is impossible.
func apart(err error, from, to string) error {
	if errors.Is(err, syscall.EXDEV) {
		return &machine.Hold{
			Reason: machine.DataApart, Next: "choose, with --manager-data-dir, a directory on the file system of " + from,
			Text: fmt.Sprintf("%s and %s are on different file systems, so the data would have to be copied", from, to),
		}
	}
	return err
}

// moveMember moves etcd's data from one data directory to another, and not the
// directory itself, which may be a mount point. It is one rename, which has
// happened or has not.
func moveMember(from, to string) error {
	if err := hostfs.MakeDir(to, 0o700); err != nil {
		return err
	}
	for _, dir := range []string{from, to} {
		if err := idle(dir); err != nil {
			return err
		}
	}
	there, err := hasMember(to)
	if err != nil {
		return err
	}
	if there {
		return machine.DataTwice(from, to)
	}
	// An empty directory in the way is replaced.
	return apart(hostfs.Rename(datadir.At(from).Member(), datadir.At(to).Member()), from, to)
}

// idle makes sure that no etcd has its database in dir open: etcd locks it as
// long as it lives (bbolt, by flock). A missing database is nobody's.
func idle(dir string) error {
	busy, err := hostfs.Held(machine.Paths{Data: dir}.Database())
	if err == nil && busy {
		return machine.DatabaseOpen(dir)
	}
	return err
}
