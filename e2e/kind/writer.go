//go:build e2e

package kind

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	// pause is between two writes of one client.
	pause = 100 * time.Millisecond
	// clients write at the same time: one that hangs does not stop the others.
	clients = 4
)

// A Writer creates ConfigMaps through the API servers as long as the scenario lasts, and remembers
// which were acknowledged. It is several clients, each of which waits for its answers.
type Writer struct {
	api   *API
	label string

	mu     sync.Mutex
	next   int
	acked  []int
	failed []failure
	ending machine
	last   time.Time
	gap    outage // the longest time in which no client had an acknowledgement
	wait   outage // the longest time that one client had none for a write
}

// An outage is a time without an acknowledgement, and when it ended.
type outage struct {
	length time.Duration
	end    time.Time
}

// since makes it the one from a time until now, if that is longer.
func (s *outage) since(from, now time.Time) {
	if d := now.Sub(from); d > s.length {
		*s = outage{d, now}
	}
}

// String returns the length, and the end as the machines' logs have it.
func (s outage) String() string {
	return fmt.Sprintf("%.2f s (until %s)", s.length.Seconds(), s.end.UTC().Format("15:04:05.000"))
}

// write starts a writer, and ends it with the test.
func (a *API) write(t *testing.T) *Writer {
	w := &Writer{api: a, label: fmt.Sprintf("w%d", time.Now().Unix()), last: time.Now()}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // until it is ended below
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	for range clients {
		running.Go(func() {
			for ctx.Err() == nil {
				w.once(ctx)
				idle(ctx)
			}
		})
	}
	return w
}

// idle is a client that has nothing to write.
func idle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	<-ctx.Done()
}

// once creates a ConfigMap, until that is acknowledged. After a failure it may be there.
func (w *Writer) once(ctx context.Context) {
	w.mu.Lock()
	n := w.next
	w.next++
	w.mu.Unlock()
	m := configMap{
		APIVersion: "v1", Kind: "ConfigMap",
		Metadata: metadata{Name: fmt.Sprintf("%s-%06d", w.label, n), Labels: map[string]string{"writer": w.label}},
		Data:     map[string]string{"n": fmt.Sprint(n)},
	}
	for start := time.Now(); ctx.Err() == nil; idle(ctx) {
		err := w.api.do(ctx, http.MethodPost, configMaps, m, nil)
		if ctx.Err() == nil && w.answered(n, start, err) {
			return
		}
	}
}

// answered notes the answer to a write, and reports whether it is acknowledged.
func (w *Writer) answered(n int, start time.Time, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if err != nil && !is(err, http.StatusConflict) {
		w.failed = append(w.failed, failure{now, err, w.ending})
		return false
	}
	w.gap.since(w.last, now)
	w.wait.since(start, now)
	w.last = now
	w.acked = append(w.acked, n)
	return true
}

// ends notes that the scenario ends the API server of a machine, "" for none any more.
func (w *Writer) ends(m machine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ending = m
}

// count returns how many writes were acknowledged.
func (w *Writer) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

// at returns the number of the write that was acknowledged after n others.
func (w *Writer) at(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acked[n]
}

// more waits until n more writes are acknowledged.
func (w *Writer) more(t *testing.T, n int) {
	t.Helper()
	start := w.count()
	await(t, fmt.Sprintf("%d more writes", n), 3*time.Minute, func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.acked) >= start+n {
			return nil
		}
		if len(w.failed) > 0 {
			return w.failed[len(w.failed)-1].err
		}
		return errors.New("none failed")
	})
}

// during does something while the writer writes, and prints what the writer saw of it. It returns
// which writes failed.
func (w *Writer) during(t *testing.T, what string, do func()) []failure {
	t.Helper()
	w.mu.Lock()
	acked, failed := len(w.acked), len(w.failed)
	w.gap, w.wait, w.last = outage{}, outage{}, time.Now()
	w.mu.Unlock()
	start := time.Now()
	do()
	w.more(t, 20)
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Logf("MEASURED %s: %.1f s; %d writes acknowledged, %d failed; none for %v; one client waited %v", what,
		time.Since(start).Seconds(), len(w.acked)-acked, len(w.failed)-failed, w.gap, w.wait)
	for _, f := range w.failed[failed:min(len(w.failed), failed+5)] {
		t.Logf("  failed after %.1f s: %v", f.at.Sub(start).Seconds(), f.err)
	}
	return slices.Clone(w.failed[failed:])
}

// present returns the numbers of the ConfigMaps that are there.
func (w *Writer) present(t *testing.T) []int {
	t.Helper()
	var found []int
	next := ""
	for {
		var list configMapList
		q := url.Values{"labelSelector": {"writer=" + w.label}, "limit": {"500"}, "continue": {next}}
		if err := w.api.do(t.Context(), http.MethodGet, configMaps+"?"+q.Encode(), nil, &list); err != nil {
			t.Fatal(err)
		}
		for _, m := range list.Items {
			var n int
			if _, err := fmt.Sscan(m.Data["n"], &n); err != nil || m.Metadata.Name != fmt.Sprintf("%s-%06d", w.label, n) {
				t.Fatalf("the ConfigMap %s has %q", m.Metadata.Name, m.Data)
			}
			found = append(found, n)
		}
		if next = list.Metadata.Continue; next == "" {
			break
		}
	}
	slices.Sort(found)
	return found
}

// check compares what is there with what was acknowledged, but for those from a number up to
// another, which a restore has undone.
func (w *Writer) check(t *testing.T, from, to int) {
	t.Helper()
	w.mu.Lock()
	acked := slices.Clone(w.acked)
	w.mu.Unlock()
	found := w.present(t)
	var lost []int
	for _, n := range acked {
		if !has(found, n) && (n < from || n >= to) {
			lost = append(lost, n)
		}
	}
	if len(lost) > 0 {
		t.Errorf("%d of %d acknowledged writes are lost: %v", len(lost), len(acked), lost)
	}
	t.Logf("all there: %d acknowledged writes", len(acked)-len(lost))
}

// has reports whether a number is among those that are present.
func has(found []int, n int) bool {
	_, ok := slices.BinarySearch(found, n)
	return ok
}
