package daemon

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/blob/memblob"
	"gocloud.dev/gcerrors"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/discovery"
	"github.com/etcdadm/etcdadm/pkg/daemon/fleet"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// A slow bucket takes its time for each list, and has nothing but node records.
type slow struct {
	driver.Bucket
	content *blob.Bucket
	takes   time.Duration
}

func (s slow) ListPaged(ctx context.Context, o *driver.ListOptions) (*driver.ListPage, error) {
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	found, _, err := s.content.ListPage(ctx, blob.FirstPageToken, o.PageSize, &blob.ListOptions{Prefix: o.Prefix})
	p := &driver.ListPage{}
	for _, f := range found {
		p.Objects = append(p.Objects, &driver.ListObject{Key: f.Key, Size: f.Size, ModTime: f.ModTime, MD5: f.MD5})
	}
	return p, err
}

func (s slow) NewRangeReader(ctx context.Context, key string, _, _ int64, _ *driver.ReaderOptions) (
	driver.Reader, error) {
	r, err := s.content.NewReader(ctx, key, nil)
	if err != nil {
		return nil, err
	}
	return slowReader{r}, nil
}

type slowReader struct{ *blob.Reader }

func (r slowReader) Attributes() *driver.ReaderAttributes {
	return &driver.ReaderAttributes{ModTime: r.ModTime(), Size: r.Size()}
}
func (slowReader) As(any) bool { return false }

func (slow) ErrorCode(err error) gcerrors.ErrorCode { return gcerrors.Code(err) }
func (slow) ErrorAs(error, any) bool                { return false }
func (slow) As(any) bool                            { return false }
func (slow) Close() error                           { return nil }

// slowly returns a daemon with a store of which a poll takes that long.
func slowly(t *testing.T, takes time.Duration) (*Daemon, slow) {
	b := slow{content: memblob.OpenBucket(nil), takes: takes}
	d := &Daemon{now: time.Now, view: fleet.NewStoreView(store.New(blob.NewBucket(b)), time.Second, time.Now)}
	t.Cleanup(d.view.Close)
	return d, b
}

// A node reads the store itself before it obeys an order that comes before a lease. A store
// of which a poll takes twenty seconds does not keep a cluster from its bootstrap.
func TestABootstrapOrderWaitsForASlowStore(t *testing.T) {
	op := &plan.MemberPrepare{Node: "a", Token: "t1"}
	synctest.Test(t, func(t *testing.T) {
		d, b := slowly(t, 20*time.Second)
		defer d.view.Close()
		a := &authority{records: d.records}
		began := time.Now()
		if err := a.bootstrapped(t.Context(), op, nil); err != nil {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		must(t, b.content.WriteAll(t.Context(), "control/etcd-cluster-created", []byte(`{}`), nil))
		// What was read for the first order does not do for this one.
		if err := a.bootstrapped(t.Context(), op, nil); err == nil ||
			!strings.Contains(err.Error(), "the store has a cluster") {
			t.Errorf("an order in a store with a cluster: %v", err)
		}
		// Nobody waits forever.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.bootstrapped(ctx, op, nil); err == nil || !strings.Contains(err.Error(), "needs the store of this node") {
			t.Errorf("who hangs up gets %v", err)
		}
	})
}

// Where a poll takes longer than discovery waits, the last one shows where nodes are.
func TestNodesAreFoundInASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, b := slowly(t, 20*time.Second)
		defer d.view.Close()
		var err error
		d.c.DataDir = t.TempDir()
		d.state, err = nodestate.Open(d.c.DataDir, nodestate.Self{Name: "a"})
		must(t, err)
		defer d.state.Close()
		s := store.New(blob.NewBucket(b))
		must(t, b.content.WriteAll(t.Context(), "control/nodes/b",
			[]byte(`{"name": "b", "address": "10.0.0.2:8000", "boot": "x", "at": "2026-11-20T12:00:00Z"}`), nil))
		nodes := func() ([]discovery.Record, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			return directory{d, s}.Nodes(ctx)
		}
		if list, err := nodes(); err == nil {
			t.Errorf("the first try found %+v", list)
		}
		time.Sleep(30 * time.Second)
		if list, err := nodes(); err != nil || len(list) != 1 || list[0].Address != "10.0.0.2:8000" {
			t.Errorf("later it found %+v, %v", list, err)
		}
	})
}
