package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// warmUpTime is how long the load runs before anything is measured.
const warmUpTime = 10 * time.Second

// A load writes keys at a steady rate, whether or not the last ones have been
// acknowledged, and watches them. Its client is etcd's own, with its default retry.
type load struct {
	stopPuts, stopWatch context.CancelFunc
	puttings, watching  sync.WaitGroup

	mu     sync.Mutex
	acked  map[string]int64 // revisions
	seen   map[string]int
	failed []error
	// last is when a put was acknowledged last, gap the longest time between two since
	// the mark; marked is when that was, stopped when the first member was stopped.
	last, marked, stopped time.Time
	gap                   time.Duration
	puts                  []put
}

type put struct {
	at   time.Time // when it was sent
	took time.Duration
}

// burden begins to write with one client, and to watch with another.
func burden(ctx context.Context, t harness.T, client, watcher *clientv3.Client, rate int) *load {
	watch, stopWatch := context.WithCancel(ctx)
	ctx, stopPuts := context.WithCancel(ctx)
	l := &load{stopPuts: stopPuts, stopWatch: stopWatch, acked: map[string]int64{}, seen: map[string]int{}}
	t.Cleanup(l.end)
	events := watcher.Watch(watch, "load/", clientv3.WithPrefix())
	l.watching.Go(func() {
		for r := range events {
			l.mu.Lock()
			for _, e := range r.Events {
				l.seen[string(e.Kv.Key)]++
			}
			l.mu.Unlock()
		}
	})
	l.puttings.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			l.puttings.Go(func() { l.put(ctx, client, fmt.Sprintf("load/%08d", i)) })
		}
	})
	return l
}

// burdenOn is burden on a cluster, with what is measured begun.
func burdenOn(ctx context.Context, t harness.T, c *harness.Cluster, rate int) (l *load, release func()) {
	client, err := c.NewClient(c.Nodes()...)
	must(t, err)
	watcher, err := c.NewClient(c.Nodes()...)
	must(t, err)
	l = burden(ctx, t, client, watcher, rate)
	wait(ctx, warmUpTime)
	l.mark()
	return l, func() { _, _ = client.Close(), watcher.Close() }
}

func (l *load) put(ctx context.Context, client *clientv3.Client, key string) {
	asked, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	at := time.Now()
	r, err := client.Put(asked, key, strings.Repeat("x", 256))
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failed = append(l.failed, err)
		return
	}
	now := time.Now()
	if !l.marked.IsZero() {
		l.gap = max(l.gap, now.Sub(l.last))
	}
	l.last, l.acked[key] = now, r.Header.Revision
	l.puts = append(l.puts, put{at, now.Sub(at)})
}

// mark begins what is measured.
func (l *load) mark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marked, l.gap = time.Now(), 0
}

// stops notes that a member is stopped; the first counts.
func (l *load) stops() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped.IsZero() {
		l.stopped = time.Now()
	}
}

// latencies returns the median and the 99th percentile of the puts of a time.
func (l *load) latencies(from, to time.Time) string {
	var took []time.Duration
	for _, p := range l.puts {
		if !p.at.Before(from) && p.at.Before(to) {
			took = append(took, p.took)
		}
	}
	if len(took) == 0 {
		return "-"
	}
	slices.Sort(took)
	return fmt.Sprintf("%d ms, %d ms", took[len(took)/2].Milliseconds(), took[len(took)*99/100].Milliseconds())
}

// loadHead begins the table of the rows; from is what a stop is measured from.
func loadHead(from string) {
	fmt.Println("| what | total | longest time without an acknowledged put | failed puts | events missed, doubled | " +
		from + " to first stop | median and 99th percentile of a put before it | and in that time |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- |")
}

// row ends the load and prints what came of it.
func (l *load) row(ctx context.Context, what string, total time.Duration) {
	l.stopPuts()
	l.puttings.Wait()
	for range 100 { // the last events are on their way
		if wait(ctx, 100*time.Millisecond); l.missed() == 0 {
			break
		}
	}
	l.end()
	doubled := 0
	for _, n := range l.seen {
		if n > 1 {
			doubled++
		}
	}
	fmt.Printf("| %s | %s | %.3f s | %s | %d, %d | %s | %s | %s |\n", what, short(total), l.gap.Seconds(), l.failures(),
		l.missed(), doubled, short(l.stopped.Sub(l.marked)), l.latencies(l.marked.Add(-warmUpTime/2), l.marked),
		l.latencies(l.marked, l.stopped))
}

// failures says how many puts failed, and with what.
func (l *load) failures() string {
	count := map[string]int{}
	for _, err := range l.failed {
		count[err.Error()]++
	}
	text := fmt.Sprint(len(l.failed), " of ", len(l.failed)+len(l.puts))
	for _, why := range slices.Sorted(maps.Keys(count)) {
		text += fmt.Sprintf("; %d: %s", count[why], why)
	}
	return text
}

// missed counts the acknowledged puts that the watcher has not seen.
func (l *load) missed() (count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.acked {
		if l.seen[key] == 0 {
			count++
		}
	}
	return count
}

func (l *load) end() {
	l.stopPuts()
	l.puttings.Wait()
	l.stopWatch()
	l.watching.Wait()
}
