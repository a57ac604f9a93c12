//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/testing/existing"
)

// exchangeAll exchanges all machines, one by one.
func (x *exchange) exchangeAll(start func(*harness.Node)) {
	x.t.Helper()
	for _, n := range x.nodes {
		x.exchange(n, start)
	}
}

// restartExisting starts a machine of the existing kind again: it reads spec and requests
// when it begins to lead, and at no other time.
func (x *exchange) restartExisting(n *harness.Node) {
	x.t.Helper()
	n.Stop()
	x.startExisting(n)
}

// Between two exchanges the existing etcd-manager does what it does: it grows the cluster,
// replaces a member, and restores a backup. Ours come back each time, and act.
func TestTheExistingOneActsInBetween(t *testing.T) {
	t.Parallel()
	x := machines(t, 250*time.Millisecond, "--backup-interval=5s")
	x.c.Restored = true
	x.c.SetSpec(1, v36)
	// One alone first: each that hears nobody leads, and bootstraps a cluster of one.
	x.startExisting(x.nodes[0])
	x.serve("etcd-a")
	x.startExisting(x.nodes[1])
	x.startExisting(x.nodes[2])
	x.c.SetSpec(3, v36)
	x.restartExisting(x.nodes[0])
	x.serve("etcd-a", "etcd-b", "etcd-c")
	x.listsOfOtherAges()
	x.exchangeAll(x.startOurs)
	x.takenOver()

	// One disk is lost while they are back.
	x.exchangeAll(x.startExisting)
	lost := x.nodes[2]
	lost.LoseDisk()
	x.startExisting(lost)
	was := x.ids[lost.Name]
	eventually(t, x.c, "the lost member is replaced", func() error {
		names, err := x.c.Voters(t.Context())
		if now := x.members()[lost.Name]; err == nil && (len(names) != 3 || now == was) {
			err = fmt.Errorf("the voters are %v, %s is %x", names, lost.Name, now)
		}
		return err
	})
	x.ids = x.members()
	x.exchangeAll(x.startOurs)
	x.takenOver()

	// They restore a backup.
	x.exchangeAll(x.startExisting)
	put(t, x.c, "k", "1")
	x.nextBackup(x.backups())
	x.nextBackup(x.backups()) // the first one may have been under way
	name := slices.Max(x.backups())
	put(t, x.c, "k", "2")
	ctl(t, x.c, "restore-backup", name)
	x.restartExisting(x.nodes[0])
	eventually(t, x.c, "the backup is restored", func() error {
		if v, _ := read(t, x.c, "k"); v != "1" {
			return fmt.Errorf("k is %q", v)
		}
		return nil
	})
	x.serve("etcd-a", "etcd-b", "etcd-c")
	x.exchangeAll(x.startOurs)
	x.records = 2
	x.takenOver()
	if v, _ := read(t, x.c, "k"); v != "1" {
		t.Errorf("k is %q", v)
	}
	x.c.SetSpec(1, v36)
	x.c.WaitVoters(harness.Soon, 1)
}

// listsOfOtherAges holds the stand-in to what the existing one was seen to leave after it
// has grown: each file names those that there were when its machine joined.
func (x *exchange) listsOfOtherAges() {
	x.t.Helper()
	ages := map[int]bool{}
	for _, n := range x.nodes {
		s, err := existing.ReadState(n.Dir)
		if err != nil {
			x.t.Fatal(err)
		}
		ages[len(s.Nodes)] = true
	}
	if len(ages) != 3 {
		x.t.Errorf("the lists have %v names", ages)
	}
}
