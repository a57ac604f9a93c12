// Package sweep deletes from a backup store what the retention rules let go, and
// what backups that were broken off have left behind.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
)

const (
	// deleters is how many backups are deleted at a time.
	deleters = 4
	// maxFailures is how many failures in a row end a run: a store that denies
	// deletion denies it ten thousand times.
	maxFailures = 3
)

// A Store is the part of a backup store that is needed.
type Store interface {
	Backups(ctx context.Context) ([]cluster.Backup, error)
	Leftovers(ctx context.Context, before time.Time) ([]string, error)
	DeleteBackup(ctx context.Context, name string) error
}

// A Vetted is a Store of which only those backups count that are what they say.
// The others are neither counted nor deleted.
type Vetted struct {
	Store
	// Vet is that of a backup.Vetter.
	Vet func(ctx context.Context, listed []cluster.Backup) ([]cluster.Backup, []cluster.Uncounted, error)
}

// Backups returns the backups that count.
func (v Vetted) Backups(ctx context.Context) ([]cluster.Backup, error) {
	all, err := v.Store.Backups(ctx)
	if err != nil {
		return nil, err
	}
	good, _, err := v.Vet(ctx, all)
	return good, err
}

// A Plan says what stays and what goes.
type Plan struct {
	// Verdicts has each backup, oldest first.
	Verdicts []retention.Verdict
	// Leftovers are the names of broken-off backups, all of which go.
	Leftovers []string
}

// Observe returns what a policy says of a store at a time. It deletes nothing. Backups of
// another cluster are kept, and not counted.
func Observe(ctx context.Context, s Store, p retention.Policy, now time.Time) (Plan, error) {
	backups, err := s.Backups(ctx)
	if err != nil {
		return Plan{}, fmt.Errorf("list backups: %w", err)
	}
	leftovers, err := s.Leftovers(ctx, now.Add(-retention.LeftoverAge))
	if err != nil {
		return Plan{}, fmt.Errorf("list the leftovers of interrupted backups: %w", err)
	}
	verdicts := retention.Keep(p, now, cluster.Store{Backups: backups}.Own())
	for _, b := range backups {
		if b.Foreign != "" {
			verdicts = append(verdicts, retention.Verdict{Backup: b, Keep: true, Reason: "of the cluster " + b.Foreign})
		}
	}
	slices.SortFunc(verdicts, func(a, b retention.Verdict) int {
		if c := a.Backup.At.Compare(b.Backup.At); c != 0 {
			return c
		}
		return strings.Compare(a.Backup.Name, b.Backup.Name)
	})
	return Plan{Verdicts: verdicts, Leftovers: leftovers}, nil
}

// Deletions returns the names of what goes, in the order in which Run deletes it:
// leftovers, then backups from the oldest on.
func (p Plan) Deletions() []string {
	names := slices.Clone(p.Leftovers)
	for _, v := range p.Verdicts {
		if !v.Keep {
			names = append(names, v.Backup.Name)
		}
	}
	return names
}

// A Result is what became of what was to go, by name.
type Result struct {
	Deleted []string
	// Failed are the names that could not be deleted, with the reason.
	Failed map[string]error
	// Untried are those that were left alone after several in a row had failed,
	// or because the context ended.
	Untried []string
}

// Err sums the result up: nil if everything is deleted.
func (r Result) Err() error {
	if len(r.Failed) == 0 && len(r.Untried) == 0 {
		return nil
	}
	text := fmt.Sprintf("%d of %d could not be deleted", len(r.Failed), len(r.Failed)+len(r.Deleted)+len(r.Untried))
	if len(r.Untried) > 0 {
		text += fmt.Sprintf(", and %d were not tried", len(r.Untried))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Failed)) {
		return fmt.Errorf("%s: %w", text, r.Failed[name])
	}
	return errors.New(text)
}

// Run deletes what goes. What cannot be deleted stays whole, or becomes a
// leftover for the next run, and does not hinder the others; after a few
// failures in a row the rest is not tried.
func (p Plan) Run(ctx context.Context, s Store) Result {
	names := p.Deletions()
	r := Result{Failed: map[string]error{}}
	var (
		mu       sync.Mutex
		next     int
		inARow   int
		deleting sync.WaitGroup
	)
	take := func() (string, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == len(names) || inARow >= maxFailures || ctx.Err() != nil {
			return "", false
		}
		next++
		return names[next-1], true
	}
	report := func(name string, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			inARow++
			r.Failed[name] = err
			return
		}
		inARow = 0
		r.Deleted = append(r.Deleted, name)
	}
	for range min(deleters, len(names)) {
		deleting.Go(func() {
			for {
				name, ok := take()
				if !ok {
					return
				}
				report(name, s.DeleteBackup(ctx, name))
			}
		})
	}
	deleting.Wait()
	r.Untried = names[next:]
	return r
}
