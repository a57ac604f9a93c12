//go:build e2e

package e2e

import (
	"slices"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// walks are what TestMatrix walks: each pair of versions between which a running cluster
// is changed. Of neighbouring minor versions, the members are three: while they change,
// both versions run side by side. Everything else is made of such steps, or of patches,
// where one member shows whether the data is understood. With -short, it is one version of
// each minor version.
func walks() (list []walk) {
	var steps, others []plan.Way
	newest := []string{"3.4.25", v35, v36, v37}
	for _, w := range pairs() {
		if testing.Short() && !(slices.Contains(newest, w.From) && slices.Contains(newest, w.To)) {
			continue
		}
		if d := distance(w); d == 1 || d == -1 {
			steps = append(steps, w)
		} else {
			others = append(others, w)
		}
	}
	for _, trail := range trails(steps, 9) {
		list = append(list, walk{3, trail})
	}
	for _, trail := range trails(others, 8) {
		list = append(list, walk{1, trail})
	}
	return append(list,
		walk{3, []string{"3.4.25", v37, "3.5.0"}},
		walk{5, []string{"3.5.21", "3.6.11", v35}})
}

// Real clusters go from each version to each other that can be reached, with a writer
// and a watcher: no acknowledged write is lost, and none is missed or seen twice. Where
// that is not so, the cluster stays as it is, and says why.
func TestMatrix(t *testing.T) {
	t.Parallel()
	for _, w := range walks() {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			w.walk(t)
		})
	}
}
