package apply

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// What is called after a version and cannot run, or is another minor version, is not
// reported as one; another patch is. One that is put right counts again.
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
			t.Errorf("%s: reported %t, want %t; broken: %v", v, got, want, n.Broken)
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

// A machine may have one patch only, and another one than its disk names. The member runs
// a later one, and an earlier one if the operator asks for that.
func TestAMemberRunsThePatchThatIsThere(t *testing.T) {
	h := bootstrapped(t)
	gone := func(versions ...etcdversion.Version) {
		t.Helper()
		for _, v := range versions {
			if err := os.RemoveAll(filepath.Join(h.bins, "etcd-v"+v.String())); err != nil {
				t.Fatal(err)
			}
		}
	}
	var reported []string
	h.o.OtherPatch = func(v etcdversion.Version, path string) {
		reported = append(reported, v.String()+" "+filepath.Base(filepath.Dir(path)))
	}
	gone(writes)
	h.restart()
	if h.pid() == 0 || !slices.Equal(reported, []string{"3.6.16 etcd-v3.6.17"}) {
		t.Fatalf("with a later patch only: process %d, reported %q", h.pid(), reported)
	}
	h.must(stop(), start(plan.StartRestart))
	gone(newer)
	h.close()
	if err := h.tryStart(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantError(t, h.Boot(t.Context()), "no etcd 3.6.16 on this machine")
	wantError(t, h.do(start(plan.StartRestart)), "no etcd 3.6.16 on this machine")
	if err := h.bootLate(t.Context()); err != nil || h.pid() != 0 {
		t.Fatalf("an earlier patch was started unasked: %v, reported %q", err, reported)
	}
	if err := h.state.Update(nodestate.Wanted(cluster.Spec{MemberCount: 1, EtcdVersion: refuses})); err != nil {
		t.Fatal(err)
	}
	if err := h.bootLate(t.Context()); err != nil || h.pid() == 0 || reported[len(reported)-1] != "3.6.16 etcd-v3.6.5" {
		t.Errorf("with the earlier patch that is asked for: %v, process %d, reported %q", err, h.pid(), reported)
	}
	if v := h.disk().Assigned.Version; v != writes {
		t.Errorf("the version of the member is %s", v)
	}
}
