package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// A machine of kops without a cloud keeps its backups in the container. When it has
// lost its disk, all that it knew is gone, and only a person knows whether an empty
// disk is that of a new cluster.
func TestAClusterOnRequestIsMadeOnce(t *testing.T) {
	v := newTestCluster(t, "a", func(c *Config) { c.Policy.OnRequest = true })
	a := v.nodes[0]
	waits := func() {
		t.Helper()
		v.eventually("the daemon to wait", func(ctx context.Context) error {
			var r reconcile.Report
			v.decode(ctx, &r)
			for _, h := range r.Holds {
				if h.Reason == plan.NewCluster {
					return nil
				}
			}
			return fmt.Errorf("the holds are %v", r.Holds)
		})
	}
	v.spec(1)
	v.start(a)
	waits()
	word := filepath.Join(a.config.DataDir, nodestate.NewClusterFile)
	must(t, os.WriteFile(word, nil, 0o644))
	v.converged(1)
	v.eventually("the file to be removed", func(context.Context) error {
		if _, err := os.Lstat(word); !os.IsNotExist(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	v.stop(a)

	// The disk is lost, and the store with it.
	must(t, os.RemoveAll(a.config.DataDir))
	must(t, os.RemoveAll(v.store))
	v.spec(1)
	v.start(a)
	waits()
}
