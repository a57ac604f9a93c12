package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// The store is exchanged for a copy from before a restore, as where an asynchronous
// replica takes over. The request for that restore is queued in the copy. It is not
// carried out again: what was written since stays.
func TestAStoreFromBeforeARestore(t *testing.T) {
	t.Parallel()
	c := restoring(t)
	c.Bootstrap(3, v36, "a", "b", "c")
	put(t, c, "k", "1")
	name := takeBackup(t, c)
	put(t, c, "k", "2")
	for _, n := range c.Nodes() {
		n.Pause()
	}
	queue(t, c, name, "--skip-backup")
	replica := c.Store + ".replica"
	err := os.CopyFS(replica, os.DirFS(c.Store))
	for _, n := range c.Nodes() {
		n.Continue()
	}
	if err != nil {
		t.Fatal(err)
	}
	restored(t, c, "k", "1")
	put(t, c, "k", "3")
	before := c.ClusterIDs()
	if err := errors.Join(os.Rename(c.Store, c.Store+".primary"), os.Rename(replica, c.Store)); err != nil {
		t.Fatal(err)
	}
	// The record is written again at some time, and the nodes report it until then.
	eventually(t, c, "the request is refused", func() error {
		return closed(c, "it was queued before incarnation 2 began", "of which the store has no record")
	})
	restored(t, c, "k", "3")
	if now := c.ClusterIDs(); !slices.Equal(now, before) {
		t.Errorf("the clusters are %v, they were %v", now, before)
	}
}

// closed is an error as long as no request was closed for one of the reasons.
func closed(c *harness.Cluster, reasons ...string) error {
	records, err := filepath.Glob(filepath.Join(c.Store, "control/closed/*"))
	for _, r := range records {
		b, _ := os.ReadFile(r)
		if slices.ContainsFunc(reasons, func(why string) bool { return strings.Contains(string(b), why) }) {
			return nil
		}
	}
	return fmt.Errorf("closed: %v, %w", records, err)
}

// The record of a restore that nobody has staged lies in the store: one that was written
// late, or planted. The cluster is managed on, and a lost machine replaced.
func TestARecordThatNobodyStaged(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	record := func(number int) string { return filepath.Join(c.Store, "control/incarnations", fmt.Sprint(number)) }
	var first, late cluster.Incarnation
	eventually(t, c, "the record of what runs", func() error {
		b, err := os.ReadFile(record(1))
		if err != nil {
			return err
		}
		return json.Unmarshal(b, &first)
	})
	late = first
	late.Number, late.Token = 2, "late"
	late.Restored = &cluster.Restored{
		Request: "gone", Backup: "2026-01-01T00:00:00Z-000001", Revision: 2_000_000_000,
		Before: cluster.InitialMemberNames(first.Voters),
	}
	b, err := json.Marshal(late)
	if err != nil {
		t.Fatal(err)
	}
	putFile(t, record(2), string(b))
	eventually(t, c, "a newer record of what runs", func() error {
		b, err := os.ReadFile(record(3))
		if err != nil {
			return err
		}
		var again cluster.Incarnation
		if err := json.Unmarshal(b, &again); err != nil || again.Token != first.Token {
			return fmt.Errorf("it is %s, %w", b, err)
		}
		return nil
	})
	c.Node("c").Kill()
	c.Start("d")
	c.WaitNames(harness.Soon, "a", "b", "d")
	w.WaitMore(harness.Soon, 10)
	c.Eventually(harness.Soon, "nothing holds", func(context.Context) error {
		r, err := c.Status()
		if err == nil && (len(r.Holds) > 0 || r.Observation.Token != first.Token) {
			err = fmt.Errorf("incarnation %s, holds %v", r.Observation.Token, r.Holds)
		}
		return err
	})
}
