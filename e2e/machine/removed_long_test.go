//go:build e2e

package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// holdBack puts an etcd on the machine that begins only when release is called.
func (h *host) holdBack() (release func()) {
	h.t.Helper()
	gate := filepath.Join(h.root, "gate")
	real := func(tool string) string { return filepath.Join(h.binaries, tool) }
	h.write(h.path("bin", "etcd"), fmt.Sprintf(`#!/bin/sh
if [ "$1" = --version ]; then exec %[1]s --version; fi
while [ ! -e %[2]s ]; do sleep 0.05; done
exec %[1]s "$@"
`, real("etcd"), gate), 0o755)
	for _, tool := range []string{"etcdctl", "etcdutl"} {
		if err := os.Symlink(real(tool), h.path("bin", tool)); err != nil {
			h.t.Fatal(err)
		}
	}
	return func() {
		h.t.Helper()
		// What runs is compared with what is installed.
		link := h.path("bin", "real")
		if err := errors.Join(os.Symlink(real("etcd"), link), os.Rename(link, h.path("bin", "etcd"))); err != nil {
			h.t.Fatal(err)
		}
		h.write(gate, "", 0o644)
	}
}

// The one endpoint that a join was given is removed before its etcd begins: others are
// asked, and etcd is started with the list as it is then.
func TestTheEndpointIsRemovedWhileAMachineJoins(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 4)
	a, b, d := hosts[0], hosts[1], hosts[3]
	found(hosts[:3]...)
	d.copyCA(a)
	release := d.holdBack()
	join := d.begin("join", a.clientURL())
	join.says("start etcd")
	remove(t, b.client(b), a)
	a.kill()
	release()
	if err := join.cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, join.said())
	}
	b.wantVoters("b", "c", "d")
}

// Phases one by one: a voter is removed after configure, and another one after start,
// before etcd has begun. The error has the lines that go on.
func TestAVoterIsRemovedBetweenThePhases(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 4)
	a, d := hosts[0], hosts[3]
	found(hosts[:3]...)
	d.copyCA(a)
	release := d.holdBack()
	gone := func(h *host) {
		remove(t, a.client(a), h)
		h.kill()
	}
	goOn := func(r result) {
		t.Helper()
		_, lines, ok := strings.Cut(r.stderr, "hint: ")
		if !ok || !strings.Contains(lines, " phase configure ") || !strings.Contains(lines, " phase start ") {
			t.Fatalf("it does not say how to go on: %s", r)
		}
		if r := d.shell(strings.TrimSpace(lines)); r.code != 0 {
			t.Fatal(r)
		}
	}
	for _, p := range []string{"certificates", "install", "stop", "membership", "configure"} {
		d.ok("join", "phase", p, a.clientURL())
	}
	gone(hosts[1])
	goOn(d.fails(3, []string{"not-configured", "have changed since"}, "join", "phase", "start", a.clientURL()))
	gone(hosts[2])
	release()
	goOn(d.fails(3, []string{"not-configured", "have changed since"}, "join", "phase", "health", a.clientURL()))
	d.ok("join", "phase", "health", a.clientURL())
	a.wantVoters("a", "d")
}

// remove takes the member of a machine out, by its peer URL, as soon as etcd takes it. Etcd
// never answers a change of its members that it drops, as it does while another one is not
// applied: no try waits for long.
func remove(t *testing.T, by *clientv3.Client, gone *host) {
	t.Helper()
	eventually(t, commandTime, "the removal of "+gone.name, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), askTime)
		defer cancel()
		list, err := by.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, m := range list.Members {
			if len(m.PeerURLs) == 1 && m.PeerURLs[0] == gone.peerURL() {
				_, err = by.MemberRemove(ctx, m.ID)
				return err
			}
		}
		return nil
	})
}
