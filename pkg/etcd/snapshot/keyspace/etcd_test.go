package keyspace

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/snapshottest"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

// compare takes a snapshot and compares it with the etcd, at each revision.
func compare(t *testing.T, c *clientv3.Client, when string) {
	t.Helper()
	r, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	path := snapshottest.Write(t, b)
	newest := opened(t, path, Options{}).Summary()
	for rev := max(newest.Compacted, 1); rev <= newest.Newest; rev += 1 + (newest.Newest-newest.Compacted)/7 {
		s := opened(t, path, Options{Revision: rev})
		live, err := c.HashKV(t.Context(), c.Endpoints()[0], int64(rev))
		if err != nil {
			t.Fatal(err)
		}
		h, err := s.Hash(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if int64(h.CompactRevision) == live.CompactRevision && h.Hash != live.Hash {
			t.Errorf("%s: at %d the hash is %08x, etcd's %08x (compacted to %d)", when, rev, h.Hash, live.Hash,
				h.CompactRevision)
		}
		if int64(h.CompactRevision) != live.CompactRevision && rev != newest.Compacted {
			t.Errorf("%s: at %d the compaction is %d, etcd's %d", when, rev, h.CompactRevision, live.CompactRevision)
		}
		same(t, c, s, rev, when)
	}
}

// same compares all keys.
func same(t *testing.T, c *clientv3.Client, s *Space, rev cluster.Revision, when string) {
	t.Helper()
	all, err := c.Get(t.Context(), "", clientv3.WithFromKey(), clientv3.WithRev(int64(rev)))
	if err != nil {
		t.Fatal(err)
	}
	keys := s.Keys("")
	if len(keys) != len(all.Kvs) {
		t.Fatalf("%s: at %d there are %d keys, in etcd %d", when, rev, len(keys), len(all.Kvs))
	}
	for i, kv := range all.Kvs {
		k := keys[i]
		v, err := s.Value(k, nil)
		if err != nil || k.Key != string(kv.Key) || !bytes.Equal(v, kv.Value) ||
			int64(k.CreateRevision) != kv.CreateRevision ||
			int64(k.ModRevision) != kv.ModRevision || k.Version != kv.Version || k.Lease != kv.Lease {
			t.Fatalf("%s: at %d a key is %+v, in etcd %+v, %v", when, rev, k, kv, err)
		}
	}
}

// What is read out of a snapshot is what the etcd has that it was taken of.
func TestAgainstEtcd(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"3.5.35", "3.6.16", "3.7.3"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := etcdtest.Serve(t, etcdtest.Binaries(t, version))
			compare(t, c, "empty")
			r := rand.New(rand.NewPCG(3, uint64(len(version))))
			churn(t, c, r, 150)
			compare(t, c, "never compacted")
			for i := range 3 {
				now, err := c.Get(t.Context(), "x")
				if err != nil {
					t.Fatal(err)
				}
				// Physical: the entries are gone when it returns. At the last time
				// up to the present.
				rev := now.Header.Revision - []int64{40, 3, 0}[i]
				if _, err := c.Compact(t.Context(), rev, clientv3.WithCompactPhysical()); err != nil {
					t.Fatal(err)
				}
				compare(t, c, fmt.Sprintf("compaction %d", i))
				churn(t, c, r, 60)
				compare(t, c, fmt.Sprintf("after compaction %d", i))
			}
			all(t, c)
			compare(t, c, "everything deleted")
		})
	}
}

// churn changes keys at random.
func churn(t *testing.T, c *clientv3.Client, r *rand.Rand, n int) {
	t.Helper()
	lease, err := c.Grant(t.Context(), 600)
	if err != nil {
		t.Fatal(err)
	}
	key := func() string { return fmt.Sprintf("/registry/pods/%d/%d", r.IntN(4), r.IntN(9)) }
	for range n {
		var err error
		switch r.IntN(6) {
		case 0:
			_, err = c.Delete(t.Context(), key())
		case 1:
			_, err = c.Delete(t.Context(), fmt.Sprintf("/registry/pods/%d/", r.IntN(4)), clientv3.WithPrefix())
		case 2:
			_, err = c.Put(t.Context(), key(), "leased", clientv3.WithLease(lease.ID))
		case 3:
			_, err = c.Txn(t.Context()).Then(clientv3.OpPut("/t/1", fmt.Sprint(r.IntN(9))), clientv3.OpPut(key(), ""),
				clientv3.OpDelete("/t/2")).Commit()
		default:
			_, err = c.Put(t.Context(), key(), string(make([]byte, r.IntN(9000))))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func all(t *testing.T, c *clientv3.Client) {
	t.Helper()
	now, err := c.Delete(t.Context(), "", clientv3.WithFromKey())
	if err == nil {
		_, err = c.Compact(t.Context(), now.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err != nil {
		t.Fatal(err)
	}
}
