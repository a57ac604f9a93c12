package apply

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/internal/backoff"
)

// The pauses between two tries to fetch a release: a mirror that is wrong is put right by
// a person, and one that is away comes back.
const (
	firstFetchPause = 2 * time.Second
	lastFetchPause  = time.Minute
)

// fetches are the releases of etcd that a node gets itself.
type fetches struct {
	mu sync.Mutex
	of map[etcdversion.Version]fetch
}

// A fetch is one release. Where it has failed, it is tried again.
type fetch struct {
	failed int
	why    string
	again  time.Time
}

// Fetch gets the releases that are missing, one after the other, as far as none of them
// failed a moment ago. What is not wanted any more is forgotten.
func (l *Local) Fetch(ctx context.Context, wanted []etcdversion.Version) {
	if l.o.Fetch == nil {
		return
	}
	for _, v := range l.fetches.due(wanted, l.o.Now()) {
		l.fetches.begin(v, l.o.From)
		err := l.o.Fetch(ctx, v)
		if ctx.Err() != nil {
			return
		}
		l.fetches.end(v, err, l.o.Now())
	}
}

// due returns what is to be fetched now.
func (f *fetches) due(wanted []etcdversion.Version, now time.Time) (list []etcdversion.Version) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for v := range f.of {
		if !slices.Contains(wanted, v) {
			delete(f.of, v)
		}
	}
	for _, v := range wanted {
		if !now.Before(f.of[v].again) {
			list = append(list, v)
		}
	}
	return list
}

func (f *fetches) begin(v etcdversion.Version, from string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = map[etcdversion.Version]fetch{}
	}
	t := f.of[v]
	if t.failed == 0 {
		t.why = "is being fetched from " + from
	}
	f.of[v] = t
}

func (f *fetches) end(v etcdversion.Version, err error, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		delete(f.of, v)
		return
	}
	t := f.of[v]
	pause := backoff.Doubled(firstFetchPause, lastFetchPause, t.failed)
	f.of[v] = fetch{failed: t.failed + 1, why: fmt.Sprintf("could not be fetched: %v", err), again: now.Add(pause)}
}

// list returns them.
func (f *fetches) list() (all []cluster.BrokenBinary) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for v, t := range f.of {
		all = append(all, cluster.BrokenBinary{Version: v, Why: t.why, Fetch: true})
	}
	slices.SortFunc(all, func(a, b cluster.BrokenBinary) int { return a.Version.Compare(b.Version) })
	return all
}
