//go:build e2e

package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/hazards"
)

// A machine is installed again and keeps its data: nobody but the data knows which etcd has
// run, and 3.4 would start on that of 3.6 without a word, and write to it.
func TestAnOlderEtcdIsNotStartedOnKeptData(t *testing.T) {
	t.Parallel()
	old := "3.4.25"
	h := newHost(t, "a", v36)
	older := []string{"--version=" + old, "--binaries-dir=" + etcdDir(t, old)}
	h.ok("init")
	h.put("kept", "x")
	eventually(t, commandTime, "the version of the data on the disk", func() error {
		v, err := hazards.DataVersion(datadir.At(h.path("data")))
		if err == nil && v.IsZero() {
			err = fmt.Errorf("there is none")
		}
		return err
	})
	h.kill()
	refused := func(args ...string) {
		t.Helper()
		before := tree(t, h.root)
		h.fails(3, []string{"version-step", "which is of cluster version 3.6", "--version=" + v36}, append(args, older...)...)
		if found := before.differences(tree(t, h.root)); len(found) > 0 {
			t.Errorf("%q was refused, and has changed %q", args, found)
		}
	}
	// The binaries are gone, or others are there.
	if err := os.RemoveAll(h.path("bin")); err != nil {
		t.Fatal(err)
	}
	refused("init")
	refused("init", "phase", "install")
	refused("join", h.clientURL())
	for _, name := range []string{"etcd", "etcdctl"} {
		h.write(h.path("bin", name), h.read(filepath.Join(etcdDir(t, old), name)), 0o755)
	}
	refused("init")
	refused("init", "phase", "start")
	h.ok("init")
	if got := h.serves(); got != v36 || h.get("kept") != "x" {
		t.Errorf("etcd %s runs, and has %q", got, h.get("kept"))
	}
}
