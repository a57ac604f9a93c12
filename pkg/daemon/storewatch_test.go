package daemon

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/daemon/fleet"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// The existing etcd-manager-ctl only writes an object. The daemon that observes is woken within a
// second, one that stands by asks the store nothing.
func TestARequestWakesTheDaemonThatObserves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(t.Context(), "mem://")
		must(t, err)
		d := &Daemon{store: s, now: time.Now, news: make(chan struct{}, 1), reports: make(chan struct{}, 1)}
		d.view = fleet.NewStoreView(s, time.Hour, d.now)
		defer d.view.Close()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			d.watchStore(ctx)
		}()
		time.Sleep(time.Minute)
		if n := s.Requests(); n != 0 {
			t.Errorf("a daemon that stands by has made %d requests", n)
		}

		d.observes()
		time.Sleep(2 * time.Second)
		if a := d.view.Answer(t.Context()); a.Err != nil || len(a.Store.Requests) != 0 {
			t.Fatalf("the first answer is %+v", a)
		}
		queued := time.Now()
		text := `{"timestamp":"1795171177000000000","restoreBackup":{"backup":"2026-11-20T10:39:37Z-000001"}}`
		must(t, s.Put(ctx, "control/"+queued.UTC().Format(time.RFC3339)+"-000000/_command.json", []byte(text)))
		<-d.news
		if took := time.Since(queued); took > time.Second {
			t.Errorf("the daemon was woken after %s", took)
		}
		if a := d.view.Answer(t.Context()); a.Err != nil || len(a.Store.Requests) != 1 {
			t.Errorf("the answer is %+v", a)
		}
		cancel()
		<-done
	})
}
