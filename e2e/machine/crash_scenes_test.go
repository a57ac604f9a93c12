package machine

import (
	"strings"
	"syscall"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/testing/crashrun"
)

// A scene is a machine with a command that is to be killed at work.
type scene struct {
	h    *host
	args []string
	// boot does what happens when the machine starts again, nil for nothing: the
	// command itself is run again.
	boot func()
	// check checks whether all is as if nothing had happened.
	check func()
}

func openInit(t *testing.T) scene {
	a := newHost(t, "a", v36)
	a.program = crashing(t)
	return scene{h: a, args: []string{"init"}, check: func() { a.wantWhole("a") }}
}

// crash runs the scene's command with a crash point, and says whether it was
// killed there. If not it has succeeded.
func (s scene) crash(point string) bool {
	s.h.t.Helper()
	s.h.vars[crashrun.Variable] = point
	defer delete(s.h.vars, crashrun.Variable)
	r := s.h.run(s.args...)
	if r.code != -1 && r.code != 0 {
		s.h.t.Fatalf("to be killed at %s: %s", point, r)
	}
	return r.code == -1
}

// end runs the command to its end, and then once more: nothing is left to do.
func (s scene) end() {
	s.h.t.Helper()
	s.h.ok(s.args...)
	if out := s.h.ok(s.args...); !strings.Contains(out, "Nothing to do") {
		s.h.t.Errorf("%q is done, and still does something: %s", s.args, out)
	}
	s.check()
}

func end(pid int) {
	if pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// others are the packages that these commands have nothing to do with, whose
// crash points have tests of their own.
var others = []string{"apply", "handover", "volumes", "crashpoint"}

// The phases, in the order of the retired etcdadm and in ours. Its join asked
// for membership before it had the binaries.
var (
	initPhases = []string{
		"install", "certificates", "snapshot", "configure", "start", "etcdctl", "health", "post-init-instructions"}
	joinPhases    = []string{"certificates", "install", "stop", "membership", "configure", "start", "etcdctl", "health"}
	oldJoinPhases = []string{"stop", "certificates", "membership", "install", "configure", "start", "etcdctl", "health"}
)

// etcd returns the process of the host's etcd.
func (h *host) etcd() int {
	_, etcd := h.onStatusFile()
	return etcd
}

// quick are the flags of a join that is to give up soon.
func quick(endpoint string) []string { return []string{"join", "--membership-timeout=10s", endpoint} }

// strange begins a host that is to join another one, which runs.
func strange(t *testing.T) (a, b *host) {
	t.Helper()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 2)
	a, b = hosts[0], hosts[1]
	a.ok("init")
	a.put("before", "anything")
	b.copyCA(a)
	return a, b
}

// alone fails the test unless the host's cluster is what it was before somebody
// else came to nothing: the list is not even changed and changed back.
func (h *host) alone() {
	h.t.Helper()
	h.wantVoters(h.name)
	wantKeys(map[string]string{"before": "anything"}, h)
}

// nothing fails the test if the host has an etcd or data of one.
func (h *host) nothing() {
	h.t.Helper()
	if left := h.programs(); len(left) > 0 {
		h.t.Errorf("%s runs %q", h.name, left)
	}
	if exists(h.path("data", "member")) {
		h.t.Errorf("%s has data", h.name)
	}
}
