// Package backupsource reads what somebody names as the source of a snapshot: a backup in a store,
// a file, or etcd's data directory.
package backupsource

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// A Source is where a snapshot comes from: a backup in a store, or a file.
type Source struct {
	// Location is the store, empty for the program's own; Name is the backup in it, empty for a
	// file.
	Location, Name string
	// File is a file. Packed says that it begins as the data of a backup does, and is no database
	// before it is unpacked.
	File   string
	Packed bool
	// DataDir is the data directory of which File is the database, empty for none.
	DataDir string
}

// Options say what a command takes besides STORE-URL/NAME, a file, and the directory of a backup.
type Options struct {
	// Names takes the bare name of a backup in the program's store.
	Names bool
	// DataDirs takes etcd's data directory.
	DataDirs bool
}

// names is where to see how backups are called.
const names = "see the names: etcd-manager-ctl list-backups"

// Parse distinguishes what somebody typed.
func Parse(text string, o Options) (Source, error) {
	if IsStore(text) {
		location, name, ok := store.SplitBackupURL(text)
		if !ok {
			return Source{}, &cli.UsageError{
				Text: store.Shown(text) + " does not name a backup", Next: "write STORE-URL/NAME; " + names,
			}
		}
		return Source{Location: location, Name: name}, nil
	}
	if text == "" {
		return Source{}, cli.Usagef("the name of a backup is empty")
	}
	_, notBackup := retention.ParseName(text)
	st, err := os.Stat(text)
	switch {
	case o.Names && !strings.Contains(text, "/") && (notBackup == nil || err != nil):
		return Source{Name: text}, nil
	case err != nil:
		return Source{}, cli.WithHint(err, "name a file with a snapshot, or STORE-URL/NAME; "+names)
	case st.IsDir():
		return directory(text, o)
	}
	s := Source{File: text, Packed: packed(text)}
	if dir, ok := strings.CutSuffix(filepath.Clean(text), datadir.At("/").Database()); ok && o.DataDirs && !s.Packed {
		// The database in a data directory is one, however it is named.
		s.DataDir = dir
	}
	return s, nil
}

// IsStore says whether what somebody typed is a store, and not a file. Options of a store may
// have a URL in them.
func IsStore(text string) bool {
	place, _, _ := strings.Cut(text, "?")
	return strings.Contains(place, "://")
}

// directory is etcd's data directory, the member in it, or the directory of a backup.
func directory(path string, o Options) (Source, error) {
	if o.DataDirs {
		dir := filepath.Clean(path)
		if filepath.Base(dir) == datadir.MemberName {
			dir = filepath.Dir(dir)
		}
		db := datadir.At(dir).Database()
		if st, err := os.Stat(db); err == nil && !st.IsDir() {
			return Source{File: db, DataDir: dir}, nil
		}
	}
	path, err := filepath.Abs(path)
	return Source{Location: filepath.Dir(path), Name: filepath.Base(path)}, err
}

// packed says whether a file begins as the data of backups does.
func packed(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false // what is wrong shows when it is read
	}
	defer f.Close()
	head := make([]byte, backup.MagicSize)
	n, err := io.ReadFull(f, head)
	return (err == nil || errors.Is(err, io.ErrUnexpectedEOF)) && backup.Form(head[:n]) != ""
}

// InStore says whether it is a backup in a store.
func (s Source) InStore() bool { return s.Name != "" }

// String names it for a person, without secrets in the location of a store.
func (s Source) String() string {
	switch {
	case s.DataDir != "":
		return "data directory " + s.DataDir
	case s.File != "":
		return s.File
	case s.Location == "":
		return s.Name
	}
	return "backup " + s.Name + " of " + store.Shown(s.Location)
}
