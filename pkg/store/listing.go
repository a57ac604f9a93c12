package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
)

const (
	// maxBackups is how many backups a listing has, and maxLeftovers how many
	// leftovers. A cluster keeps about a thousand.
	maxBackups   = 50_000
	maxLeftovers = 1000
	// maxListedPages is how many pages a listing reads.
	maxListedPages = 5000
)

// A Listing is a listing of the backups in a store, page by page. It may be broken
// off anywhere, and gone on with much later.
type Listing struct {
	store  *Store
	prefix string
	from   []byte
	pages  int
	done   bool
	found  map[string]*folder
	// left is how many backups were left out, being older than all others, and cut
	// that the store holds more than is listed.
	left int
	cut  bool
}

// List begins a listing of the backups whose names begin with prefix.
func (s *Store) List(prefix string) *Listing {
	return &Listing{store: s, prefix: prefix, found: map[string]*folder{}}
}

// Next reads the next page, of which there must be one. After an error it may be
// called again.
func (l *Listing) Next(ctx context.Context) error {
	found, next, err := l.store.page(ctx, l.prefix, l.from)
	if err != nil {
		return err
	}
	l.pages++
	for _, o := range found {
		name, file, ok := strings.Cut(o.key, "/")
		if !ok || name+"/" == controlPrefix || !isPart(file) {
			continue
		}
		if l.found[name] == nil {
			l.found[name] = &folder{backup: cluster.Backup{Name: name}}
		}
		l.found[name].add(file, o)
	}
	if len(l.found) > maxBackups+maxBackups/4 {
		l.leaveOut()
	}
	if next != nil && l.pages >= maxListedPages {
		l.cut, next = true, nil
	}
	l.from, l.done = next, next == nil
	return nil
}

// Done reports whether the last page has been read.
func (l *Listing) Done() bool { return l.done }

// leaveOut forgets the oldest backups.
func (l *Listing) leaveOut() {
	type aged struct {
		name string
		at   time.Time
	}
	all := make([]aged, 0, len(l.found))
	for name := range l.found {
		at, _ := retention.ParseName(name) // no time is long ago
		all = append(all, aged{name, at})
	}
	slices.SortFunc(all, func(a, b aged) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.name, b.name)) })
	for _, a := range all[:len(all)-maxBackups] {
		delete(l.found, a.name)
		l.left++
	}
}

// Pages returns how many pages were read.
func (l *Listing) Pages() int { return l.pages }

// Problem says what the store holds more than is listed, empty for nothing.
func (l *Listing) Problem() string {
	switch {
	case l.cut:
		return fmt.Sprintf("the store holds more objects than the %d that are listed", l.pages*pageSize)
	case l.left > 0:
		return fmt.Sprintf("the store holds %d more backups than the %d newest, which are checked", l.left, maxBackups)
	}
	return ""
}

// Backups returns what Store.Backups does, as far as it was listed.
func (l *Listing) Backups() []cluster.Backup {
	all := make([]cluster.Backup, 0, len(l.found))
	for name, f := range l.found {
		if !f.complete() {
			continue
		}
		b := f.backup
		at, err := retention.ParseName(name)
		if b.At = at; err != nil {
			b.At = f.written.UTC()
		}
		holds := func(found time.Time) bool {
			return !found.IsZero() && !b.Verified.After(found) && !b.Drilled.After(found)
		}
		b.Damaged, b.Suspect = holds(f.damaged), holds(f.suspect) && !holds(f.damaged)
		all = append(all, b)
	}
	SortBackups(all)
	return all
}

// SortBackups puts backups in the order in which they are listed: newest first.
func SortBackups(all []cluster.Backup) {
	slices.SortFunc(all, func(a, b cluster.Backup) int {
		return cmp.Or(b.At.Compare(a.At), strings.Compare(b.Name, a.Name))
	})
}

// Strange returns, by name, the folders that have a marker and are no backups,
// with the reason: at most twenty.
func (l *Listing) Strange() []cluster.Uncounted {
	var all []cluster.Uncounted
	for name, f := range l.found {
		if !f.marked() || f.complete() {
			continue
		}
		why := "its marker or description is empty, or far too large"
		switch {
		case f.data == "":
			why = "it has a marker but no data"
		case f.backup.Size == 0:
			why = "its data is empty"
		}
		all = append(all, cluster.Uncounted{Name: name, Why: why})
	}
	slices.SortFunc(all, func(a, b cluster.Uncounted) int { return strings.Compare(b.Name, a.Name) })
	return all[:min(len(all), cluster.MaxUncounted)]
}

// Leftovers returns what Store.Leftovers does, as far as it was listed.
func (l *Listing) Leftovers(before time.Time) (names []string) {
	for name, f := range l.found {
		at, err := retention.ParseName(name)
		if err == nil && !f.marked() && f.written.Before(before) && at.Before(before) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), maxLeftovers)]
}
