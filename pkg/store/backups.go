package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
)

// A folder is what a listing of the store shows of one backup.
type folder struct {
	backup cluster.Backup
	// data is the name of the data file, the first by name of several.
	data string
	// damaged is when its damage was last recorded, suspect when one machine found it.
	damaged, suspect time.Time
	// written is when the newest of its objects was written.
	written time.Time
}

// The largest marker and description that there are. Those of a backup that is whole are
// a few hundred bytes.
const (
	maxMarker      = 64 << 10
	maxDescription = 1 << 20
)

// complete reports whether the folder holds a backup, as far as a listing shows:
// data that is not empty, and a marker. Backups of the existing etcd-manager have no
// description; one that is there and empty, or huge, is none.
func (f *folder) complete() bool {
	marker, description := f.backup.Files.Marker, f.backup.Files.Description
	return f.data != "" && f.backup.Size > 0 && marker > 0 && marker <= maxMarker &&
		(!f.described() || description > 0 && description <= maxDescription)
}

func (f *folder) described() bool { return f.backup.Files.Described }

// marked reports whether there is a marker, whatever else.
func (f *folder) marked() bool { return f.backup.Files.Marked }

// isPart reports whether a file is one of those of a backup, or a segment of one.
func isPart(file string) bool {
	file, _, _ = strings.Cut(file, SegmentsDir)
	switch file {
	case retention.MarkerFile, retention.DescriptionFile, retention.SignatureFile,
		retention.VerifiedFile, retention.DrilledFile, retention.SuspectFile, retention.DamagedFile:
		return true
	}
	data, _ := retention.IsData(file)
	return data
}

// add takes an object of the backup into account.
func (f *folder) add(file string, o object) {
	if o.modTime.After(f.written) {
		f.written = o.modTime
	}
	switch file {
	case retention.MarkerFile:
		f.backup.Files.Marked, f.backup.Files.Marker = true, o.size
		f.stamp(o)
	case retention.DescriptionFile:
		f.backup.Files.Described, f.backup.Files.Description = true, o.size
		f.stamp(o)
	case retention.SignatureFile:
		f.backup.Files.Signature = o.size
		f.stamp(o)
	case retention.VerifiedFile:
		f.backup.Verified = o.modTime.UTC()
	case retention.DrilledFile:
		f.backup.Drilled = o.modTime.UTC()
	case retention.SuspectFile:
		f.suspect = o.modTime
	case retention.DamagedFile:
		f.damaged = o.modTime
	}
	if data, encrypted := retention.IsData(file); data && (f.data == "" || file < f.data) {
		f.data, f.backup.Size, f.backup.Encrypted = file, o.size, encrypted
	}
}

// stamp notes when the newest of the small files that say what the backup is was
// written.
func (f *folder) stamp(o object) {
	f.backup.Files.Stamp = max(f.backup.Files.Stamp, o.modTime.UnixNano())
}

// Backups returns the complete backups, newest first: those with data and a
// marker. It makes one listing of the store, one request for each thousand objects, and
// checks no content: what the files say is for package backup. A backup's time is
// the one in its name, or when it was written if the name has none. When it was
// verified or drilled is when the record of that was written; it is damaged if the
// record of that is not older than those of later successes.
func (s *Store) Backups(ctx context.Context) ([]cluster.Backup, error) {
	l, err := s.listAll(ctx, "")
	if err != nil {
		return nil, err
	}
	return l.Backups(), nil
}

func (s *Store) listAll(ctx context.Context, prefix string) (*Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	l := s.List(prefix)
	for !l.Done() {
		if err := l.Next(ctx); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// Leftovers returns, by name, what looks like a backup that was broken off, or
// deleted by half: files of a backup without a marker, a time in the name, and
// nothing written since before. DeleteBackup removes them. A backup that is
// being taken looks the same, so before must be further back than the longest backup.
func (s *Store) Leftovers(ctx context.Context, before time.Time) ([]string, error) {
	l, err := s.listAll(ctx, "")
	if err != nil {
		return nil, err
	}
	return l.Leftovers(before), nil
}

// HasBackup reports whether a backup is there, by its marker. It asks the store for that alone.
func (s *Store) HasBackup(ctx context.Context, name string) (bool, error) {
	if err := checkName(name); err != nil {
		return false, fmt.Errorf("look for backup: %w", err)
	}
	return s.Exists(ctx, name+"/"+retention.MarkerFile)
}

// DeleteBackup deletes a backup, its marker first, so that one that is half
// deleted does not look complete, and then all else that has its name. That
// there is none is success. It refuses a name under which there are other things
// and no backup. Where the store denies deletion the error is ErrDenied; if it is
// the marker's, nothing was deleted.
func (s *Store) DeleteBackup(ctx context.Context, name string) error {
	err := checkName(name)
	if err == nil && name+"/" == controlPrefix {
		err = fmt.Errorf("%q is not a backup", name)
	}
	if err != nil {
		return fmt.Errorf("delete backup: %w", err)
	}
	all, err := s.list(ctx, name+"/")
	if err != nil {
		return fmt.Errorf("delete backup: %w", err)
	}
	isBackup := slices.ContainsFunc(all, func(o object) bool { return isPart(strings.TrimPrefix(o.key, name+"/")) })
	if len(all) > 0 && !isBackup {
		return fmt.Errorf("delete backup: %s holds no backup, but %s", name, all[0].key)
	}
	// The marker goes to the front.
	marker := name + "/" + retention.MarkerFile
	slices.SortStableFunc(all, func(a, b object) int {
		switch {
		case a.key == marker:
			return -1
		case b.key == marker:
			return 1
		}
		return 0
	})
	for _, o := range all {
		if err := s.Delete(ctx, o.key); err != nil {
			return fmt.Errorf("delete backup: %w", err)
		}
	}
	return s.prune(ctx, name)
}
