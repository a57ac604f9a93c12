package machine

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// access are the flags with which commands reach the host's etcd that do not
// read a machine's configuration.
func (h *host) access() []string {
	return []string{"--certs-dir=" + h.path("pki"), "--environment-dir=" + h.path("etc")}
}

// reportOf is what init and join print with -o json.
type reportOf struct {
	Member, Join string
	Changed      bool
	Steps        []struct{ Phase, Text string }
}

// report runs a command with -o json and reads what it prints.
func (h *host) report(args ...string) reportOf {
	h.t.Helper()
	var r reportOf
	h.unmarshal(h.ok(append(args, "-o", "json")...), &r)
	return r
}

func (h *host) unmarshal(text string, into any) {
	h.t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		h.t.Fatalf("%s: %v in %s", h.name, err, text)
	}
}

// position returns the index of the first step whose text has the words, -1 if
// there is none.
func (r reportOf) position(words string) int {
	for i, s := range r.Steps {
		if strings.Contains(s.Text, words) {
			return i
		}
	}
	return -1
}

func (h *host) id() uint64 {
	h.t.Helper()
	var info struct{ ID uint64 }
	h.unmarshal(h.ok("info"), &info)
	return info.ID
}

// wantKeys fails the test unless every host has every key.
func wantKeys(keys map[string]string, hosts ...*host) {
	for _, h := range hosts {
		h.t.Helper()
		for k, v := range keys {
			if got := h.get(k); got != v {
				h.t.Errorf("%s has %s = %q, want %q", h.name, k, got, v)
			}
		}
	}
}

// A whole life of a cluster, by hand: it grows, loses a member and gets it
// back, has one that dies, and shrinks to nothing. TestLifeOfOtherVersions has more.
func TestLife(t *testing.T) { life(t, v36) }

func life(t *testing.T, versions ...string) {
	t.Helper()
	t.Parallel()
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			hosts := newHosts(func(name string) *host { return newHost(t, name, version) }, 3)
			keys := grow(t, hosts)
			for _, h := range hosts {
				observe(h)
			}
			rejoin(hosts, keys)
			burySomebody(hosts, keys)
			shrink(hosts, keys)
		})
	}
}

// grow makes the cluster, and writes a key through each member.
func grow(t *testing.T, hosts []*host) map[string]string {
	t.Helper()
	a := hosts[0]
	keys := map[string]string{}
	for i, h := range hosts {
		var r reportOf
		if i == 0 {
			r = h.report("init")
		} else {
			h.copyCA(a)
			r = h.report("join", hosts[i-1].clientURL())
			learner, vote := r.position("member add-learner"), r.position("member promote")
			if learner < 0 || vote < learner {
				t.Fatalf("%s did not join as a learner that gets its vote later: %+v", h.name, r.Steps)
			}
		}
		if !r.Changed || r.Member != h.name {
			t.Errorf("%s reports %+v", h.name, r)
		}
		keys["from-"+h.name] = "written by " + h.name
		h.put("from-"+h.name, "written by "+h.name)
		if got := h.serves(); got != h.version {
			t.Errorf("%s runs etcd %s", h.name, got)
		}
	}
	a.wantVoters("a", "b", "c")
	wantKeys(keys, hosts...)
	return keys
}

// observe checks what the commands report that change nothing.
func observe(h *host) {
	h.t.Helper()
	eventually(h.t, commandTime, h.name+" sees all members", func() error { return h.seesAll() })
	id := h.id()
	for _, m := range h.members() {
		if m.Name == h.name && m.ID != id {
			h.t.Errorf("%s: info says %d, the member list %d", h.name, id, m.ID)
		}
	}
}

// seesAll asks twice for the status of a cluster of three in which all is well.
func (h *host) seesAll() error {
	h.t.Helper()
	table, object := h.run("status"), h.run("status", "-o", "json")
	if table.code != 0 || strings.Count(table.stdout, "leader") != 1 || strings.Count(table.stdout, "voter") != 2 {
		return fmt.Errorf("not one leader and two voters: %s", table)
	}
	if object.code != 0 {
		return fmt.Errorf("%s", object)
	}
	var seen struct {
		Service struct{ State string }
		Remote  struct {
			Members []struct {
				Name    string
				Healthy bool
			}
		}
	}
	h.unmarshal(object.stdout, &seen)
	if seen.Service.State != "running" || len(seen.Remote.Members) != 3 {
		return fmt.Errorf("status is %+v", seen)
	}
	for _, m := range seen.Remote.Members {
		if !m.Healthy {
			return fmt.Errorf("%s is not healthy", m.Name)
		}
	}
	return nil
}

// rejoin has b leave and come back as a new member.
func rejoin(hosts []*host, keys map[string]string) {
	a, b := hosts[0], hosts[1]
	a.t.Helper()
	before := b.id()
	const even = "2 members tolerate no more failures than 1, and need more votes for each write: join one more."
	if out := b.ok("reset"); !strings.Contains(out, even) {
		a.t.Errorf("the number of those that are left is not shown: %s", out)
	}
	a.wantVoters("a", "c")
	if left := b.processes(); len(left) > 0 {
		a.t.Errorf("after its reset %s has %q", b.name, left)
	}
	// Certificates are issued on a machine without a member, too, and a join goes on with them.
	if out := b.ok("certs", "check-expiration"); strings.Count(out, "missing") != 4 {
		a.t.Errorf("certificates are there: %s", out)
	}
	b.ok("certs", "renew", "all")
	if out := b.ok("join", a.clientURL()); strings.Contains(out, even) {
		a.t.Errorf("three members are called two: %s", out)
	}
	a.wantVoters("a", "b", "c")
	if b.id() == before {
		a.t.Errorf("b is the member that left: %x", before)
	}
	wantKeys(keys, b)
}

// burySomebody has c die, and a take it out of the cluster. Then c comes back,
// with the data of a member that is no more.
func burySomebody(hosts []*host, keys map[string]string) {
	a, c := hosts[0], hosts[2]
	a.t.Helper()
	c.kill()
	if names := a.ok("__complete", "remove", ""); !strings.HasPrefix(names, "a\nb\nc\n:") {
		a.t.Errorf("the shell is offered %q", names)
	}
	if out := a.ok("remove", "c"); !strings.Contains(out, "2 members tolerate no more failures than 1") {
		a.t.Errorf("the number of those that are left is not shown: %s", out)
	}
	a.wantVoters("a", "b")
	c.fails(3, []string{"was removed from the cluster", "--set-aside-data"}, "join", a.clientURL())
	c.ok("join", "--set-aside-data", a.clientURL())
	a.wantVoters("a", "b", "c")
	wantKeys(keys, c)
}

// shrink has everybody leave, the initial member before the last.
func shrink(hosts []*host, keys map[string]string) {
	a, b, c := hosts[0], hosts[1], hosts[2]
	a.t.Helper()
	c.ok("leave") // another name of reset
	a.wantVoters("a", "b")
	a.ok("reset")
	b.wantVoters("b")
	wantKeys(keys, b)
	b.put("alone", "b")
	b.ok("reset")
	for _, h := range hosts {
		if exists(h.path("data")) || exists(h.path("etc", "etcd.env")) || exists(h.path("bin", "etcd")) ||
			exists(h.path("pki", "server.crt")) {
			a.t.Errorf("%s has still traces of its member: %s", h.name, strings.Join(tree(h.t, h.root).names(), " "))
		}
		if !exists(h.path("pki", "ca.key")) || !exists(h.path("data.set-aside")) {
			a.t.Errorf("%s has lost its data or its certificate authority", h.name)
		}
		if r := h.run("status"); r.code == 0 {
			a.t.Errorf("%s: there is a status: %s", h.name, r)
		}
	}
}

// etcd 3.7 panics over a log that still has entries of etcd 3.5, which there are
// until the next raft snapshot (after 10,000 writes). So one is forced before a young
// cluster goes through both minors, by the same command.
func TestUpgradeOfAYoungCluster(t *testing.T) {
	t.Parallel()
	h := newHost(t, "a", v35)
	h.ok("init")
	h.put("kept", "x")
	h.version, h.binaries = v36, etcdDir(t, v36)
	h.ok("join", h.clientURL())
	h.ok("join", "--version", v37, "--binaries-dir", etcdDir(t, v37), h.clientURL())
	if got := h.serves(); got != v37 {
		t.Errorf("the member runs %s", got)
	}
	wantKeys(map[string]string{"kept": "x"}, h)
}

// A snapshot of one version begins a new cluster of another one, on which the
// retired etcdadm made data that etcd 3.6 could not start with.
func TestSnapshotBeginsACluster(t *testing.T) { snapshotBegins(t, [2]string{v35, v36}) }

func snapshotBegins(t *testing.T, pairs ...[2]string) {
	t.Helper()
	t.Parallel()
	for _, pair := range pairs {
		from, to := pair[0], pair[1]
		t.Run(fmt.Sprintf("%s to %s", from, to), func(t *testing.T) {
			t.Parallel()
			hosts := newHosts(func(name string) *host { return newHost(t, name, from) }, 2)
			found(hosts...)
			keys := map[string]string{"before": "the snapshot"}
			hosts[1].put("before", "the snapshot")
			file := hosts[0].path("backup.db")
			hosts[0].ok(append([]string{"snapshot", "save", file}, hosts[0].access()...)...)
			hosts[0].put("after", "the snapshot")
			old := hosts[0].members()
			for _, h := range hosts {
				h.ok("reset", "--skip-remove-member")
				h.version, h.binaries = to, etcdDir(t, to)
			}
			hosts[0].ok("init", "--snapshot", file)
			hosts[1].ok("join", hosts[0].clientURL())
			hosts[0].wantVoters("a", "b")
			wantKeys(keys, hosts...)
			wantKeys(map[string]string{"after": ""}, hosts...)
			if old[0].ID == hosts[0].members()[0].ID {
				t.Errorf("the new cluster has the member ids of the old one")
			}
			hosts[1].put("goes", "on")
			wantKeys(map[string]string{"goes": "on"}, hosts...)
			if got := hosts[1].serves(); got != to {
				t.Errorf("b runs etcd %s", got)
			}
		})
	}
}

// The whole on IPv6, where addresses in URLs have brackets.
func TestIPv6(t *testing.T) { onIPv6(t, v37) }

func onIPv6(t *testing.T, versions ...string) {
	t.Helper()
	t.Parallel()
	if !hasIPv6() {
		t.Skip("the machine has no IPv6 loopback (::1)")
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			hosts := newHosts(func(name string) *host { return newHostAt(t, name, version, "::1") }, 2)
			a, b := hosts[0], hosts[1]
			if out := a.ok("init"); !strings.Contains(out, "etcdadm join "+a.clientURL()) ||
				!strings.Contains(a.clientURL(), "https://[::1]:") {
				t.Errorf("the line for the next machine is not there: %s", out)
			}
			b.copyCA(a)
			b.ok("join", a.clientURL())
			b.put("six", "6")
			wantKeys(map[string]string{"six": "6"}, a, b)
			a.wantVoters("a", "b")
			if env := b.variables(); env["ETCD_INITIAL_ADVERTISE_PEER_URLS"] != b.peerURL() ||
				env["ETCD_LISTEN_CLIENT_URLS"] != b.clientURL() {
				t.Errorf("the files of b: %v", env)
			}
			if r := a.exec(a.path("bin", "etcdctl.sh"), "endpoint", "health"); r.code != 0 {
				t.Errorf("etcdctl.sh: %s", r)
			}
			b.ok("reset")
			a.wantVoters("a")
		})
	}
}
