package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/retention"
)

// A folder is what a listing of the store shows of one backup.
type folder struct {
	backup cluster.Backup
	marker bool
	// data is the name of the data file, the first by name of several.
	data string
	// damaged is when its damage was last recorded.
	damaged time.Time
	// written is when the newest of its objects was written.
	written time.Time
}

// isPart reports whether a file is one of those of a backup.
func isPart(file string) bool {
	switch file {
	case retention.MarkerFile, retention.DescriptionFile, retention.SignatureFile,
		retention.VerifiedFile, retention.DrilledFile, retention.DamagedFile:
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
		f.marker = true
	case retention.VerifiedFile:
		f.backup.Verified = o.modTime.UTC()
	case retention.DrilledFile:
		f.backup.Drilled = o.modTime.UTC()
	case retention.DamagedFile:
		f.damaged = o.modTime
	}
	if data, encrypted := retention.IsData(file); data && (f.data == "" || file < f.data) {
		f.data, f.backup.Size, f.backup.Encrypted = file, o.size, encrypted
	}
}

// folders returns the backups and parts of backups in the store.
func (s *Store) folders(ctx context.Context) (map[string]*folder, error) {
	all, err := s.list(ctx, "")
	if err != nil {
		return nil, err
	}
	found := map[string]*folder{}
	for _, o := range all {
		name, file, ok := strings.Cut(o.key, "/")
		if !ok || name+"/" == controlPrefix || !isPart(file) {
			continue
		}
		if found[name] == nil {
			found[name] = &folder{backup: cluster.Backup{Name: name}}
		}
		found[name].add(file, o)
	}
	return found, nil
}

// Backups returns the complete backups, those with a marker, newest first. It
// makes one listing of the store, one request for each thousand objects, and
// looks at no content. A backup's time is the one in its name, or when it was
// written if the name has none. When it was verified or drilled is when the
// record of that was written; it is damaged if the record of that is not older than
// those of later successes.
func (s *Store) Backups(ctx context.Context) ([]cluster.Backup, error) {
	found, err := s.folders(ctx)
	if err != nil {
		return nil, err
	}
	return complete(found), nil
}

// Survey is Backups and Leftovers in one listing.
func (s *Store) Survey(ctx context.Context, before time.Time) (backups []cluster.Backup, leftovers []string, err error) {
	found, err := s.folders(ctx)
	if err != nil {
		return nil, nil, err
	}
	return complete(found), incomplete(found, before), nil
}

func complete(found map[string]*folder) []cluster.Backup {
	all := make([]cluster.Backup, 0, len(found))
	for name, f := range found {
		if !f.marker {
			continue
		}
		b := f.backup
		at, err := retention.ParseName(name)
		if b.At = at; err != nil {
			b.At = f.written.UTC()
		}
		b.Damaged = !f.damaged.IsZero() && !b.Verified.After(f.damaged) && !b.Drilled.After(f.damaged)
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b cluster.Backup) int {
		return cmp.Or(b.At.Compare(a.At), strings.Compare(b.Name, a.Name))
	})
	return all
}

// Leftovers returns, by name, what looks like a backup that was broken off, or
// deleted by half: files of a backup without a marker, a time in the name, and
// nothing written since before. DeleteBackup removes them. A backup that is
// being taken looks the same, so before must be further back than the longest backup.
func (s *Store) Leftovers(ctx context.Context, before time.Time) ([]string, error) {
	found, err := s.folders(ctx)
	if err != nil {
		return nil, err
	}
	return incomplete(found, before), nil
}

func incomplete(found map[string]*folder, before time.Time) (names []string) {
	for name, f := range found {
		at, err := retention.ParseName(name)
		if err == nil && !f.marker && f.written.Before(before) && at.Before(before) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
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
