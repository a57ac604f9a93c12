package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// put writes a key and returns the revision.
func put(t *testing.T, c *harness.Cluster, key, value string, opts ...clientv3.OpOption) int64 {
	t.Helper()
	var revision int64
	c.Eventually(harness.Soon, "a key is written", func(ctx context.Context) error {
		client, err := c.NewClient(c.Nodes()...)
		if err != nil {
			return err
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		r, err := client.Put(ctx, key, value, opts...)
		if err == nil {
			revision = r.Header.Revision
		}
		return err
	})
	return revision
}

// read returns the value of a key, "" for none, and the revision of the answer.
func read(t *testing.T, c *harness.Cluster, key string) (value string, revision int64) {
	t.Helper()
	c.Eventually(harness.Soon, "a key is read", func(ctx context.Context) error {
		client, err := c.NewClient(c.Nodes()...)
		if err != nil {
			return err
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		r, err := client.Get(ctx, key)
		if err != nil {
			return err
		}
		value, revision = "", r.Header.Revision
		for _, kv := range r.Kvs {
			value = string(kv.Value)
		}
		return nil
	})
	return value, revision
}

// ctl runs etcd-manager-ctl, which must succeed.
func ctl(t *testing.T, c *harness.Cluster, args ...string) string {
	t.Helper()
	out, err := c.Ctl(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// takeBackup takes a backup and returns its name.
func takeBackup(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	ctl(t, c, "take-backup", "--wait")
	list := backups(t, c)
	if len(list) == 0 {
		t.Fatal("there is no backup")
	}
	return list[len(list)-1]
}

// restoring is start for clusters that are restored.
func restoring(t *testing.T, flags ...string) *harness.Cluster {
	t.Helper()
	o := options(t, flags...)
	o.Restored = true
	return harness.New(t.Context(), t, o)
}

// queue asks for a restore and returns at once.
func queue(t *testing.T, c *harness.Cluster, name string, args ...string) {
	t.Helper()
	ctl(t, c, append([]string{"restore-backup", name}, args...)...)
}

// backups returns the names of the backups, oldest first.
func backups(t *testing.T, c *harness.Cluster) []string {
	t.Helper()
	return strings.Fields(strings.TrimPrefix(ctl(t, c, "list-backups"), "Backup Store: "+c.StoreURL()))
}

// restored waits until a request is out of the queue and a key has a value.
func restored(t *testing.T, c *harness.Cluster, key, value string) (revision int64) {
	t.Helper()
	eventually(t, c, "the request is carried out", func() error {
		if left := strings.TrimSpace(
			strings.TrimPrefix(ctl(t, c, "list-commands"), "Backup Store: "+c.StoreURL())); left != "" {
			return fmt.Errorf("queued: %s", left)
		}
		return nil
	})
	v, revision := read(t, c, key)
	if v != value {
		t.Errorf("%s is %q, want %q", key, v, value)
	}
	return revision
}

// compacted waits for the end of a watch, in which no event may be older than
// what was seen before.
func compacted(t *testing.T, c *harness.Cluster, watch clientv3.WatchChan, seen int64) {
	t.Helper()
	end := time.After(harness.Soon)
	for {
		select {
		case r, ok := <-watch:
			for _, e := range r.Events {
				if e.Kv.ModRevision <= seen {
					t.Errorf("the watch went back to revision %d, it had seen %d", e.Kv.ModRevision, seen)
				}
			}
			if !ok || r.CompactRevision > 0 {
				return
			}
		case <-end:
			t.Fatal("the watch goes on")
		}
	}
}

// pause lets the cluster do what it does for a while. Invariants are watched
// meanwhile.
func pause(c *harness.Cluster, d time.Duration) {
	until := time.Now().Add(d)
	_ = c.Await(d+time.Second, func(context.Context) error {
		if time.Now().Before(until) {
			return fmt.Errorf("it is not time yet")
		}
		return nil
	})
}
