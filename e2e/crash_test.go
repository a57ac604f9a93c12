//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/testing/crashrun"
)

// crashPoints returns the names of all crash points, from the source.
func crashPoints(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../pkg/node/apply/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("source files: %v, %v", files, err)
	}
	names := map[string]bool{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`crashpoint\.Hit\("([^"]+)"\)`).FindAllSubmatch(b, -1) {
			names[string(m[1])] = true
		}
		// The coordinator's own operations have names made from their commands.
		for _, m := range regexp.MustCompile(`crashpoint\.Hit\(name \+ "([^"]+)"\)`).FindAllSubmatch(b, -1) {
			for _, k := range plan.Kinds() {
				if _, remote := plan.Target(k.New()); !remote {
					names[strings.ReplaceAll(k.Path, " ", "-")+string(m[1])] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// changesMembers matches the crash points at which a coordinator changes the member list. No test of
// pkg/node/apply comes to them.
var changesMembers = regexp.MustCompile(`^member-(add-learner|promote|remove)`)

// crashPointsOf returns those that are wanted. With -short it is every other one, by their
// names, and each that changes the member list.
func crashPointsOf(t *testing.T, wanted func(point string) bool) []string {
	t.Helper()
	all := slices.DeleteFunc(crashPoints(t), func(point string) bool { return !wanted(point) })
	if !testing.Short() {
		return all
	}
	var some []string
	for i, point := range all {
		if i%2 == 0 || changesMembers.MatchString(point) {
			some = append(some, point)
		}
	}
	return some
}

// A scenario comes to crash points: it is the sizes that the cluster is to have, one
// after the other.
type scenario struct {
	points *regexp.Regexp
	sizes  []int
}

var scenarios = []scenario{
	{regexp.MustCompile(`^(member-prepare|incarnation|member-start|backup-take)`), []int{1}},
	{regexp.MustCompile(`^(member-add-learner|member-promote|lease-voters-write)`), []int{1, 2}},
	{regexp.MustCompile(`^(member-remove|member-stop|data-set-aside)`), []int{2, 1}},
}

// scenarioOf returns the sizes for a point, nothing where none of the scenarios comes
// to it: nothing is restored, quarantined, pruned or lost from the store in them, and
// whether the leader must be moved is chance. The tests of pkg/node/apply do.
func scenarioOf(point string) []int {
	for _, t := range scenarios {
		if t.points.MatchString(point) && !restoreCrash.MatchString(point) {
			return t.sizes
		}
	}
	return nil
}

// Each daemon kills itself at its first crash point of a name. Started again,
// they bring the cluster to where it was to be.
func TestCrashAndRestart(t *testing.T) {
	t.Parallel()
	bin := crashPrograms(t)
	for _, point := range crashPointsOf(t, func(point string) bool { return scenarioOf(point) != nil }) {
		sizes := scenarioOf(point)
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			o := options(t, quick...)
			o.Bin = bin
			c := harness.New(t.Context(), t, o)
			c.SetSpec(sizes[0], v36)
			for _, name := range []string{"a", "b"} {
				n := c.Node(name)
				n.MayEnd, n.Env = true, []string{crashrun.Variable + "=" + point}
				n.Start()
			}
			crashed := converge(t, c, sizes[0])
			w := c.Write()
			crashed += writes(t, c, w)
			for _, count := range sizes[1:] {
				c.SetSpec(count, v36)
				crashed += converge(t, c, count)
			}
			eventually(t, c, "a daemon comes to "+point, func() error {
				if crashed += restart(t, c); crashed == 0 {
					return fmt.Errorf("none has crashed")
				}
				return nil
			})
			converge(t, c, sizes[len(sizes)-1])
			writes(t, c, w)
		})
	}
}

// crashPrograms returns the directory of the programs with crash points.
func crashPrograms(t *testing.T) string {
	t.Helper()
	options(t)
	if bin := os.Getenv("ETCDADM_BIN_CRASHPOINTS"); bin != "" {
		return bin
	}
	bin, err := programs.points()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// restart starts the daemons that have crashed, without a crash point, and
// returns how many.
func restart(t *testing.T, c *harness.Cluster) int {
	t.Helper()
	crashed := 0
	for _, n := range c.Nodes() {
		how, ended := n.Ended()
		if !ended {
			continue
		}
		if how.String() != "signal: killed" {
			t.Fatalf("daemon %s: %s\n%s", n.Name, how, n.Said(0))
		}
		n.WaitExit(harness.Soon)
		n.Env = nil
		n.Start()
		crashed++
	}
	return crashed
}

// writes waits until some writes have gone through, and starts daemons that have
// crashed.
func writes(t *testing.T, c *harness.Cluster, w *harness.Writer) int {
	t.Helper()
	crashed, want := 0, w.Acked()+10
	eventually(t, c, "writes go through", func() error {
		crashed += restart(t, c)
		if now := w.Acked(); now < want {
			return fmt.Errorf("%d of %d writes are acknowledged", now, want)
		}
		return nil
	})
	return crashed
}

// converge waits until the cluster has that many members and the other nodes
// have their data out of the way, and starts daemons that have crashed.
func converge(t *testing.T, c *harness.Cluster, count int) int {
	t.Helper()
	crashed := 0
	c.Eventually(2*harness.Soon, fmt.Sprintf("a cluster of %d", count), func(ctx context.Context) error {
		crashed += restart(t, c)
		names, err := c.Voters(ctx)
		if err == nil && len(names) != count {
			err = fmt.Errorf("the voters are %v", names)
		}
		if err == nil {
			err = running(c, count)
		}
		return err
	})
	return crashed
}
