package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// snapshot returns a snapshot of a cluster that has the key "from".
func snapshot(t *testing.T) []byte {
	t.Helper()
	old := newHost(t, "old", v36)
	old.ok("init")
	old.put("from", "the snapshot")
	ctx, cancel := context.WithTimeout(t.Context(), askTime)
	defer cancel()
	r, err := old.client(old).Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	old.kill()
	return b
}

// documented are the files that a member of etcdadm has.
var documented = []string{
	"bin/etcd", "bin/etcdctl", "bin/etcdctl.sh", "bin/etcdutl", "data.etcdadm.json", "data.lock", "data.run",
	"data/.etcdadm", "data/member",
	"etc/etcd.env", "etc/etcdctl.env", "pki/.certs.lock", "pki/ca.crt", "pki/ca.key",
	"pki/apiserver-etcd-client.crt", "pki/apiserver-etcd-client.key", "pki/etcdctl-etcd-client.crt",
	"pki/etcdctl-etcd-client.key",
	"pki/peer.crt", "pki/peer.key", "pki/server.crt", "pki/server.key",
}

// kept are the files that a reset leaves.
var kept = []string{"data.lock", "data.run", "pki/.certs.lock", "pki/ca.crt", "pki/ca.key"}

// at returns the path of a name like those above.
func (h *host) at(name string) string {
	if end, ok := strings.CutPrefix(name, "data."); ok {
		return h.path("data") + "." + end
	}
	first, rest, _ := strings.Cut(name, "/")
	return h.path(first, rest)
}

// wantNames fails the test if the host has other files than those that are
// kept and these.
func (h *host) wantNames(further ...string) {
	h.t.Helper()
	known := []string{h.path("etcd.db"), h.path("etc/passwd"), h.path("etc/group")} // of the tests
	for _, name := range slices.Concat(kept, further) {
		known = append(known, h.at(name))
	}
	for _, name := range tree(h.t, h.root).names() {
		path := filepath.Join(h.root, name)
		if !slices.ContainsFunc(known, func(k string) bool {
			return k == path || strings.HasPrefix(k, path+"/") || goesOn(k, path)
		}) {
			h.t.Errorf("%s has a file that nobody needs: %s", h.name, name)
		}
	}
}

// goesOn says whether path is below one of the directories that etcd and its
// supervisor write to.
func goesOn(known, path string) bool {
	return slices.Contains([]string{"member", "etcd.run", "etcd.set-aside"}, filepath.Base(known)) &&
		strings.HasPrefix(path, known+"/")
}

// wantWhole fails the test unless the host has a member that serves and all
// that belongs to it, one etcd, one supervisor, and nothing else; and unless
// the cluster has exactly these voters.
func (h *host) wantWhole(voters ...string) {
	h.t.Helper()
	h.wantVoters(voters...)
	h.wantNames(append([]string{"data.set-aside"}, documented...)...)
	if all := h.programs(); !slices.Equal(all, []string{"etcd", "etcdadm"}) {
		h.t.Errorf("%s does not have one etcd with one supervisor: %q", h.name, all)
	}
	for _, name := range documented {
		if !exists(h.at(name)) {
			h.t.Errorf("%s has no %s", h.name, name)
		}
	}
	eventually(h.t, commandTime, "no half files", func() error { // one may be being written
		if left := glob(h.t, h.at("data.run")+"/.*tmp*"); len(left) > 0 {
			return fmt.Errorf("%s has %q", h.name, left)
		}
		return nil
	})
}

// programs returns the names of the programs that run on the host. In a space
// these are all that are in its network.
func (h *host) programs() []string {
	var names []string
	add := func(pid string) {
		// A child of the tests is one of them until it has become a program.
		if b, err := os.ReadFile(filepath.Join("/proc", pid, "comm")); err == nil &&
			!strings.HasPrefix(filepath.Base(os.Args[0]), strings.TrimSpace(string(b))) {
			names = append(names, strings.TrimSpace(string(b)))
		}
	}
	if h.space == nil {
		for _, p := range h.processes() {
			pid, _, _ := strings.Cut(p, " ")
			add(pid)
		}
		return slices.Sorted(slices.Values(names))
	}
	self := strconv.Itoa(os.Getpid())
	network, _ := os.Readlink(filepath.Join("/proc", self, "task", strconv.Itoa(h.space.thread), "ns/net"))
	for _, dir := range glob(h.t, "/proc/[0-9]*") {
		if there, err := os.Readlink(filepath.Join(dir, "ns/net")); err == nil && there == network {
			add(filepath.Base(dir))
		}
	}
	return slices.Sorted(slices.Values(names))
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// bootTime is how long a machine may take to have its etcd's supervisor again. It
// is for a machine that does a lot besides: nothing here is about speed.
const bootTime = time.Minute

// boot does what happens to an etcd that ran when its machine lost its power:
// it runs again, and is started again should that fail. (Nothing does that for
// the init system "process"; systemd and the kubelet do.)
func (h *host) boot() {
	h.t.Helper()
	if !exists(h.path("data", "member")) || !exists(h.path("etc", "etcd.env")) || !exists(h.at("data.run")+"/run.json") {
		return
	}
	seen := func(name string) string {
		if h.space != nil {
			return "/" + defaults[name]
		}
		return h.path(name)
	}
	log := "/dev/null"
	if h.space == nil {
		log = filepath.Join(h.t.TempDir(), "boot.log")
	}
	run := func() {
		h.shell(fmt.Sprintf("setsid sh -c '%s run --etcd=%s/etcd --env-file=%s/etcd.env --dir=%s.run "+
			"--log-file=%[4]s.run/etcd.log; echo ended' </dev/null >%[5]s 2>&1 &",
			h.program, seen("bin"), seen("etc"), seen("data"), log))
	}
	run()
	eventually(h.t, bootTime, h.name+" to boot", func() error {
		if supervisor, _ := h.onStatusFile(); supervisor != 0 {
			return nil
		}
		said, _ := os.ReadFile(log)
		if strings.HasSuffix(string(said), "ended\n") {
			h.t.Logf("%s: the supervisor ended: %s", h.name, said)
			run()
		}
		return fmt.Errorf("no supervisor runs; the last one said %q", said)
	})
}

// lead makes the host's member the leader.
func (h *host) lead() {
	h.t.Helper()
	id := h.id()
	eventually(h.t, commandTime, h.name+" to lead", func() error {
		ctx, cancel := context.WithTimeout(h.t.Context(), askTime)
		defer cancel()
		c := h.client(h)
		r, err := c.Status(ctx, h.clientURL())
		if err != nil || r.Leader == id {
			return err
		}
		for _, m := range h.members() {
			if m.ID == r.Leader {
				c.SetEndpoints(m.ClientURLs...) // the leader itself does it
			}
		}
		if _, err = c.MoveLeader(ctx, id); err == nil {
			err = errors.New("it was returned just now")
		}
		return err
	})
}
