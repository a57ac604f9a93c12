package harness

import (
	"context"
	"fmt"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A Watcher watches what a [Writer] writes, as long as the cluster lives. It must see
// every acknowledged write once, in order.
type Watcher struct {
	w      *Writer
	client *clientv3.Client
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	seen  map[string]int64 // the revision of each key
	last  int64
	wrong []string
}

// Watch begins to watch what w writes, through any of the members.
func (w *Writer) Watch() *Watcher {
	w.c.t.Helper()
	client, err := w.c.NewClient(w.c.Nodes()...)
	w.c.must(err, "begin to watch")
	// It outlives the writer, which ends with the test: what was acknowledged last is seen, too.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(context.WithoutCancel(w.c.ctx)))
	v := &Watcher{w: w, client: client, cancel: cancel, done: make(chan struct{}), seen: map[string]int64{}}
	w.c.watchers = append(w.c.watchers, v)
	go v.run(ctx)
	return v
}

func (v *Watcher) run(ctx context.Context) {
	defer close(v.done)
	for ctx.Err() == nil {
		events := v.client.Watch(ctx, v.w.prefix, clientv3.WithPrefix(), clientv3.WithRev(v.next()))
		// A watch that needs a leader ends where there is none; who watches begins again.
		for r := range events {
			v.note(r)
		}
	}
}

// next is the revision to watch from.
func (v *Watcher) next() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last + 1
}

func (v *Watcher) note(r clientv3.WatchResponse) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r.CompactRevision != 0 {
		v.wrong = append(v.wrong, fmt.Sprintf("revision %d is compacted, %d was seen last", r.CompactRevision, v.last))
		v.last = r.CompactRevision
	}
	for _, e := range r.Events {
		key, revision := string(e.Kv.Key), e.Kv.ModRevision
		if v.seen[key] != 0 || revision <= v.last {
			v.wrong = append(v.wrong, fmt.Sprintf("%s of revision %d came after revision %d", key, revision, v.last))
		}
		v.seen[key], v.last = revision, max(v.last, revision)
	}
}

func (v *Watcher) stop() {
	v.cancel()
	<-v.done
	_ = v.client.Close()
}

// check compares what was seen with what was acknowledged. Nobody writes any more.
func (v *Watcher) check() error {
	return v.w.c.Await(Soon, func(context.Context) error {
		v.mu.Lock()
		defer v.mu.Unlock()
		if len(v.wrong) > 0 {
			return fmt.Errorf("%d events are wrong, the first: %s", len(v.wrong), v.wrong[0])
		}
		for key, revision := range v.w.acked {
			if v.seen[key] != revision {
				return fmt.Errorf("%s was acknowledged at revision %d, and seen at %d (%d of %d events, the last at revision %d)",
					key, revision, v.seen[key], len(v.seen), len(v.w.acked), v.last)
			}
		}
		return nil
	})
}
