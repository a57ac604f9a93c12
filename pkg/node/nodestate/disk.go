package nodestate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
)

// lostFound is a directory that file systems have in their root.
const lostFound = "lost+found"

// Disk looks for etcd data below the node's data directory dir. Data of the
// incarnation that s assigns comes first, and nothing else beside it matters.
// Without it, anything that is not understood makes the disk unreadable, and
// otherwise the first token, in alphabetical order, that has data is reported.
//
// An incarnation has data if it has a file of etcd's write-ahead log or a
// database. Directories without a file in them are empty: etcd makes them
// before it writes.
//
// Data of an etcd that no daemon has started, or that is too old for one, is never
// started on and never taken for an empty disk.
func Disk(dir string, s State) cluster.Disk {
	if s.Assigned != nil && !s.Assigned.Version.IsZero() && !s.Assigned.Version.Managed() {
		return unreadable(&oldDataError{DataDir(dir, s.Assigned.Token), s.Assigned.Version.String()})
	}
	names, err := subdirs(filepath.Join(dir, dataName))
	if s.Assigned != nil && (err != nil || slices.Contains(names, string(s.Assigned.Token))) {
		// Junk beside the assigned data must not stop a running member.
		has, ownErr := hasData(DataDir(dir, s.Assigned.Token))
		if ownErr != nil {
			return unreadable(ownErr)
		}
		if has {
			return dataOf(dir, s.Assigned.Token, s)
		}
	}
	for _, place := range []string{dir, filepath.Join(dir, dataName)} {
		logs, err := filesOf(datadir.At(place).Log(), ".wal")
		if err != nil {
			return unreadable(err)
		}
		if len(logs) > 0 {
			return unreadable(&oldDataError{place, "before 3.4"})
		}
	}
	if err != nil {
		return unreadable(err)
	}
	var first cluster.Token
	for _, name := range names {
		has, err := hasData(DataDir(dir, cluster.Token(name)))
		if err != nil {
			return unreadable(err)
		}
		if has && first == "" {
			first = cluster.Token(name)
		}
	}
	if first == "" {
		return cluster.Disk{State: cluster.DiskEmpty}
	}
	return dataOf(dir, first, s)
}

// dataOf describes data of the incarnation. The member is the one that the log
// on the disk names; without a readable log (a database alone) it is the one
// that ran in this incarnation, as far as s knows.
func dataOf(dir string, token cluster.Token, s State) cluster.Disk {
	d := cluster.Disk{State: cluster.DiskData, Token: token}
	if id, _, err := DiskMember(DataDir(dir, token)); err == nil {
		d.MemberID = id
	} else if s.MemberToken == token {
		d.MemberID = s.MemberID
	}
	return d
}

// An oldDataError says that there is data that is not for a daemon to start on.
type oldDataError struct{ dir, version string }

func (e *oldDataError) Error() string {
	return fmt.Sprintf("%s has data of an etcd that no daemon runs; of etcd %s it becomes a backup with: etcdadm migrate "+
		"--data-dir=%s --backup-store=STORE", e.dir, e.version, e.dir)
}

func unreadable(err error) cluster.Disk {
	return cluster.Disk{State: cluster.DiskUnreadable, Problem: err.Error()}
}

// subdirs returns the sorted names of the directories in path, which must all
// be tokens. A missing path has none.
func subdirs(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Name() == lostFound {
			continue
		}
		child := filepath.Join(path, e.Name())
		if err := cluster.Token(e.Name()).Validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", child, err)
		}
		// A link to a directory on another disk is as good as a directory.
		st, err := os.Stat(child)
		if err != nil {
			return nil, err
		}
		if !st.IsDir() {
			return nil, fmt.Errorf("%s is not a directory", child)
		}
		names = append(names, e.Name())
	}
	return names, nil
}

// hasData reports whether etcd has written to its data directory path. A
// missing path has no data.
func hasData(path string) (bool, error) {
	// The link itself may be what data/<token> is; WalkDir does not follow it.
	root, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	wal, db := datadir.At(root).Log(), datadir.At(root).Database()
	has, stray := false, ""
	err = filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && p != root:
			return nil // etcd removes files while it runs
		case err != nil:
			return err
		case p == root && !e.IsDir():
			return fmt.Errorf("%s is not a directory", p)
		case p == wal && !e.IsDir(), p == db && e.IsDir():
			return fmt.Errorf("%s is not of the kind that etcd makes there", p)
		case e.IsDir() || e.Name() == ".touch" || e.Name() == asideName:
			return nil
		case filepath.Dir(p) == wal || p == db:
			has = true
			return fs.SkipAll
		case stray == "":
			stray = p
		}
		return nil
	})
	if err == nil && !has && stray != "" {
		err = fmt.Errorf("%s has the file %s but neither a log nor a database", path, stray)
	}
	return has, err
}
