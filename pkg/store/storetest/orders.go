package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/store"
)

// orders: each node has a list of its own, which keeps the newest.
func orders(t *testing.T, open func() *store.Store) {
	s, other, ctx := open(), open(), t.Context()
	if all, err := s.Orders(ctx); err != nil || len(all) != 0 {
		t.Errorf("without any there are %+v, %v", all, err)
	}
	var batch []store.HistoryEntry
	for i := range store.MaxOrders {
		batch = append(batch, store.HistoryEntry{At: at, Term: 3, By: "c", Line: fmt.Sprint("etcdadm step ", i)})
	}
	must(t, s.AppendOrders(ctx, "a", batch...))
	must(t, s.AppendOrders(ctx, "a", store.HistoryEntry{At: at, By: "stranger", Line: "x", Error: "no lease"}))
	must(t, other.AppendOrders(ctx, "b", store.HistoryEntry{At: at, By: "operator-alice", Line: "y"}))
	put(t, s, "control/orders/c", "torn")
	all, err := other.Orders(ctx)
	must(t, err)
	if a := all["a"]; len(all) != 2 || len(a) != store.MaxOrders || a[0] != batch[1] || a[len(a)-1].Error != "no lease" ||
		len(all["b"]) != 1 {
		t.Errorf("%d nodes: a has %d, b %+v", len(all), len(all["a"]), all["b"])
	}
	// What cannot be read is begun again.
	must(t, s.AppendOrders(ctx, "c", store.HistoryEntry{At: at, Line: "z"}))
	if all, err = s.Orders(ctx); err != nil || len(all["c"]) != 1 {
		t.Errorf("after garbage: %+v, %v", all["c"], err)
	}
	if kept := get(t, s, "control/orders-damaged/c"); kept != "torn" {
		t.Errorf("what could not be read is kept as %q", kept)
	}
	// However large the entries are, the list can be read again.
	long := strings.Repeat("x", 400<<10)
	for i := range 4 {
		must(t, s.AppendOrders(ctx, "b", store.HistoryEntry{At: at, Line: fmt.Sprint(i), Error: long}))
	}
	must(t, s.AppendOrders(ctx, "b", store.HistoryEntry{At: at, Line: strings.Repeat("x", 3<<20)}, store.HistoryEntry{
		At: at, Line: "last",
	}))
	all, err = s.Orders(ctx)
	must(t, err)
	if b := all["b"]; len(b) != 3 || b[0].Line != "2" || b[2].Line != "last" {
		t.Errorf("%d large entries are left", len(b))
	}
	if err := s.AppendOrders(ctx, "../x", store.HistoryEntry{}); err == nil {
		t.Error("a path is accepted as a node")
	}
}
