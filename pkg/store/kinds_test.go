package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// A hostile store is a directory with a cluster's control objects, and others.
type hostile struct {
	t   *testing.T
	dir string
	*store.Store
}

func newHostile(t *testing.T) hostile {
	t.Helper()
	dir := t.TempDir()
	h := hostile{t, dir, open(t, dir)}
	ctx, now := t.Context(), time.Now()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	version := etcdversion.Must("3.6.16")
	check(h.PutSpec(ctx, store.SpecFile{MemberCount: 3, EtcdVersion: version}))
	check(h.MarkCreated(ctx, now))
	check(h.PutRevision(ctx, 7, now))
	check(h.CreateIncarnation(ctx, cluster.Incarnation{
		Number: 1, Token: "t1", Version: version, Voters: []cluster.InitialMember{
			{Name: "a", PeerURLs: []string{"http://a:1"}},
		},
	}))
	check(h.PutNode(ctx, store.NodeRecord{Name: "a", Address: "a:1", Boot: "boot", At: now}))
	_, err := h.PutRequest(ctx, cluster.Request{Name: "r1", Kind: cluster.RequestPause, At: now})
	check(err)
	return h
}

// plant makes a file of some size, mostly a hole, that was written long ago.
func (h hostile) plant(key, text string, size int64) {
	h.t.Helper()
	path := filepath.Join(h.dir, key)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err == nil && size > 0 {
		err = os.Truncate(path, size)
	}
	old := time.Now().Add(-time.Hour)
	if err == nil {
		err = os.Chtimes(path, old, old)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// whole polls, and makes sure that everything of the cluster's is seen.
func (h hostile) whole() store.View {
	h.t.Helper()
	v, err := h.Poll(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	if v.Spec == nil || v.Spec.MemberCount != 3 || v.Created.IsZero() || v.Revision != 7 {
		h.t.Errorf("spec %+v, created %s, revision %d", v.Spec, v.Created, v.Revision)
	}
	if !slices.ContainsFunc(v.Nodes, func(n store.NodeRecord) bool { return n.Name == "a" }) ||
		!slices.ContainsFunc(v.Requests, func(r cluster.Request) bool { return r.Name == "r1" }) ||
		!slices.ContainsFunc(v.Incarnations, func(i cluster.Incarnation) bool { return i.Number == 1 }) {
		h.t.Errorf("nodes %+v, requests %+v, incarnations %+v", v.Nodes, v.Requests, v.Incarnations)
	}
	return v
}

func (h hostile) reported(v store.View, texts ...string) {
	h.t.Helper()
	for _, text := range texts {
		if !strings.Contains(strings.Join(v.Problems, "\n"), text) {
			h.t.Errorf("no problem names %q: %q", text, v.Problems)
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Large objects of every kind are neither read nor kept.
func TestAPollIsSmallWhateverTheStoreHolds(t *testing.T) {
	h := newHostile(t)
	for i := range 100 {
		h.plant(fmt.Sprintf("control/nodes/n%d", i), "{", 4<<20)
		h.plant(fmt.Sprintf("control/requests/q%d", i), "{", 4<<20)
		h.plant(fmt.Sprintf("control/closed/c%d", i), "{", 4<<20)
		h.plant(fmt.Sprintf("control/2026-11-20T10:00:00Z-%06d/_command.json", i), "{", 4<<20)
		h.plant(fmt.Sprintf("control/incarnations/%d", i+2), "{", 16<<10)
	}
	before, began := heap(), totalAlloc()
	var v store.View
	for range 3 {
		v = h.whole()
	}
	if grown := int64(heap() - before); grown > 8<<20 {
		t.Errorf("polls keep %d MiB", grown>>20)
	}
	if read := totalAlloc() - began; read > 64<<20 {
		t.Errorf("polls took %d MiB of memory in all", read>>20)
	}
	h.reported(v, "bytes, at most", "requests/: object cannot be read: of 101 objects the 64 newest")
	if v.IncarnationsErr == nil || len(v.Problems) > 50 {
		t.Errorf("records: %v, %d problems", v.IncarnationsErr, len(v.Problems))
	}
}

func totalAlloc() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// Thousands of objects, of a poll's kinds and of none, hide nothing.
func TestAFloodHidesNothing(t *testing.T) {
	t.Run("of no kind", func(t *testing.T) {
		h := newHostile(t)
		for i := range 3300 {
			h.plant(fmt.Sprintf("control/a%d/x", i), "", 0)
		}
		h.reported(h.whole(), "control/: object cannot be read: it holds too many objects")
		before := h.Requests()
		h.reported(h.whole(), "control/: object cannot be read: it holds too many objects")
		if n := h.Requests() - before; n > 30 {
			t.Errorf("a poll made %d requests", n)
		}
	})
	t.Run("of requests", func(t *testing.T) {
		h := newHostile(t)
		for i := range 3300 {
			h.plant(fmt.Sprintf("control/requests/z%d", i), `{"name":"x","kind":"pause"}`, 0)
		}
		h.reported(h.whole(), "control/requests/: object cannot be read: of")
	})
	t.Run("of records", func(t *testing.T) {
		h := newHostile(t)
		for i := range 300 {
			h.plant(fmt.Sprintf("control/incarnations/%d", i+2), "{}", 0)
		}
		if v := h.whole(); v.IncarnationsErr == nil {
			t.Error("records that are not checked are not missed")
		}
	})
}

// What somebody else wrote does not fill logs.
func TestProblemsAreShort(t *testing.T) {
	h := newHostile(t)
	long := strings.Repeat("x", 10_000)
	h.plant("control/requests/q", `{"name":"`+long+`","kind":"`+long+`"}`, 0)
	h.plant("control/2026-11-20T10:00:00Z-000001/_command.json",
		`{"timestamp":"1","restoreBackup":{"backup":"`+long+`"}}`, 0)
	h.plant("control/nodes/n", `{"name":"`+long+`"}`, 0)
	v := h.whole()
	for _, p := range v.Problems {
		if len(p) > 500 {
			t.Errorf("a problem has %d bytes", len(p))
		}
	}
	if len(v.Problems) != 3 {
		t.Errorf("problems are %q", v.Problems)
	}
}
