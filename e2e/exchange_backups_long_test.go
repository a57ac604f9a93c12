//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// Only daemons of the existing etcd-manager without a member are left. They take no backups,
// and ours takes them, changes nothing else, and what it takes the existing one restores.
func TestBackupsBesideFreeExistingOnes(t *testing.T) {
	t.Parallel()
	x := machines(t, 250*time.Millisecond, "--backup-interval=3s")
	x.c.Restored = true
	x.c.SetSpec(1, v36)
	// One alone first: each that hears nobody leads, and bootstraps a cluster of one.
	first := x.nodes[0]
	x.startExisting(first)
	x.serve(first.Name)
	x.startExisting(x.nodes[1])
	x.startExisting(x.nodes[2])
	w := x.c.Write()
	w.WaitMore(harness.Soon, 10)

	first.Stop()
	x.startOurs(first)
	x.c.WaitNames(harness.Soon, first.Name)
	x.c.WaitHold(harness.Soon, "existing-daemon")
	for range 3 {
		x.nextBackup(x.backups())
	}
	x.undecided()
	w.WaitMore(harness.Soon, 10)
	w.End()

	put(t, x.c, "k", "1")
	before := x.backups()
	x.nextBackup(before)
	x.nextBackup(x.backups()) // the first one may have been under way
	var name string
	for _, b := range x.backups() {
		name = max(name, b)
	}
	put(t, x.c, "k", "2")
	first.Stop()
	ctl(t, x.c, "restore-backup", name)
	x.startExisting(first)
	eventually(t, x.c, "the backup is restored", func() error {
		if v, _ := read(t, x.c, "k"); v != "1" {
			return fmt.Errorf("k is %q", v)
		}
		return nil
	})
}
