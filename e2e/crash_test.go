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
	"sync"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/crashpoint"
	"github.com/etcdadm/etcdadm/pkg/plan"
)

// crashPoints returns the names of all crash points, from the source.
func crashPoints(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../pkg/apply/*.go")
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

// elsewhere are the points that this story does not come to: nothing is
// quarantined or pruned in it, and whether the leader must be moved is chance.
var elsewhere = regexp.MustCompile(`^(quarantine|backup-prune|member-move-leader)`)

// Each daemon kills itself at its first crash point of a name. Started again,
// they bring the cluster to where it was to be.
func TestCrashAndRestart(t *testing.T) {
	t.Parallel()
	bin := os.Getenv("ETCDADM_BIN_CRASHPOINTS")
	var build sync.Once
	for _, point := range crashPoints(t) {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			o := options(t, quick...)
			build.Do(func() {
				if bin == "" {
					var err error
					if bin, err = programs.points(); err != nil {
						t.Fatal(err)
					}
				}
			})
			o.Bin = bin
			c := harness.New(t.Context(), t, o)
			c.SetSpec(1, v36)
			crashed := 0
			for _, name := range []string{"a", "b"} {
				n := c.Node(name)
				n.MayEnd, n.Env = true, []string{crashpoint.Variable + "=" + point}
				n.Start()
			}
			converge := func(count int) {
				c.Eventually(2*harness.Soon, fmt.Sprintf("a cluster of %d", count), func(ctx context.Context) error {
					for _, n := range c.Nodes() {
						if how, ended := n.Ended(); ended {
							if how.String() != "signal: killed" {
								t.Fatalf("daemon %s: %s\n%s", n.Name, how, n.Said(0))
							}
							n.WaitExit(harness.Soon)
							crashed++
							n.Env = nil
							n.Start()
						}
					}
					names, err := c.Voters(ctx)
					if err == nil && len(names) != count {
						err = fmt.Errorf("the voters are %v", names)
					}
					if err == nil {
						err = running(c, count)
					}
					return err
				})
			}
			converge(1)
			w := c.Write()
			w.WaitMore(harness.Soon, 10)
			for _, count := range []int{2, 1} {
				c.SetSpec(count, v36)
				converge(count)
			}
			w.WaitMore(harness.Soon, 10)
			if crashed == 0 && !elsewhere.MatchString(point) {
				t.Errorf("no daemon came to %s", point)
			}
		})
	}
}
