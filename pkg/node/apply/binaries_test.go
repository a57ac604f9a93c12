package apply

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// What is called after a version and cannot run, or is another minor version, is not
// told as one; another patch is. One that is put right counts again.
func TestBinariesThatAreNotWhatTheyAreCalled(t *testing.T) {
	h := newHost(t)
	lies, broken, patch := etcdversion.Must("3.6.20"), etcdversion.Must("3.6.21"), etcdversion.Must("3.6.22")
	h.fake(lies, "3.7.0", "")
	h.fake(patch, "3.6.25", "")
	path := filepath.Join(h.bins, "etcd-v"+broken.String(), "etcd")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("\x7fELF, and half of it is missing"), 0o755); err != nil {
		t.Fatal(err)
	}
	why := func(n cluster.Node, v etcdversion.Version) string {
		for _, b := range n.Broken {
			if b.Version == v {
				return b.Why
			}
		}
		return ""
	}
	testwait.Until(h.t, "two are found out", func() bool { return len(h.observe().Broken) == 2 })
	n := h.observe()
	for v, want := range map[etcdversion.Version]bool{lies: false, broken: false, patch: true, writes: true} {
		if got := slices.Contains(n.Versions, v); got != want {
			t.Errorf("%s: told %t, want %t; broken: %v", v, got, want, n.Broken)
		}
	}
	if w := why(n, lies); !strings.HasSuffix(w, "is etcd 3.7.0") {
		t.Errorf("%s: %q", lies, w)
	}
	if w := why(n, broken); !strings.Contains(w, path+" cannot run: ") {
		t.Errorf("%s: %q", broken, w)
	}
	h.fake(broken, broken.String(), "")
	testwait.Until(h.t, "it is put right", func() bool {
		n := h.observe()
		return why(n, broken) == "" && slices.Contains(n.Versions, broken)
	})
}
