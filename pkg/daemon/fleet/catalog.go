package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/store"
)

const (
	// backupsInterval is how often the list of backups is read again, for each page
	// that it has, and at most: one of a thousand objects each minute, and one of
	// many each quarter of an hour.
	backupsInterval    = time.Minute
	maxBackupsInterval = 15 * time.Minute
	backupsRetryDelay  = 15 * time.Second // after a failure
	listingTime        = 30 * time.Minute // bounds one reading of the list
	listingFailures    = 5
	// smallPages is of how many pages a list is read again where a part would do.
	smallPages = 1
	// maxAgain is how many backups are checked one by one. For more, the whole list
	// is read.
	maxAgain = 8
)

// A catalog is the list of backups. It is read in the background, page by page: what
// has been read stays when the store fails or is slow. Between two readings of
// all of it, the backups of the day are read, which cost one page.
type catalog struct {
	store *store.Store
	now   func() time.Time
	quit  <-chan struct{}
	// vet returns the backups that count, and some of those that do not; nil has all
	// count.
	vet vetter

	known     bool
	backups   []cluster.Backup
	leftovers []string
	uncounted []cluster.Uncounted
	// read is when the list was last read as a whole, of so many pages, and recent
	// when that of the day was.
	readAt, recentAt time.Time
	pages            int
	left             string
	// stale says that something has changed; again are the backups that have.
	stale bool
	again []string

	// reading is the reading of the whole list, and partial of some of it, which
	// are under way. merged is what was learned since the former began.
	reading *task[listed]
	partial *task[[]part]
	merged  []part
	// deleted are backups that were deleted since partial began.
	deleted []part
	// listing is what is read, for who goes on with it, failures how often in a row it
	// could not be.
	listing  *store.Listing
	begun    time.Time
	failures int
	failed   time.Time
	problem  string
}

// A vetter is the method Vet of a backup.Vetter.
type vetter func(ctx context.Context, listed []cluster.Backup) ([]cluster.Backup, []cluster.Uncounted, error)

// A part is the backups whose names begin with a prefix.
type part struct {
	prefix    string
	backups   []cluster.Backup
	uncounted []cluster.Uncounted
}

// A listed is the whole list.
type listed struct {
	part
	leftovers []string
}

// forget makes the list unknown: the backups may be gone.
func (c *catalog) forget() {
	c.known, c.backups, c.leftovers, c.uncounted = false, nil, nil, nil
	c.readAt, c.reading, c.listing, c.merged = time.Time{}, nil, nil, nil
}

// newest returns the newest backup that is known, empty for none.
func (c *catalog) newest() string {
	for _, b := range c.backups {
		if b.Foreign == "" {
			return b.Name
		}
	}
	return ""
}

// read puts what is known into what the store says. It waits for what is under way
// until ctx ends where without it nothing is known, or something has changed.
func (c *catalog) read(ctx context.Context, s *cluster.Store) {
	c.collect()
	small, changed := c.pages <= smallPages, c.stale
	if c.due(small) {
		c.begin(ctx)
	}
	if c.reading != nil && (!c.known || small && changed) && c.reading.over(ctx) {
		c.collect()
	}
	if c.known && !small {
		c.readPart(ctx)
	}
	s.Backups, s.Leftovers, s.Uncounted = c.backups, c.leftovers, c.uncounted
	s.BackupsKnown, s.BackupsRead, s.BackupsProblem = c.known, c.readAt, c.problem
	if c.problem == "" {
		s.BackupsProblem = c.left
	}
	if c.reading != nil && !c.known && c.problem == "" {
		s.BackupsProblem = fmt.Sprintf("it has been read for %s so far", c.now().Sub(c.begun).Round(time.Second))
	}
}

// due reports whether the whole list is to be read.
func (c *catalog) due(small bool) bool {
	switch {
	case c.reading != nil:
		return false
	case c.failures > 0:
		return c.now().Sub(c.failed) >= backupsRetryDelay
	case !c.known, small && c.stale, len(c.again) > maxAgain:
		return true
	}
	return c.now().Sub(c.readAt) >= min(maxBackupsInterval, backupsInterval*time.Duration(max(1, c.pages)))
}

// begin begins to read the whole list, or goes on.
func (c *catalog) begin(ctx context.Context) {
	if c.listing == nil || c.failures >= listingFailures || c.now().Sub(c.begun) > listingTime {
		c.listing, c.begun, c.merged = c.store.List(""), c.now(), nil
	}
	if len(c.again) > maxAgain || c.pages <= smallPages {
		c.again, c.stale = nil, false
	}
	l, before, vet := c.listing, c.now().Add(-retention.LeftoverAge), c.vet
	c.reading = begin(ctx, c.quit, listingTime, func(ctx context.Context) (listed, error) {
		if err := finish(ctx, l); err != nil {
			return listed{}, err
		}
		p, err := examine(ctx, vet, "", l)
		return listed{p, l.Leftovers(before)}, err
	})
}

// finish reads a listing to its end.
func finish(ctx context.Context, l *store.Listing) error {
	for !l.Done() {
		if err := l.Next(ctx); err != nil {
			return fmt.Errorf("list backups, after %d pages: %w", l.Pages(), err)
		}
	}
	return nil
}

// examine returns the backups of a listing that count.
func examine(ctx context.Context, vet vetter, prefix string, l *store.Listing) (part, error) {
	p := part{prefix: prefix, backups: l.Backups(), uncounted: l.Strange()}
	if vet == nil {
		return p, nil
	}
	good, bad, err := vet(ctx, p.backups)
	p.backups, p.uncounted = good, append(p.uncounted, bad...)
	return p, err
}

// collect takes in what has ended in the background.
func (c *catalog) collect() {
	if c.reading == nil || !c.reading.ended() {
		return
	}
	r, err := c.reading.value, c.reading.err
	c.reading = nil
	if err != nil {
		c.failures++
		c.failed, c.problem = c.now(), err.Error()
		return
	}
	c.pages, c.left = c.listing.Pages(), c.listing.Problem()
	c.known, c.readAt, c.recentAt, c.failures, c.problem, c.listing = true, c.now(), c.begun, 0, "", nil
	c.backups, c.leftovers, c.uncounted = r.backups, r.leftovers, r.uncounted
	for _, p := range c.merged {
		c.merge(p)
	}
	c.merged = nil
}

// readPart reads the backups of the day, and those that have changed.
func (c *catalog) readPart(ctx context.Context) {
	if c.partial == nil && (c.stale || len(c.again) > 0 || c.now().Sub(c.recentAt) >= backupsInterval) {
		prefixes := []string{c.now().UTC().Format(time.DateOnly)}
		if yesterday := c.now().UTC().Add(-time.Hour).Format(time.DateOnly); yesterday != prefixes[0] {
			prefixes = append(prefixes, yesterday)
		}
		for _, name := range c.again {
			if !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
				prefixes = append(prefixes, name+"/")
			}
		}
		c.again, c.stale, c.deleted = nil, false, nil
		s, vet := c.store, c.vet
		c.partial = begin(ctx, c.quit, pollTime, func(ctx context.Context) ([]part, error) {
			return readParts(ctx, s, vet, prefixes)
		})
	}
	if c.partial == nil || !c.partial.over(ctx) {
		return
	}
	parts, err := c.partial.value, c.partial.err
	c.partial = nil
	if err != nil {
		c.problem = err.Error()
		return
	}
	c.recentAt, c.problem = c.now(), ""
	for _, p := range append(parts, c.deleted...) {
		c.learn(p)
	}
}

// learn merges a part, also into what is being read.
func (c *catalog) learn(p part) {
	c.merge(p)
	if c.reading != nil || c.listing != nil {
		c.merged = append(c.merged, p)
	}
}

func readParts(ctx context.Context, s *store.Store, vet vetter, prefixes []string) ([]part, error) {
	var parts []part
	for _, prefix := range prefixes {
		l := s.List(prefix)
		err := finish(ctx, l)
		if errors.Is(err, store.ErrAbsent) {
			err = nil
		}
		if err != nil {
			return nil, err
		}
		p, err := examine(ctx, vet, prefix, l)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// merge replaces what is known of the backups of a part.
func (c *catalog) merge(p part) {
	here := func(name string) bool { return strings.HasPrefix(name+"/", p.prefix) }
	c.backups = slices.DeleteFunc(slices.Clone(c.backups), func(b cluster.Backup) bool { return here(b.Name) })
	c.backups = append(c.backups, p.backups...)
	store.SortBackups(c.backups)
	c.leftovers = slices.DeleteFunc(slices.Clone(c.leftovers), func(name string) bool {
		return here(name) && slices.ContainsFunc(p.backups, func(b cluster.Backup) bool { return b.Name == name })
	})
	c.uncounted = slices.DeleteFunc(slices.Clone(c.uncounted), func(u cluster.Uncounted) bool { return here(u.Name) })
	c.uncounted = append(c.uncounted, p.uncounted...)
	c.uncounted = c.uncounted[:min(len(c.uncounted), cluster.MaxUncounted)]
}
