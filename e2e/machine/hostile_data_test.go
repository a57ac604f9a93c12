//go:build e2e

package machine

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// wipe takes paths away, as when a machine is provisioned again.
func (h *host) wipe(paths ...string) {
	h.t.Helper()
	for _, p := range paths {
		if err := os.RemoveAll(p); err != nil {
			h.t.Fatal(err)
		}
	}
}

// A machine has lost its data: it is not started as if nothing had happened.
func TestLostData(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string][]string{
		"its data": {"data"}, "everything": {"data", "bin", "etc", "pki", "data.etcdadm.json", "data.run"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 3)
			found(hosts...)
			a, c := hosts[0], hosts[2]
			a.put("before", "it was lost")
			id := c.id()
			c.kill()
			for _, l := range lost {
				c.wipe(c.at(l))
			}
			c.copyCA(a)
			c.fails(3, []string{"data-lost", "--replace-member"}, "join", a.clientURL())
			if len(c.programs()) > 0 {
				t.Errorf("%q run", c.programs())
			}
			a.wantVoters("a", "b", "c")
			c.ok("join", "--replace-member", a.clientURL())
			c.wantWhole("a", "b", "c")
			if c.id() == id {
				t.Error("the member that has forgotten its votes votes again")
			}
			wantKeys(map[string]string{"before": "it was lost"}, c)
		})
	}
}

// The initial member of a cluster has lost its data. Another init would bootstrap a second
// cluster beside the first.
func TestInitialMemberLostItsData(t *testing.T) {
	t.Parallel()
	a, b := strange(t)
	b.ok("join", a.clientURL())
	a.kill()
	a.wipe(a.path("data"))
	a.fails(3, []string{"data-lost"}, "init")
	if len(a.programs()) > 0 {
		t.Errorf("a runs %q", a.programs())
	}
}

// An init over a member that lives, whichever way it came there, changes nothing
// at all; and neither does a join with a version that cannot be.
func TestOverALiveMember(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v35) }, 2)
	found(hosts...)
	a, b := hosts[0], hosts[1]
	a.put("before", "anything")
	id := b.id()
	newer := etcdDir(t, v37)
	for _, args := range [][]string{
		{"init"}, {"init", "--name=other"}, {"init", "--version=" + v36, "--binaries-dir=" + etcdDir(t, v36)}, {
			"init", "--quota-backend-bytes=4Gi",
		},
	} {
		b.unchanged(strings.Join(args, " "), func() {
			if r := b.run(args...); r.code != 3 && r.code != 2 {
				t.Errorf("it is not refused: %s", r)
			}
		})
	}
	for _, h := range hosts {
		h.unchanged("join of a version too far", func() {
			h.fails(3, []string{"version-step"}, "join", "--version="+v37, "--binaries-dir="+newer, a.clientURL(),
				"--membership-timeout=60s")
		})
	}
	a.unchanged("init of another name", func() {
		if r := a.run("init", "--name=other"); r.code == 0 {
			t.Errorf("a is given another name: %s", r)
		}
	})
	if b.id() != id {
		t.Error("b is another member")
	}
	a.wantVoters("a", "b")
	wantKeys(map[string]string{"before": "anything"}, a, b)
}

// What etcdadm remembers cannot be read. It is said, with what to do, and
// nothing is changed.
func TestGarbageInTheRecord(t *testing.T) {
	t.Parallel()
	h := newHost(t, "a", v36)
	h.ok("init")
	record := h.at("data.etcdadm.json")
	for _, text := range []string{"", "{", "not json\n", `{"action": 7}`} {
		h.write(record, text, 0o600)
		for _, args := range [][]string{{"init"}, {"reset"}} {
			h.unchanged(args[0], func() {
				r := h.run(args...)
				if r.code == 0 || !strings.Contains(r.stderr, record) || !strings.Contains(r.stderr, "hint: ") {
					t.Errorf("with the record %q: %s", text, r)
				}
			})
		}
	}
	h.wipe(record)
	h.ok("init")
	h.wantVoters("a")
}

// Somebody has edited etcd.env, or it is damaged: init and join make it right
// again, or say what is wrong and how to go on.
func TestGarbageInTheEnvironment(t *testing.T) {
	t.Parallel()
	a, b := strange(t)
	b.ok("join", a.clientURL())
	whole := b.read(b.path("etc", "etcd.env"))
	for name, text := range map[string]string{
		"empty":          "",
		"half a line":    whole[:len(whole)/2],
		"binary":         "\x00\x01\x02 \xff\n=\n",
		"no assignment":  "this is not an assignment\n",
		"another name":   strings.ReplaceAll(whole, "ETCD_NAME=b", "ETCD_NAME=somebody"),
		"a line more":    whole + "ETCD_HEARTBEAT_INTERVAL=200\n",
		"open quotation": whole + "ETCD_LOG_LEVEL=\"debug\n",
	} {
		b.write(b.path("etc", "etcd.env"), text, 0o600)
		r := b.run("join", "--membership-timeout=60s", a.clientURL())
		switch {
		case r.code != 0 && (!strings.Contains(r.stderr, b.path("etc", "etcd.env")) || !strings.Contains(r.stderr, "hint: ")):
			t.Errorf("%s: %s", name, r)
		case r.code == 0 && b.variables()["ETCD_NAME"] != "b":
			t.Errorf("%s: the file is not fixed: %s", name, b.read(b.path("etc", "etcd.env")))
		}
		a.wantVoters("a", "b")
		wantKeys(map[string]string{"before": "anything"}, b)
	}
	// However it looks, reset takes the member away.
	b.write(b.path("etc", "etcd.env"), "\x00this is not an assignment\n", 0o600)
	b.ok("reset", "--endpoints", a.clientURL())
	a.alone()
	b.nothing()
}

// Names that are no names of hosts.
func TestStrangeNames(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(string) *host { return newHost(t, "x", v36) }, 2)
	a, b := hosts[0], hosts[1]
	a.name, b.name = "Node_A.Example", "UPPER-2"
	found(a, b)
	b.put("a", "b")
	a.wantVoters("Node_A.Example", "UPPER-2")
	b.fails(3, []string{"member-unknown"}, "remove", "node_a.example")
	for _, out := range []string{a.ok("init"), b.ok("join", a.clientURL())} {
		if !strings.Contains(out, "Nothing to do") {
			t.Errorf("again: %s", out)
		}
	}
	b.ok("reset")
	a.wantVoters("Node_A.Example")
}

// Nobody reads what the command prints, or what it says meanwhile. It may be
// killed for that; run again, it goes on.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { full.Close() }) // behind the parallel scenarios
	closed := func() *os.File {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		t.Cleanup(func() { w.Close() })
		return w
	}
	for name, tt := range map[string]struct{ out, err io.Writer }{
		"the disk is full":    {full, full},
		"nobody reads":        {closed(), nil},
		"nobody reads at all": {closed(), closed()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, "a", v36)
			for range 15 { // with each step, if it must be
				cmd := h.command(t.Context(), h.program, "init")
				cmd.Stdout, cmd.Stderr = tt.out, tt.err
				if cmd.Run() == nil {
					t.Error("an init whose result nobody has got says that it is well")
				}
			}
			if out := h.ok("init"); !strings.Contains(out, fmt.Sprintf("etcdadm join %s", h.clientURL())) {
				t.Errorf("init says %s", out)
			}
			h.wantWhole("a")
		})
	}
}

// There is no systemd: the error names the other init systems, and nothing is
// done.
func TestNoSystemd(t *testing.T) {
	t.Parallel()
	a, b := strange(t)
	b.vars["PATH"], b.vars["ETCDADM_INIT_SYSTEM"] = "", "systemd"
	for _, args := range [][]string{{"init"}, quick(a.clientURL())} {
		b.unchanged(args[0], func() {
			b.fails(3, []string{"InitSystem", "--init-system", "systemctl"}, args...)
		})
	}
	// Despite that, the error is the same and nobody is added.
	r := b.run("join", "--ignore-preflight-errors=all", "--membership-timeout=10s", a.clientURL())
	if r.code == 0 || !strings.Contains(r.stderr, "--init-system") {
		t.Errorf("%s", r)
	}
	a.alone()
}
