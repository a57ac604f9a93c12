package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

const restoreTitle = "restore of three members"

// timeout is for what is measured: three members share this machine.
const timeout = 5 * time.Minute

// restore measures the restore of a running cluster of three from a backup
// against etcdutl, three times at the same time, and etcd's start.
func (w *world) restore(ctx context.Context, t harness.T) {
	lines := []*contest{{what: "three times `etcdutl snapshot restore`, and start: the floor", target: "-",
		once: w.restoreFloor}}
	var down []time.Duration
	var open []time.Duration
	for _, compression := range []string{"gzip", "zstd"} {
		store := filepath.Join(w.dir, "store-"+compression)
		w.take(t, compression, store)
		backups, err := filepath.Glob(filepath.Join(store, "2*"))
		must(t, err)
		lines = append(lines, &contest{
			what: "restore of three members, from a backup with " + compression, target: "1.3 of the floor",
			once: func(ctx context.Context, t harness.T) cost {
				var c cost
				// The cluster goes before the next one is measured.
				err := harness.Perform(func(string) {}, func(t harness.T) {
					r := w.restored(ctx, t, backups[0])
					c, down, open = r.cost, append(down, r.down), append(open, r.open)
				})
				must(t, err)
				return c
			},
		})
	}
	w.compete(ctx, t, lines)
	fmt.Printf("\nThe cluster took no writes for %s (median of %d; slowest %s). It took them again %s after the "+
		"request.\n",
		short(median(down)), len(down), short(slowest(down)), short(median(open)))
}

func slowest(times []time.Duration) (most time.Duration) {
	for _, d := range times {
		most = max(most, d)
	}
	return most
}

func (w *world) restoreFloor(ctx context.Context, t harness.T) (total cost) {
	err := harness.Perform(func(string) {}, func(t harness.T) {
		f := w.bare(t)
		client := eager(t, f.pki, f.clientURL("a"), f.clientURL("b"), f.clientURL("c"))
		var all sync.WaitGroup
		costs := make([]cost, len(f.names))
		began := time.Now()
		for i, name := range f.names {
			all.Go(func() {
				runtime.LockOSThread() // see bare.start
				costs[i] = w.process(t, w.program(t, "etcdutl"), f.restoring(w.file, name)...)
			})
		}
		all.Wait()
		f.startAll(t)
		within(ctx, t, timeout, func(ctx context.Context) error { return write(ctx, client) })
		total.wall = time.Since(began)
		for i, name := range f.names {
			total.cpu, total.rss = total.cpu+costs[i].cpu, max(total.rss, costs[i].rss)
			total.others += cpuTime(t, f.processes[name].Process.Pid)
		}
	})
	must(t, err)
	return total
}

// eager returns a client that finds out soon that a server has come up.
func eager(t harness.T, pki *harness.PKI, endpoints ...string) *clientv3.Client {
	t.Helper()
	wait := backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1, MaxDelay: 20 * time.Millisecond}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, TLS: pki.ClientTLS(), Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: wait, MinConnectTimeout: time.Second}),
		},
	})
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// A restored is what a restore took.
type restored struct {
	// cost is until a majority of the restored cluster serves, which is while
	// clients are kept away.
	cost
	// open is until a write is acknowledged at the usual address, down the time
	// without such writes before.
	open, down time.Duration
}

// restored runs a cluster, and asks it to restore the backup in a directory.
func (w *world) restored(ctx context.Context, t harness.T, backup string) (r restored) {
	c := harness.New(ctx, t, harness.Options{
		Bin: w.bin, EtcdDirs: w.etcdDirs, Unwatched: true, Restored: true, Env: []string{quota},
		OnFailure: func(*harness.Cluster) {},
	})
	w.found3(ctx, c)
	name := filepath.Base(backup)
	must(t, os.MkdirAll(filepath.Join(c.Store, name), 0o755))
	files, err := filepath.Glob(filepath.Join(backup, "*"))
	must(t, err)
	for _, f := range files {
		must(t, os.Link(f, filepath.Join(c.Store, name, filepath.Base(f))))
	}
	var usual []string
	var quarantined []*clientv3.Client
	before := time.Duration(0)
	for _, n := range c.Nodes() {
		usual = append(usual, n.ClientURL())
		quarantined = append(quarantined,
			eager(t, c.PKI, strings.Replace(n.ClientURL(), fmt.Sprint(harness.ClientPort),
				fmt.Sprint(harness.QuarantinePort), 1)))
		before += familyTime(t, n.PID())
	}
	v := visit(ctx, eager(t, c.PKI, usual...))
	defer v.end()
	began := time.Now()
	_, err = c.Ctl("restore-backup", name, "--skip-backup")
	must(t, err)
	within(ctx, t, timeout, func(ctx context.Context) error { return majority(ctx, quarantined) })
	r.wall = time.Since(began)
	for _, n := range c.Nodes() {
		r.cpu += familyTime(t, n.PID())
		r.rss = max(r.rss, largestMemory(n.PID()))
		if pid := n.EtcdPID(); pid != 0 {
			r.others += cpuTime(t, pid)
		}
	}
	r.cpu -= before
	within(ctx, t, timeout, func(context.Context) error { return v.opened() })
	r.open, r.down = v.first.Sub(began), v.first.Sub(v.last)
	return r
}

func (w *world) found3(ctx context.Context, c *harness.Cluster) {
	c.SetSpec(3, version)
	c.Start("a", "b", "c")
	c.WaitVoters(harness.Soon, 3)
	c.Eventually(harness.Soon, "nothing left to do", func(context.Context) error {
		r, err := c.Status()
		if err == nil && (!r.Converged || r.Term == 0) {
			err = fmt.Errorf("the cluster is not what the spec says: %v", r.Holds)
		}
		return err
	})
	wait(ctx, memberRestTime)
}

// majority reports why no majority of the members behind clients serves. All are asked at
// the same time: one that is starting answers nothing.
func majority(ctx context.Context, clients []*clientv3.Client) (err error) {
	answers := make(chan error, len(clients))
	for _, c := range clients {
		go func() {
			answers <- serves(ctx, func(ctx context.Context) (*clientv3.StatusResponse, error) {
				return c.Status(ctx, c.Endpoints()[0])
			})
		}()
	}
	serving := 0
	for range clients {
		answer := <-answers
		if answer == nil {
			serving++
		} else {
			err = answer
		}
		if serving > len(clients)/2 {
			return nil
		}
	}
	return err
}

// A visitor writes all the time, and notes when another cluster answers.
type visitor struct {
	stop context.CancelFunc
	done chan struct{}
	mu   sync.Mutex
	// last is the last write that the first cluster acknowledged, first the first
	// one of another.
	last, first time.Time
}

func visit(ctx context.Context, client *clientv3.Client) *visitor {
	ctx, stop := context.WithCancel(ctx)
	v := &visitor{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(v.done)
		var cluster uint64
		for ctx.Err() == nil {
			ask, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			r, err := client.Put(ask, "bench", "x")
			cancel()
			switch {
			case err != nil:
			case cluster == 0 || cluster == r.Header.ClusterId:
				cluster = r.Header.ClusterId
				v.mu.Lock()
				v.last = time.Now()
				v.mu.Unlock()
			default:
				v.mu.Lock()
				v.first = time.Now()
				v.mu.Unlock()
				return
			}
			wait(ctx, 20*time.Millisecond)
		}
	}()
	return v
}

func (v *visitor) opened() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.first.IsZero() {
		return errors.New("the restored cluster takes no writes")
	}
	return nil
}

func (v *visitor) end() {
	v.stop()
	<-v.done
}
