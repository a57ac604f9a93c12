package e2e

import (
	"errors"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// v34 is a version to which nothing leads but a restore.
const v34 = "3.4.25"

// bump is how much the revision of a cluster grows at least by a restore.
const bump = 1_000_000_000

// A promised is what a restore must keep: a lease, a watch, and a key that was written
// before.
type promised struct {
	client *clientv3.Client
	lease  clientv3.LeaseID
	watch  clientv3.WatchChan
	seen   int64
}

// promise has clients rely on what a restore must keep.
func promise(t *testing.T, c *harness.Cluster) promised {
	t.Helper()
	client, err := c.NewClient(c.Nodes()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	lease, err := client.Grant(t.Context(), 600)
	if err != nil {
		t.Fatal(err)
	}
	put(t, c, "leased", "1", clientv3.WithLease(lease.ID))
	seen := put(t, c, "seen", "1")
	watch := client.Watch(t.Context(), "", clientv3.WithPrefix(), clientv3.WithRev(seen+1))
	return promised{client: client, lease: lease.ID, watch: watch, seen: seen}
}

// kept makes sure of it after the restore. What the writer wrote it looks for itself.
func (p promised) kept(t *testing.T, c *harness.Cluster) {
	t.Helper()
	if v, revision := read(t, c, "seen"); v != "1" || revision < p.seen+bump {
		t.Errorf("seen is %q, at revision %d, and was written at %d", v, revision, p.seen)
	}
	compacted(t, c, p.watch, p.seen)
	eventually(t, c, "the lease lives", func() error {
		r, err := p.client.TimeToLive(t.Context(), p.lease, clientv3.WithAttachedKeys())
		if err != nil {
			return err
		}
		if r.TTL <= 0 || r.GrantedTTL != 600 || len(r.Keys) != 1 || string(r.Keys[0]) != "leased" {
			t.Errorf("the lease has %d of %d seconds left, and the keys %q", r.TTL, r.GrantedTTL, r.Keys)
		}
		return nil
	})
	if v, _ := read(t, c, "leased"); v != "1" {
		t.Errorf("leased is %q", v)
	}
	if _, err := p.client.Revoke(t.Context(), p.lease); err != nil {
		t.Errorf("end the lease: %v", err)
	}
	if v, _ := read(t, c, "leased"); v != "" {
		t.Errorf("leased is %q after its lease", v)
	}
}

// refusedWithoutWord has the spec ask for a version that only a restore reaches: the hold
// says the line that allows it, and no process is touched.
func refusedWithoutWord(t *testing.T, c *harness.Cluster, count int, version string) {
	t.Helper()
	before := processes(c)
	c.SetSpec(count, version)
	if text := c.WaitHold(harness.Soon, string(plan.VersionDiffers)); !strings.Contains(text,
		"etcd-manager-ctl --backup-store=STORE --etcd-version="+version+" configure-cluster --allow-restore") {
		t.Errorf("it holds with %q", text)
	}
	if after := processes(c); !slices.Equal(before, after) {
		t.Errorf("the processes were %v, and are %v", before, after)
	}
}

// nothingQueued waits until no request is in the queue.
func nothingQueued(t *testing.T, c *harness.Cluster) {
	t.Helper()
	eventually(t, c, "nothing is queued", func() error {
		left := strings.TrimPrefix(ctl(t, c, "list-commands"), "Backup Store: "+c.StoreURL())
		if strings.TrimSpace(left) != "" {
			return errors.New(left)
		}
		return nil
	})
}

// One member goes from 3.5 to 3.4: by the line of the hold, and not without it. No
// acknowledged write is lost, revisions only grow, watches end, leases live.
func TestAVersionThatOnlyARestoreReaches(t *testing.T) {
	t.Parallel()
	c := restoring(t, quick...)
	c.Bootstrap(1, v35, "a")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	refusedWithoutWord(t, c, 1, v34)
	p := promise(t, c)
	ctl(t, c, "--etcd-version="+v34, "configure-cluster", "--allow-restore")
	runs(t, c, v34)
	answers(t, c, v34)
	w.WaitMore(harness.Soon, 10)
	p.kept(t, c)
	nothingQueued(t, c)
}
