//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/testing/crashrun"
)

// TestTakeoverKilledAnywhere leaves a cluster of two as the existing etcd-manager would, and
// has each daemon kill itself when it comes to a step of the takeover. Started again, they
// agree by one record.
func TestTakeoverKilledAnywhere(t *testing.T) {
	t.Parallel()
	bin := crashPrograms(t)
	for _, point := range []string{
		"incarnation-create.before", "incarnation-create.after", "lease-voters-adopt.before", "lease-voters-adopt.after",
		"incarnation-mark.before", "incarnation-mark.after",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			o := options(t, quick...)
			o.Bin = bin
			c := harness.New(t.Context(), t, o)
			c.Bootstrap(2, v36, "a", "b")
			w := c.Write()
			writes(t, c, w)
			asExisting(t, c)
			for _, n := range c.Nodes() {
				n.MayEnd, n.Env = true, []string{crashrun.Variable + "=" + point}
				n.Start()
			}
			crashed := 0
			c.Eventually(2*harness.Soon, "one record, and its lease voters", func(ctx context.Context) error {
				crashed += restart(t, c)
				return takenOver(ctx, c, 1, "a", "b")
			})
			crashed += writes(t, c, w)
			c.SetSpec(1, v36)
			if crashed += converge(t, c, 1); crashed == 0 {
				t.Error("none has crashed")
			}
		})
	}
}

// asExisting stops all daemons and leaves what the existing etcd-manager would leave.
func asExisting(t *testing.T, c *harness.Cluster) {
	t.Helper()
	for _, n := range c.Nodes() {
		n.Stop()
		if err := os.Remove(filepath.Join(n.Dir, "etcdadm.json")); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"incarnations", "nodes", "status", "history", "orders"} {
		if err := os.RemoveAll(filepath.Join(c.Store, "control", name)); err != nil {
			t.Fatal(err)
		}
	}
}

// takenOver returns an error until the newest of that many records has these lease voters,
// and all nodes have adopted them.
func takenOver(ctx context.Context, c *harness.Cluster, records int, names ...string) error {
	s, err := store.Open(ctx, c.StoreURL())
	if err != nil {
		return err
	}
	defer func() { _ = s.Close(ctx) }()
	view, err := s.Poll(ctx)
	if err != nil || len(view.Incarnations) != records {
		return fmt.Errorf("the records are %v, %w", view.Incarnations, err)
	}
	rec := view.Incarnations[records-1]
	if view.Created.Before(rec.At) {
		return fmt.Errorf("the marker is of %s, the record of %s", view.Created, rec.At)
	}
	for _, n := range c.Nodes() {
		state, err := nodestate.Read(n.DataDir())
		if err != nil || state.LeaseVoters.Token != rec.Token || fmt.Sprint(state.LeaseVoters.Names) != fmt.Sprint(names) {
			return fmt.Errorf("%s has %+v, %w", n.Name, state.LeaseVoters, err)
		}
	}
	return nil
}
