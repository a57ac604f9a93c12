package machine

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// newNet returns machines that reach each other over a switch, and nobody else.
func newNet(t *testing.T, version string, names ...string) []*host {
	t.Helper()
	hub := newSpace(t, "switch", t.TempDir())
	if err := hub.do(func() error {
		return errors.Join(ip("link", "add", "br0", "type", "bridge"), ip("link", "set", "br0", "up"))
	}); err != nil {
		t.Fatal(err)
	}
	var hosts []*host
	for i, name := range names {
		h := newMachine(t, name, version)
		h.address = fmt.Sprintf("192.0.2.%d", i+1)
		port := fmt.Sprintf("port%d", i)
		err := errors.Join(
			hub.do(func() error {
				return errors.Join(
					ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(h.space.thread)),
					ip("link", "set", port, "master", "br0", "up"))
			}),
			h.space.do(func() error {
				return errors.Join(ip("addr", "add", h.address+"/24", "dev", "eth0"), ip("link", "set", "eth0", "up"))
			}))
		if err != nil {
			t.Fatal(err)
		}
		all := h.placed()
		for _, key := range []string{"NAME", "VERSION", "BINARIES_DIR", "BIND_ADDRESS", "INIT_SYSTEM", "START_TIMEOUT",
			"MEMBERSHIP_TIMEOUT", "PROMOTION_TIMEOUT"} {
			h.vars["ETCDADM_"+key] = all["ETCDADM_"+key]
		}
		hosts = append(hosts, h)
	}
	return hosts
}

// firewall adds rules to the machine's firewall, or takes them out: its arguments are those of iptables.
func (h *host) firewall(args string) {
	h.t.Helper()
	// In the space, /etc has no alternatives.
	path, err := exec.LookPath("iptables")
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		h.t.Skipf("there is no firewall here: %v", err)
	}
	if err := h.space.do(func() error {
		cmd := exec.Command(path, append([]string{"-w"}, strings.Fields(args)...)...)
		cmd.Args[0] = "iptables"
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("iptables %s: %w: %s", args, err, out)
		}
		return nil
	}); err != nil {
		h.t.Fatal(err)
	}
}

// A machine that a voter does not reach is neither started nor promoted; the join says which two, where and
// what to do, and undoes itself. When the port is open, or a person goes on without, it joins.
func TestAJoinThatAVoterDoesNotReachIsUndone(t *testing.T) {
	for what, rule := range map[string]string{
		"drop":   "-s 192.0.2.1 -p tcp --dport 2380 -j DROP",
		"reject": "-s 192.0.2.1 -p tcp --dport 2380 -j REJECT --reject-with tcp-reset",
		"all":    "-p tcp --dport 2380 -j REJECT",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			hosts := newNet(t, v36, "a", "b", "c")
			a, b, c := hosts[0], hosts[1], hosts[2]
			found(a, b)
			c.copyCA(a)
			c.firewall("-A INPUT " + rule)
			r := c.fails(3, []string{"the join was undone"}, "join", a.clientURL())
			for _, want := range []string{
				"peer-port-closed: member", "a (https://192.0.2.1:2380)", "not reach the peer port of this machine " +
					"(https://192.0.2.3:2380): no connection within 5s", "open TCP port 2380 of this machine for 192.0.2.1",
				"--ignore-preflight-errors=PeerPorts", "waiting: not yet connected to this machine's peer port: ",
			} {
				if !strings.Contains(r.stderr, want) {
					t.Errorf("no %q in %s", want, r)
				}
			}
			if strings.Contains(r.stderr, "b (https://192.0.2.2:2380)") != (what == "all") {
				t.Errorf("of b it says: %s", r)
			}
			if exists(c.path("data") + ".run/etcd.log") {
				t.Errorf("etcd has run: %s", r)
			}
			a.wantVoters("a", "b")
			if what == "drop" {
				c.firewall("-D INPUT " + rule)
				if r := c.run("join", a.clientURL()); r.code != 0 || strings.Contains(r.stderr, "does not reach") {
					t.Errorf("the port is open: %s", r)
				}
			} else if r := c.run("join", a.clientURL(), "--ignore-preflight-errors=PeerPorts"); r.code != 0 ||
				!strings.Contains(r.stderr, "warning: member a does not reach the peer port of member c") {
				t.Errorf("a person goes on: %s", r)
			}
			a.wantVoters("a", "b", "c")
		})
	}
}

// A voter that does not answer is not waited for.
func TestAStartDoesNotWaitForAVoterThatIsDown(t *testing.T) {
	hosts := newNet(t, v36, "a", "b", "c", "d")
	a, c, d := hosts[0], hosts[2], hosts[3]
	found(hosts[:3]...)
	d.copyCA(a)
	for _, p := range joinPhases[:slices.Index(joinPhases, "start")] {
		d.ok("join", "phase", p, a.clientURL())
	}
	c.kill()
	d.firewall("-A INPUT -s " + c.address + " -p tcp --dport 2380 -j DROP")
	if r := d.run("join", "phase", "start", a.clientURL(), "--start-timeout=20s"); r.code != 0 ||
		strings.Contains(r.stderr, "not yet connected") {
		t.Errorf("%s", r)
	}
}

// A member whose etcd runs already, since the command that started it was killed, is judged by what the
// etcds of the others say: it gets no vote while one does not reach it.
func TestALearnerThatRunsIsNotPromotedUnreached(t *testing.T) {
	hosts := newNet(t, v36, "a", "b", "c")
	a, b, c := hosts[0], hosts[1], hosts[2]
	found(a, b)
	c.copyCA(a)
	const rule = "INPUT -s 192.0.2.1 -p tcp --dport 2380 -j DROP"
	c.firewall("-A " + rule)
	c.ok("join", a.clientURL(), "--skip-phases=health", "--ignore-preflight-errors=PeerPorts")
	c.fails(3, []string{"its etcd reports no connection", "member a (https://192.0.2.1:2380) does not reach"},
		"join", "phase", "health", a.clientURL())
	c.firewall("-D " + rule)
	c.ok("join", "phase", "health", a.clientURL())
	a.wantVoters("a", "b", "c")
}
