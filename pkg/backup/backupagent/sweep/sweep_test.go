package sweep

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/store"
)

var now = time.Date(2026, 11, 20, 10, 39, 37, 0, time.UTC)

// directory returns a store in a directory with backups of these ages.
func directory(t *testing.T, ages ...time.Duration) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, age := range ages {
		name := retention.Name(now.Add(-age), 1)
		for _, file := range []string{retention.DataFile, retention.MarkerFile} {
			if err := s.Put(t.Context(), name+"/"+file, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

func names(t *testing.T, s *store.Store) []string {
	t.Helper()
	list, err := s.Backups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, b := range list {
		all = append(all, b.Name)
	}
	slices.Sort(all)
	return all
}

func TestOldBackupsAndLeftoversGo(t *testing.T) {
	s := directory(t, time.Minute, 2*time.Hour, 2*time.Hour+time.Minute, 400*24*time.Hour)
	leftover := "2020-01-01T00:00:00Z-000001"
	if err := s.Put(t.Context(), leftover+"/"+retention.DataFile, []byte("x")); err != nil {
		t.Fatal(err)
	}
	// What was written just now is no leftover yet, whatever its name says.
	p, err := Observe(t.Context(), s, retention.Policy{
		Hourly: 9 * 24 * time.Hour, Daily: 100 * 24 * time.Hour, ByClock: true,
	}, now)
	if err != nil || len(p.Leftovers) > 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	p.Leftovers = []string{leftover}
	want := []string{leftover, retention.Name(now.Add(-400*24*time.Hour), 1), retention.Name(now.Add(-2*time.Hour), 1)}
	if got := p.Deletions(); !slices.Equal(got, want) {
		t.Fatalf("%v go, want %v", got, want)
	}
	r := p.Run(t.Context(), s)
	slices.Sort(want)
	slices.Sort(r.Deleted)
	if err := r.Err(); err != nil || !slices.Equal(r.Deleted, want) {
		t.Errorf("%+v, %v", r, err)
	}
	if got := names(t, s); len(got) != 2 {
		t.Errorf("%v are left", got)
	}
	if there, err := s.Exists(t.Context(), leftover+"/"+retention.DataFile); there || err != nil {
		t.Errorf("the leftover is there: %t, %v", there, err)
	}
}

// picky is a store that denies some deletions.
type picky struct {
	*store.Store
	deny func(name string) bool

	mu    sync.Mutex
	asked int
}

func (p *picky) DeleteBackup(ctx context.Context, name string) error {
	p.mu.Lock()
	p.asked++
	p.mu.Unlock()
	if p.deny(name) {
		return errors.New("access denied")
	}
	return p.Store.DeleteBackup(ctx, name)
}

func hours(n int) []time.Duration {
	var ages []time.Duration
	for i := range n {
		ages = append(ages, time.Duration(i)*time.Hour)
	}
	return ages
}

// A backup of another cluster is neither deleted nor counted.
func TestABackupOfAnotherClusterStays(t *testing.T) {
	s := Vetted{
		Store: directory(t, time.Hour, 2*time.Hour, 3*time.Hour),
		Vet: func(_ context.Context, listed []cluster.Backup) ([]cluster.Backup, []cluster.Uncounted, error) {
			listed[0].Foreign = "events"
			return listed, nil, nil
		},
	}
	p, err := Observe(t.Context(), s, retention.Policy{MaxCount: 1}, now)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.Deletions(), []string{retention.Name(now.Add(-3*time.Hour), 1)}; !slices.Equal(got, want) {
		t.Errorf("deletes %v, want %v", got, want)
	}
	if last := p.Verdicts[2]; !last.Keep || last.Reason != "of the cluster events" {
		t.Errorf("%+v", last)
	}
}

func TestADeniedDeletionDoesNotHinderTheOthers(t *testing.T) {
	s := &picky{Store: directory(t, hours(20)...)}
	denied := retention.Name(now.Add(-19*time.Hour), 1)
	s.deny = func(name string) bool { return name == denied }
	p, err := Observe(t.Context(), s, retention.Policy{MaxCount: 5}, now)
	if err != nil {
		t.Fatal(err)
	}
	r := p.Run(t.Context(), s)
	if len(r.Deleted) != 14 || len(r.Failed) != 1 || r.Failed[denied] == nil || len(r.Untried) > 0 {
		t.Errorf("%+v", r)
	}
	if err := r.Err(); err == nil || err.Error() != "1 of 15 could not be deleted: access denied" {
		t.Errorf("%v", err)
	}
	if got := names(t, s.Store); len(got) != 6 || got[0] != denied {
		t.Errorf("%v are left", got)
	}
}

func TestAStoreThatDeniesAllIsNotAskedForAll(t *testing.T) {
	s := &picky{Store: directory(t, hours(50)...), deny: func(string) bool { return true }}
	p, err := Observe(t.Context(), s, retention.Policy{MaxCount: 5}, now)
	if err != nil {
		t.Fatal(err)
	}
	r := p.Run(t.Context(), s)
	if len(r.Deleted) != 0 || len(r.Failed) != s.asked || s.asked < maxFailures || s.asked >= maxFailures+deleters ||
		len(r.Untried) != 45-s.asked {
		t.Errorf("asked %d times, %d failed, %d untried", s.asked, len(r.Failed), len(r.Untried))
	}
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "were not tried: access denied") {
		t.Errorf("%v", err)
	}
	if got := names(t, s.Store); len(got) != 50 {
		t.Errorf("%d are left", len(got))
	}
}

func TestAnEndedContextDeletesNothing(t *testing.T) {
	s := directory(t, hours(20)...)
	p, err := Observe(t.Context(), s, retention.Policy{MaxCount: 5}, now)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := p.Run(ctx, s)
	if len(r.Deleted) != 0 || len(r.Untried) != 15 || r.Err() == nil {
		t.Errorf("%+v", r)
	}
}

// blind is a store that does not list.
type blind struct {
	*store.Store
	backups, leftovers error
}

func (b blind) Backups(context.Context) ([]cluster.Backup, error) { return nil, b.backups }
func (b blind) Leftovers(context.Context, time.Time) ([]string, error) {
	return nil, b.leftovers
}

func TestAStoreThatDoesNotListIsLeftAlone(t *testing.T) {
	denied := errors.New("denied")
	for _, s := range []blind{{backups: denied}, {leftovers: denied}} {
		if p, err := Observe(t.Context(), s, retention.Policy{}, now); !errors.Is(err, denied) || len(p.Deletions()) > 0 {
			t.Errorf("%+v, %v", p, err)
		}
	}
}
