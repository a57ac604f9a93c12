package machine

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A writer writes keys one after the other, all the time, and remembers which
// were acknowledged.
type writer struct {
	h      *host
	client *clientv3.Client
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	acked map[string]int64 // the revision of each key
	last  error
}

// startWriter begins to write to any of the members.
func startWriter(hosts ...*host) *writer {
	h := hosts[0]
	ctx, cancel := context.WithCancel(h.t.Context())
	w := &writer{h: h, client: h.client(hosts...), cancel: cancel, done: make(chan struct{}), acked: map[string]int64{}}
	go w.run(ctx)
	h.t.Cleanup(w.stop)
	return w
}

func (w *writer) stop() {
	w.cancel()
	<-w.done
}

func (w *writer) run(ctx context.Context) {
	defer close(w.done)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		key := fmt.Sprintf("w/%08d", i)
		put, cancel := context.WithTimeout(ctx, time.Second)
		r, err := w.client.Put(put, key, "x")
		cancel()
		w.mu.Lock()
		if w.last = err; err == nil {
			w.acked[key] = r.Header.Revision
		}
		w.mu.Unlock()
	}
}

func (w *writer) state() (acked int, last error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked), w.last
}

// more waits until that many more writes have been acknowledged.
func (w *writer) more(count int) {
	w.h.t.Helper()
	before, _ := w.state()
	eventually(w.h.t, commandTime, "writes to go through", func() error {
		if now, err := w.state(); now < before+count {
			return fmt.Errorf("%d are acknowledged, %d before; the last: %w", now, before, err)
		}
		return nil
	})
}

// finish ends the writing, and fails the test unless every member has every
// write that was acknowledged.
func (w *writer) finish(hosts ...*host) {
	w.h.t.Helper()
	w.stop()
	if len(w.acked) == 0 {
		w.h.t.Fatal("nothing was ever written")
	}
	for _, h := range hosts {
		var r *clientv3.GetResponse
		h.ask("read what was written", func(ctx context.Context) (err error) {
			r, err = h.client(h).Get(ctx, "w/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
			return err
		})
		there := map[string]int64{}
		for _, kv := range r.Kvs {
			there[string(kv.Key)] = kv.ModRevision
		}
		for key, revision := range w.acked {
			if there[key] != revision {
				h.t.Fatalf("%s: %s was acknowledged at revision %d, and is there at %d (%d of %d keys)", h.name, key, revision,
					there[key], len(there), len(w.acked))
			}
		}
	}
}
