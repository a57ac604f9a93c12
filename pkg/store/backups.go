package store

import (
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
	marker, data bool
	// written is when the newest of its objects was written.
	written time.Time
}

// folders returns the backups and parts of backups in the store.
func (s *Store) folders(ctx context.Context) (map[string]folder, error) {
	all, err := s.list(ctx, "")
	if err != nil {
		return nil, err
	}
	found := map[string]folder{}
	for _, o := range all {
		name, file, ok := strings.Cut(o.key, "/")
		if !ok || file != retention.MarkerFile && file != retention.DataFile {
			continue
		}
		f := found[name]
		f.marker = f.marker || file == retention.MarkerFile
		f.data = f.data || file == retention.DataFile
		if o.modTime.After(f.written) {
			f.written = o.modTime
		}
		found[name] = f
	}
	return found, nil
}

// Backups returns the complete backups, those with a marker, newest first. A
// backup's time is the one in its name, or when it was written if the name has
// none. Their content is not looked at.
func (s *Store) Backups(ctx context.Context) ([]cluster.Backup, error) {
	found, err := s.folders(ctx)
	if err != nil {
		return nil, err
	}
	var all []cluster.Backup
	for name, f := range found {
		if !f.marker {
			continue
		}
		at, err := retention.ParseName(name)
		if err != nil {
			at = f.written.UTC()
		}
		all = append(all, cluster.Backup{Name: name, At: at})
	}
	slices.SortFunc(all, func(a, b cluster.Backup) int {
		if c := b.At.Compare(a.At); c != 0 {
			return c
		}
		return strings.Compare(b.Name, a.Name)
	})
	return all, nil
}

// Leftovers returns, by name, what looks like a backup that was broken off, or
// deleted by half: data without a marker, a time in the name, and nothing
// written since before. DeleteBackup removes them. A backup that is
// being taken looks the same, so before must be further back than the longest backup.
func (s *Store) Leftovers(ctx context.Context, before time.Time) ([]string, error) {
	found, err := s.folders(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for name, f := range found {
		at, err := retention.ParseName(name)
		if err == nil && !f.marker && f.written.Before(before) && at.Before(before) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// DeleteBackup deletes a backup, its marker first, so that one that is half
// deleted does not look complete. That there is none is success. It refuses a
// name under which there are other things and no backup.
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
	marker, data := name+"/"+retention.MarkerFile, name+"/"+retention.DataFile
	isBackup := slices.ContainsFunc(all, func(o object) bool { return o.key == marker || o.key == data })
	if len(all) > 0 && !isBackup {
		return fmt.Errorf("delete backup: %s holds no backup, but %s", name, all[0].key)
	}
	// The marker goes to the front.
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
