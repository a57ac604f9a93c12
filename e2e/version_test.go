package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// allRun waits until every member is assigned the version, none is between two,
// and the cluster is as the spec says.
func allRun(t *testing.T, c *harness.Cluster, version string) {
	t.Helper()
	c.Eventually(harness.Soon, "all members run etcd "+version, settledOn(c, version))
}

func settledOn(c *harness.Cluster, version string) func(context.Context) error {
	want := etcdversion.Must(version)
	return func(context.Context) error {
		r, err := c.Status()
		if err != nil {
			return err
		}
		for _, n := range r.Observation.Nodes {
			if n.Assigned == nil || n.Assigned.Version != want || n.Change != nil {
				return fmt.Errorf("%s: %+v, change %+v; holds %v", n.Name, n.Assigned, n.Change, r.Holds)
			}
		}
		if !r.Converged {
			return fmt.Errorf("holds: %v", r.Holds)
		}
		return nil
	}
}

// answers makes sure that the processes are what their nodes say.
func answers(t *testing.T, c *harness.Cluster, version string) {
	t.Helper()
	for _, n := range c.Nodes() {
		c.Eventually(harness.Soon, "an answer of the etcd of "+n.Name, func(ctx context.Context) error {
			s, err := n.EtcdStatus(ctx)
			if err == nil && s.Version != version {
				t.Errorf("%s runs etcd %s, want %s", n.Name, s.Version, version)
			}
			return err
		})
	}
}

// etcd36 returns the real binary of v36.
func etcd36(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	for _, dir := range filepath.SplitList(c.EtcdDirs) {
		path := filepath.Join(dir, "etcd-v"+v36, "etcd")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Fatalf("no etcd %s below %s", v36, c.EtcdDirs)
	return ""
}

// later is a patch of v36 that does not exist: what it does is up to a test.
const later = "3.6.17"

// withLater gives all nodes a program under the name of a later patch, which
// begins with the lines of a shell script and then becomes v36.
func withLater(t *testing.T, o harness.Options) (harness.Options, func(c *harness.Cluster, lines ...string)) {
	t.Helper()
	dir := t.TempDir()
	o.EtcdDirs += string(filepath.ListSeparator) + dir
	return o, func(c *harness.Cluster, lines ...string) {
		t.Helper()
		script := "#!/bin/sh\n[ \"$1\" = --version ] && echo 'etcd Version: " + later + "' && exit\n" +
			strings.Join(lines, "\n") + "\nexec " + etcd36(t, c) + " \"$@\"\n"
		place := filepath.Join(dir, "etcd-v"+later)
		if err := os.MkdirAll(place, 0o755); err != nil {
			t.Fatal(err)
		}
		// Replaced as a whole: a node may be about to run it.
		if err := os.WriteFile(filepath.Join(place, "new"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(place, "new"), filepath.Join(place, "etcd")); err != nil {
			t.Fatal(err)
		}
	}
}

// A minor down, by etcd's own downgrade, and up again: member by member, while clients
// write. Every acknowledged write is found.
func TestAVersionAMinorDownAndUp(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	for _, version := range []string{v35, v36} {
		c.SetSpec(3, version)
		allRun(t, c, version)
		answers(t, c, version)
		w.WaitMore(harness.Soon, 10)
	}
	entries, err := c.History()
	if err != nil {
		t.Fatal(err)
	}
	changed := map[string]int{}
	for _, e := range entries {
		// Where the machine is busy, an order that is repeated while its node obeys may be
		// refused: the others answer late.
		if line, ok := strings.CutPrefix(e.Line, "etcdadm member change-version --node="); ok {
			changed[line[:1]+" to "+line[len(line)-len(v36):]]++
		}
		if line, ok := strings.CutPrefix(e.Line, "etcdadm downgrade "); ok {
			changed[line]++
		}
		if strings.Contains(e.Error, "did not come up") {
			t.Errorf("%s: %s", e.Line, e.Error)
		}
	}
	for _, done := range []string{
		"enable --to=3.5.0 --expect-cluster-version=3.6.0", "a to " + v35, "b to " + v35, "c to " + v35, "a to " + v36,
		"b to " + v36, "c to " + v36,
	} {
		if changed[done] == 0 {
			t.Errorf("the history does not report %s: %v", done, changed)
		}
	}
	c.SetSpec(3, "3.4.25")
	c.WaitHold(harness.Soon, "version-differs")
	answers(t, c, v36)
}

// A version that does not come up: the node goes back by itself, no other member
// is risked, and the hold has etcd's last words.
func TestAVersionThatDoesNotComeUp(t *testing.T) {
	t.Parallel()
	o, put := withLater(t, options(t, quick...))
	c := harness.New(t.Context(), t, o)
	put(c, "echo panic: no luck today", "exit 7")
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	c.SetSpec(3, later)
	if text := c.WaitHold(harness.Soon, "version-failed"); !strings.Contains(text, "no luck today") {
		t.Errorf("it holds with %q", text)
	}
	w.WaitMore(harness.Soon, 10)
	r, err := c.Status()
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, n := range r.Observation.Nodes {
		if n.Change != nil {
			tried++
		}
		if n.Assigned == nil || n.Assigned.Version.String() != v36 {
			t.Errorf("%s is assigned %+v", n.Name, n.Assigned)
		}
	}
	if tried != 1 {
		t.Errorf("%d members were tried", tried)
	}
	c.SetSpec(3, v36)
	eventually(t, c, "the cluster is as the spec says", func() error {
		if r, err := c.Status(); err != nil || !r.Converged {
			return fmt.Errorf("converged: %t, holds %v, %w", r.Converged, r.Holds, err)
		}
		return nil
	})
	w.WaitMore(harness.Soon, 10)
}

// The daemon of a member that is between two versions is killed, and so is the
// coordinator: each goes on where it was.
func TestAChangeOfVersionOutlivesTheDaemons(t *testing.T) {
	t.Parallel()
	o, put := withLater(t, options(t))
	c := harness.New(t.Context(), t, o)
	dir := t.TempDir()
	gate := filepath.Join(dir, "gate")
	put(c, ": >"+dir+"/runs-$ETCD_NAME", "while ! [ -e "+gate+" ]; do sleep 0.1; done")
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	c.SetSpec(3, later)
	var between string
	eventually(t, c, "a member runs the new version", func() error {
		for _, n := range c.Nodes() {
			if _, err := os.Stat(filepath.Join(dir, "runs-"+n.Name)); err == nil {
				between = n.Name
				return nil
			}
		}
		return fmt.Errorf("none does")
	})
	w.WaitMore(harness.Soon, 10) // the others serve
	for _, n := range []*harness.Node{c.Node(between), c.Coordinator()} {
		if n.Running() {
			n.Kill()
			n.Start()
		}
	}
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	allRun(t, c, later)
	w.WaitMore(harness.Soon, 10)
	c.Eventually(harness.Soon, "all members are well", func(ctx context.Context) error {
		_, err := c.Voters(ctx)
		return err
	})
}

// A minor up from a patch far below the one that etcd advises, as EKS Distro goes:
// nothing is in the members' data that it guards against, so that no other patch
// comes first.
func TestAMinorUpFromAnOldPatch(t *testing.T) {
	t.Parallel()
	const old = "3.5.21"
	c := start(t, quick...)
	c.Bootstrap(3, old, "a", "b", "c")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	c.SetSpec(3, v36)
	allRun(t, c, v36)
	answers(t, c, v36)
	w.WaitMore(harness.Soon, 10)
	entries, err := c.History()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Line, "etcdadm member change-version") && !strings.Contains(e.Line, "--to="+v36) {
			t.Errorf("another patch came first: %s: %s", e.Line, e.Why)
		}
	}
}
