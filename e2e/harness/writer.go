package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A Writer writes keys one after the other, all the time, and remembers which
// were acknowledged. None of them may be lost.
type Writer struct {
	c      *Cluster
	nodes  []*Node // nil for all that there are
	prefix string
	every  time.Duration
	// open is a writer that begins a write at each time, however long others take.
	open   bool
	client *clientv3.Client
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	acked map[string]int64 // the revision of each key
	// failed is how many got an error, or no answer in time.
	failed int
	last   int64
	wrong  []string
	// at is when the last write was acknowledged, gap the longest time between two.
	at  time.Time
	gap time.Duration
}

// Write begins to write, to any of the members. At its end the cluster must
// have every acknowledged key.
func (c *Cluster) Write() *Writer {
	c.t.Helper()
	return c.WriteEvery(10 * time.Millisecond)
}

// WriteEvery begins to write with that pause between two keys.
func (c *Cluster) WriteEvery(every time.Duration) *Writer {
	c.t.Helper()
	return c.write(every, false)
}

// WriteTo begins to write to the members on these nodes alone.
func (c *Cluster) WriteTo(nodes ...*Node) *Writer {
	c.t.Helper()
	return c.write(10*time.Millisecond, false, nodes...)
}

// Load begins to write at that pace: no write waits for another one, as they come from many
// clients. The nodes are those that there are.
func (c *Cluster) Load(every time.Duration) *Writer {
	c.t.Helper()
	return c.write(every, true)
}

func (c *Cluster) write(every time.Duration, open bool, nodes ...*Node) *Writer {
	c.t.Helper()
	to := nodes
	if nodes == nil {
		to = c.Nodes()
	}
	client, err := c.NewClient(to...)
	c.must(err, "begin to write")
	ctx, cancel := context.WithCancel(c.ctx)
	c.begun++ // those that have ended have left their keys
	w := &Writer{
		c: c, nodes: nodes, prefix: fmt.Sprintf("w%d/", c.begun), every: every, open: open, client: client,
		cancel: cancel, done: make(chan struct{}), acked: map[string]int64{},
	}
	c.writers = append(c.writers, w)
	go w.run(ctx)
	return w
}

func (w *Writer) run(ctx context.Context) {
	defer close(w.done)
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		key := fmt.Sprintf("%s%08d", w.prefix, i)
		if w.open {
			wg.Go(func() { w.put(ctx, key, askTime) })
			continue
		}
		if i%100 == 0 && w.nodes == nil { // nodes may have come
			w.client.SetEndpoints(w.c.endpoints()...)
		}
		w.put(ctx, key, time.Second)
	}
}

func (w *Writer) put(writing context.Context, key string, within time.Duration) {
	ctx, cancel := context.WithTimeout(writing, within)
	defer cancel()
	switch r, err := w.client.Put(ctx, key, "x"); {
	case err == nil:
		w.note(key, r.Header.Revision)
	case writing.Err() == nil:
		w.mu.Lock()
		w.failed++
		w.mu.Unlock()
	}
}

func (c *Cluster) endpoints() []string {
	var urls []string
	for _, n := range c.Nodes() {
		urls = append(urls, n.ClientURL())
	}
	return urls
}

func (w *Writer) note(key string, revision int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if revision <= w.last && !w.open {
		w.wrong = append(w.wrong, fmt.Sprintf("the revision went from %d to %d with %s", w.last, revision, key))
	}
	w.acked[key], w.last = revision, revision
	now := time.Now()
	if !w.at.IsZero() {
		w.gap = max(w.gap, now.Sub(w.at))
	}
	w.at = now
}

// LongestGap returns the longest time between two acknowledged writes since it was
// asked for last.
func (w *Writer) LongestGap() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	gap := w.gap
	w.gap = 0
	return gap
}

// Measure begins to measure how writes go, and returns what logs it, for the named change. It
// sets no bound: how long a write waits depends on what else the machine does.
func (w *Writer) Measure() (log func(what string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	began, acked, failed := time.Now(), len(w.acked), w.failed
	w.gap = 0
	return func(what string) {
		w.c.t.Helper()
		w.mu.Lock()
		defer w.mu.Unlock()
		took, more := time.Since(began).Seconds(), len(w.acked)-acked
		w.c.t.Logf("MEASURED %s: %.1f s; %d writes acknowledged (%.0f a second), %d failed; none for %.2f s", what, took,
			more, float64(more)/took, w.failed-failed, w.gap.Seconds())
	}
}

// Acked returns how many writes have been acknowledged.
func (w *Writer) Acked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

// Failed returns how many writes got an error, or no answer in time.
func (w *Writer) Failed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// WaitMore waits until that many more writes have been acknowledged.
func (w *Writer) WaitMore(within time.Duration, more int) {
	w.c.t.Helper()
	from := w.Acked()
	w.c.Eventually(within, "writes go through", func(context.Context) error {
		if now := w.Acked(); now < from+more {
			return fmt.Errorf("%d writes are acknowledged, %d before", now, from)
		}
		return nil
	})
}

// End ends the writes and looks for them now: what comes later may lose them.
func (w *Writer) End() {
	w.c.t.Helper()
	w.stop()
	w.c.writers = slices.DeleteFunc(w.c.writers, func(v *Writer) bool { return v == w })
	if err := w.check(); err != nil {
		w.c.t.Errorf("acknowledged writes: %v", err)
	}
}

func (w *Writer) stop() {
	w.cancel()
	<-w.done
	_ = w.client.Close()
}

// check looks for the acknowledged keys.
func (w *Writer) check() error {
	if len(w.wrong) > 0 {
		return errors.New(strings.Join(w.wrong, "; "))
	}
	return w.c.Await(Soon, func(ctx context.Context) error {
		client, err := w.c.NewClient(w.c.Nodes()...)
		if err != nil {
			return err
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(ctx, 2*askTime)
		defer cancel()
		r, err := client.Get(ctx, w.prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return fmt.Errorf("read what was written: %w", err)
		}
		there := map[string]int64{}
		for _, kv := range r.Kvs {
			there[string(kv.Key)] = kv.ModRevision
		}
		for key, revision := range w.acked {
			if there[key] != revision {
				return fmt.Errorf("%s was acknowledged at revision %d, and is there at %d (%d of %d keys)", key, revision,
					there[key], len(there), len(w.acked))
			}
		}
		return nil
	})
}
