package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A world is a control store, and daemons to join. It runs in a synctest
// bubble, so that an hour takes no time.
type world struct {
	begin time.Time

	mu      sync.Mutex
	records []Record
	// nodes are the running daemons, by address.
	nodes map[string]cluster.NodeName
	// joined are those that the gossip knows to be alive.
	joined map[cluster.NodeName]bool
	// The errors make requests fail, hang makes reads and joins last until they
	// are cut off.
	readErr, publishErr error
	// published is called once, by the first publishing.
	published func()
	hang      map[string]bool
	events    []event
	logs      []string
}

// An event is a call of the finder's, as "100ms join b=..." writes it.
type event struct {
	at   time.Duration
	what string
}

const self = "10.0.0.1:3996"

func at(i int) string { return fmt.Sprintf("10.0.0.%d:3996", i) }

func newWorld() *world {
	return &world{begin: time.Now(), nodes: map[string]cluster.NodeName{}, joined: map[cluster.NodeName]bool{},
		hang: map[string]bool{}}
}

func (w *world) note(format string, args ...any) {
	w.events = append(w.events, event{time.Since(w.begin), fmt.Sprintf(format, args...)})
}

func (w *world) stuck(ctx context.Context, what string) error {
	w.mu.Lock()
	hang := w.hang[what]
	w.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (w *world) Nodes(ctx context.Context) ([]Record, error) {
	w.mu.Lock()
	w.note("read")
	w.mu.Unlock()
	if err := w.stuck(ctx, "read"); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.records), w.readErr
}

func (w *world) Publish(_ context.Context, r Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("publish %s", r.Boot)
	if w.publishErr != nil {
		return w.publishErr
	}
	if w.published != nil {
		w.published()
		w.published = nil
	}
	w.records = slices.DeleteFunc(w.records, func(o Record) bool { return o.Name == r.Name })
	w.records = append(w.records, r)
	return nil
}

func (w *world) join(ctx context.Context, addrs []string) (int, error) {
	if len(addrs) != 1 {
		return 0, fmt.Errorf("join %v: one at a time, please", addrs)
	}
	w.mu.Lock()
	w.note("join %s", addrs[0])
	w.mu.Unlock()
	name, address, named := strings.Cut(addrs[0], "=")
	if !named {
		address = addrs[0]
	}
	if err := w.stuck(ctx, address); err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch n, ok := w.nodes[address]; {
	case !ok:
		return 0, errors.New("connection refused")
	case named && name != string(n):
		return 0, errors.New("that is " + string(n))
	}
	for _, n := range w.nodes {
		w.joined[n] = true
	}
	return 1, nil
}

func (w *world) alive() []cluster.NodeName {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := []cluster.NodeName{"a"}
	for n := range w.joined {
		list = append(list, n)
	}
	return list
}

func (w *world) log(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logs = append(w.logs, fmt.Sprintf(format, args...))
}

// start runs a daemon that nobody knows yet; stop ends it, and the gossip
// notices.
func (w *world) start(name cluster.NodeName, address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[address] = name
}

func (w *world) stop(address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.joined, w.nodes[address])
	delete(w.nodes, address)
}

// set changes something in the world.
func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// take returns what happened since the last take and contains the word, and
// drops the rest. What happened at the same time is sorted.
func (w *world) take(word string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.what, b.what))
	})
	var list []string
	for _, e := range w.events {
		if text := e.at.String() + " " + e.what; strings.Contains(text, word) {
			list = append(list, text)
		}
	}
	w.events = nil
	return list
}

func (w *world) options() Options {
	return Options{
		Self:      Record{Name: "a", Address: self, Boot: "boot1"},
		Directory: w,
		Interval:  time.Minute,
		Join:      w.join,
		Alive:     w.alive,
		Log:       w.log,
	}
}

// scenario runs a finder in a world of its own.
func scenario(t *testing.T, change func(*world, *Options), report func(*world, *Finder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		o := w.options()
		change(w, &o)
		f, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.Run(ctx) })
		synctest.Wait()
		report(w, f)
		cancel()
		running.Wait()
	})
}

func later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}
