package operate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

func readRecord(cfg machine.Config) (machine.Record, error) {
	var r machine.Record
	b, err := os.ReadFile(cfg.Paths.Record())
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return r, &RecordError{cfg.Paths.Record(), err}
	}
	return r, nil
}

// A RecordError says that the machine's record cannot be read.
type RecordError struct {
	Path string
	Err  error
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("read etcdadm's record of this machine in %s: %v", e.Path, e.Err)
}

// Unwrap returns the reason.
func (e *RecordError) Unwrap() error { return e.Err }

// Hint says what to do about it.
func (e *RecordError) Hint() string {
	return "if the member's data is in place, the file can be deleted: it is made again; never delete it if data is " +
		"missing"
}

func writeRecord(cfg machine.Config, r machine.Record) error {
	path := cfg.Paths.Record()
	if r == (machine.Record{}) {
		return errors.Join(ignoreMissing(os.Remove(path)), hostfs.SyncDir(filepath.Dir(path)))
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := hostfs.MakeDir(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return hostfs.WriteFile(path, append(b, '\n'), 0o600)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeLeftovers removes what earlier runs left that were killed. What cannot be removed
// does no harm.
func (m *Machine) removeLeftovers() {
	for _, path := range append(machine.WrittenPaths(m.cfg), m.cfg.Paths.Record(), m.cfg.Paths.Marker(),
		filepath.Join(m.cfg.Paths.Process(), "launch.json")) {
		_ = hostfs.RemoveTemp(path)
	}
	for _, path := range slices.Concat(
		named(m.cfg.Paths.Install, ".etcd-install-"),
		named(filepath.Dir(m.cfg.Paths.Data), ".etcdadm-sync-"), named(m.cfg.Paths.Data, ".etcdadm-sync-"),
	) {
		_ = os.RemoveAll(path)
	}
}

// named returns what is in a directory, of any name, and is called by a prefix.
func named(dir, prefix string) []string {
	var paths []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// keepAside is how many directories of old data the machine keeps.
const keepAside = 3

// inAside is how data that was moved aside is named inside a data directory
// that cannot be renamed.
const inAside = "set-aside-"

// dataSetAside returns the data that was moved aside, oldest first.
func dataSetAside(cfg machine.Config) []string {
	all := append(named(cfg.Paths.SetAside(), ""), named(cfg.Paths.Data, inAside)...)
	slices.SortFunc(all, func(a, b string) int {
		return strings.Compare(strings.TrimPrefix(filepath.Base(a), inAside), strings.TrimPrefix(filepath.Base(b), inAside))
	})
	return all
}

// isLink says whether a path is a symbolic link: to the disk of the data, which
// moves nothing when it is renamed itself.
func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// setAside moves the data directory away in one rename. Where it is a mount
// point, or a link, which cannot be renamed, what is in it moves into a directory of it
// that etcd does not check.
func setAside(cfg machine.Config, now time.Time) error {
	if err := hostfs.MakeDir(cfg.Paths.SetAside(), 0o700); err != nil {
		return err
	}
	name := now.UTC().Format("20060102T150405.000000000Z")
	crashpoint.Hit("set-aside.before")
	var err error = syscall.EXDEV
	if !isLink(cfg.Paths.Data) {
		err = hostfs.Rename(cfg.Paths.Data, filepath.Join(cfg.Paths.SetAside(), name))
	}
	if errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EXDEV) {
		inside := filepath.Join(cfg.Paths.Data, inAside+name)
		if err := hostfs.MakeDir(inside, 0o700); err != nil {
			return err
		}
		err = hostfs.Rename(cfg.Paths.Member(), datadir.At(inside).Member())
	}
	crashpoint.Hit("set-aside.after")
	if err := ignoreMissing(err); err != nil {
		return err
	}
	old := dataSetAside(cfg)
	for len(old) > keepAside {
		if err := os.RemoveAll(old[0]); err != nil {
			return err
		}
		old = old[1:]
	}
	return nil
}

// discard deletes the data, and the directory if there is nothing else in it.
func discard(cfg machine.Config) error {
	going := cfg.Paths.Discarded()
	if member := cfg.Paths.Member(); exists(member) {
		if err := os.RemoveAll(going); err != nil {
			return err
		}
		if err := hostfs.Rename(member, going); err != nil {
			return err
		}
	}
	crashpoint.Hit("discard.between")
	if err := os.RemoveAll(going); err != nil {
		return err
	}
	if err := ignoreMissing(os.Remove(cfg.Paths.Marker())); err != nil {
		return err
	}
	if isLink(cfg.Paths.Data) {
		return nil
	}
	err := os.Remove(cfg.Paths.Data)
	if errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.ENOTEMPTY) {
		return nil
	}
	return ignoreMissing(err)
}
