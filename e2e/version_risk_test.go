package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// only returns a directory that has binaries of these versions, and of no others.
func only(t *testing.T, dirs string, versions ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, v := range versions {
		etcd, err := harness.EtcdBinary(dirs, v, "etcd")
		if err == nil {
			err = os.Symlink(filepath.Dir(etcd), filepath.Join(dir, "etcd-v"+v))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// amend changes the members in the database of a stopped node, of which its log does
// not know. etcd 3.5 goes by the log, and 3.6 by the database.
func amend(t *testing.T, n *harness.Node, change func(members *bbolt.Bucket) error) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(n.Dir, "data", "*", "member", "snap", "db"))
	if err != nil || len(files) != 1 {
		t.Fatalf("databases %q, %v", files, err)
	}
	db, err := bbolt.Open(files[0], 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error { return change(tx.Bucket([]byte("members"))) })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// misdirect adds a peer URL to the first member.
func misdirect(members *bbolt.Bucket) error {
	id, value := members.Cursor().First()
	changed := strings.Replace(string(value), `"peerURLs":[`, `"peerURLs":["https://127.0.0.1:1",`, 1)
	return members.Put(bytes.Clone(id), []byte(changed))
}

// bury adds a learner.
func bury(members *bbolt.Bucket) error {
	return members.Put([]byte("dead"),
		[]byte(`{"id":57005,"peerURLs":["https://127.0.0.1:1"],"name":"zombie","isLearner":true}`))
}

// A member that would come back with 3.6 is taken out by a later patch of 3.5 when that
// starts, which makes no new file: the node sees that it is gone, and the change goes on.
func TestAPatchThatRepairsComesFirst(t *testing.T) {
	t.Parallel()
	const old, repairs = "3.5.21", "3.5.35"
	o := options(t, quick...)
	o.EtcdDirs = only(t, o.EtcdDirs, old, repairs, v36)
	c := harness.New(t.Context(), t, o)
	c.Bootstrap(1, old, "a")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	c.Node("a").Stop()
	amend(t, c.Node("a"), bury)
	c.Node("a").Start()
	c.SetSpec(1, v36)
	allRun(t, c, v36)
	w.WaitMore(harness.Soon, 10)
	entries, err := c.History()
	if err != nil {
		t.Fatal(err)
	}
	var to []string
	for _, e := range entries {
		if _, v, ok := strings.Cut(e.Line, "--to="); ok && e.Error == "" {
			to = append(to, v)
		}
	}
	if !slices.Equal(to, []string{repairs, v36}) {
		t.Errorf("it has become %q", to)
	}
}

// A hazard that no patch at hand cures holds the change, with the command that goes on
// despite it. Typed as it stands there, it does; the status and the history say
// who wanted what, and why.
func TestAnAcceptedHazard(t *testing.T) {
	t.Parallel()
	const old = "3.5.35" // no later patch is at hand, on whatever machine
	o := options(t, quick...)
	o.EtcdDirs = only(t, o.EtcdDirs, old, v36)
	c := harness.New(t.Context(), t, o)
	c.Bootstrap(1, old, "a")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	c.Node("a").Stop()
	amend(t, c.Node("a"), misdirect)
	c.Node("a").Start()
	c.SetSpec(1, v36)
	text := c.WaitHold(harness.Soon, "version-hazard")
	if !strings.Contains(text, "members present") {
		t.Errorf("the hold does not name what is there: %s", text)
	}
	_, line, ok := strings.Cut(text, "despite it: etcd-manager-ctl --backup-store=STORE ")
	if !ok {
		t.Fatalf("the hold does not say how to go on: %s", text)
	}
	line = strings.Replace(line, "REASON", "tried", 1)
	if out, err := c.Ctl(strings.Fields(line)...); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
	eventually(t, c, "a runs etcd "+v36, func() error {
		s, err := c.Node("a").EtcdStatus(context.WithoutCancel(t.Context()))
		if err == nil && s.Version != v36 {
			r, _ := c.Status()
			err = fmt.Errorf("it runs %s; holds %v", s.Version, r.Holds)
		}
		return err
	})
	w.WaitMore(harness.Soon, 10)
	eventually(t, c, "the history reports the risk", func() error {
		entries, err := c.History()
		for _, e := range entries {
			if strings.Contains(e.Line, "--to="+v36+" --accept-version-risk=tried --accept-hazard=members") {
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("it is %v", entries))
	})
	if out, err := c.Ctl("status"); err != nil || !strings.Contains(out, "its risk accepted: tried") {
		t.Errorf("the status does not report it: %v: %s", err, out)
	}
}
