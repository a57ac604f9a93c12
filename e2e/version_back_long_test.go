//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// A minor version up is reverted while the members run both: those that have changed run
// the old version again, on data that the new one has had, and the others were never
// touched. Nothing is downgraded for it.
func TestAnUpgradeIsReverted(t *testing.T) {
	t.Parallel()
	o, put := withLater(t, options(t, calm...))
	c := harness.New(t.Context(), t, o)
	dir := t.TempDir()
	first, gate := filepath.Join(dir, "first"), filepath.Join(dir, "gate")
	put(c, "[ -e "+first+" ] || echo $ETCD_NAME >"+first, "if [ $(cat "+first+") != $ETCD_NAME ]; then",
		": >"+dir+"/second", "while ! [ -e "+gate+" ]; do sleep 0.1; done", "fi")
	c.Bootstrap(3, v35, "a", "b", "c")
	w := c.Write()
	w.Watch()
	w.WaitMore(harness.Soon, 10)
	before := processes(c)
	c.SetSpec(3, later)
	eventually(t, c, "the second member is being changed", func() error {
		_, err := os.Stat(filepath.Join(dir, "second"))
		return err
	})
	c.SetSpec(3, v35)
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	runs(t, c, v35)
	answers(t, c, v35)
	w.WaitMore(harness.Soon, 10)
	touched := 0
	for i, pid := range processes(c) {
		if pid != before[i] {
			touched++
		}
	}
	if touched != 2 {
		t.Errorf("%d members were touched", touched)
	}
	history, err := c.History()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range history {
		if strings.Contains(e.Line, "downgrade") {
			t.Errorf("it was downgraded: %s", e.Line)
		}
	}
}

// The next minor version takes part with the member's data, and dies before it serves: the
// node runs the old version on that data again, by itself, and nobody else is risked.
func TestAMinorVersionThatDies(t *testing.T) {
	t.Parallel()
	o, put := withLater(t, options(t, calm...))
	c := harness.New(t.Context(), t, o)
	said := filepath.Join(t.TempDir(), "said-")
	put(c, "ETCD_LISTEN_CLIENT_URLS=http://127.0.0.1:0 timeout -s KILL 4 "+etcd36(t, c)+` "$@" >>`+said+"$ETCD_NAME 2>&1",
		"echo panic: no luck today", "exit 7")
	c.Bootstrap(3, v35, "a", "b", "c")
	w := c.Write()
	w.Watch()
	w.WaitMore(harness.Soon, 10)
	before := processes(c)
	c.SetSpec(3, later)
	if text := c.WaitHold(harness.Soon, string(plan.VersionFailed)); !strings.Contains(text, "no luck today") {
		t.Errorf("it holds with %q", text)
	}
	answers(t, c, v35)
	w.WaitMore(harness.Soon, 10)
	var touched []string
	for i, pid := range processes(c) {
		if pid != before[i] {
			touched = append(touched, c.Nodes()[i].Name)
		}
	}
	if len(touched) != 1 {
		t.Fatalf("the members of %v were touched", touched)
	}
	log, err := os.ReadFile(said + touched[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"etcd-version":"` + v36, "switched to configuration voters", "serving peer traffic"} {
		if !strings.Contains(string(log), want) {
			t.Errorf("etcd %s has not run on the data of %s: %q is not in\n%s", v36, touched[0], want, log)
		}
	}
}
