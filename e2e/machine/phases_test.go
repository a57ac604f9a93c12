//go:build e2e

package machine

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Phases one by one, each a process of its own, make the same members as init
// and join do.
func TestPhasesOneByOne(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]string{"in our order": joinPhases, "in the old order": oldJoinPhases} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 2)
			a, b := hosts[0], hosts[1]
			for _, p := range initPhases {
				out := a.ok("init", "phase", p)
				if join := strings.Contains(out, "etcdadm join "+a.clientURL()); join != (p == "post-init-instructions") {
					t.Errorf("the line for the next machine, in phase %s: %s", p, out)
				}
			}
			a.put("k", "v")
			b.copyCA(a)
			for _, p := range order {
				b.ok("join", "phase", p, a.clientURL())
				if p == "membership" {
					wantLearner(a)
				}
			}
			a.wantVoters("a", "b")
			wantKeys(map[string]string{"k": "v"}, b)
			// Nothing is left to do for the whole.
			for h, args := range map[*host][]string{a: {"init"}, b: {"join", a.clientURL()}} {
				h.unchanged("the command after its phases", func() {
					if r := h.report(args...); r.Changed {
						t.Errorf("%s still does %+v", h.name, r.Steps)
					}
				})
			}
		})
	}
}

// wantLearner fails the test unless the list has one member that has not
// started, and it is a learner.
func wantLearner(h *host) {
	h.t.Helper()
	members := h.members()
	i := slices.IndexFunc(members, func(m *member) bool { return m.Name == "" })
	if len(members) != 2 || i < 0 || !members[i].IsLearner {
		h.t.Errorf("the new member is not a learner: %+v", members)
	}
}

// What was done is not done again: the second run says so and touches no file.
func TestEverythingTwice(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 3)
	a, b, c := hosts[0], hosts[1], hosts[2]
	again := func(h *host, args ...string) {
		t.Helper()
		h.ok(args...)
		h.unchanged(strings.Join(args, " "), func() {
			pid := h.etcd()
			if out := h.ok(args...); !strings.Contains(out, "Nothing to do") {
				t.Errorf("%s %v, again: %s", h.name, args, out)
			}
			if h.etcd() != pid {
				t.Errorf("%s %v, again: etcd is another process", h.name, args)
			}
		})
	}
	again(a, "init")
	for _, h := range []*host{b, c} {
		h.copyCA(a)
		again(h, "join", a.clientURL()+","+b.clientURL())
	}
	for _, p := range initPhases[:len(initPhases)-1] {
		again(a, "init", "phase", p)
	}
	for _, p := range slices.DeleteFunc(slices.Clone(joinPhases), func(p string) bool { return p == "stop" }) {
		again(b, "join", "phase", p, a.clientURL())
	}
	id := fmt.Sprintf("%x", c.id())
	c.kill()
	again(a, "remove", id)
	again(b, "reset")
	again(a, "reset", "--discard-data", "--force", "--remove-ca")
	again(c, "reset", "--skip-remove-member")
	again(c, "leave")
}

// --dry-run changes nothing, and the lines that it prints are a script that ends
// where the command ends.
func TestDryRun(t *testing.T) {
	t.Parallel()
	script, command := newHosts(func(name string) *host { return newHost(t, name, v36) }, 2),
		newHosts(func(name string) *host { return newHost(t, name, v36) }, 2)
	flags := []string{"--etcd-flag=snapshot-count=5000", "--etcd-env=NOTE=it's $HOME; \"two\" words",
		"--server-cert-extra-sans=etcd.example,10.1.2.3", "--quota-backend-bytes=4Gi"}
	for i := range script {
		s, c := script[i], command[i]
		args := func(first *host) []string { return append([]string{"init"}, flags...) }
		if i > 0 {
			s.copyCA(script[0])
			c.copyCA(command[0])
			args = func(first *host) []string { return append([]string{"join", first.clientURL()}, flags...) }
		}
		s.foretold(args(script[0])...)
		c.ok(args(command[0])...)
		sameFiles(s, c)
	}
	script[0].wantVoters("a", "b")
	// An upgrade is foretold too, and so is the end, which is not a script.
	b := script[1]
	b.version, b.binaries = v37, etcdDir(t, v37)
	upgrade := append([]string{"join", script[0].clientURL()}, flags...)
	// The etcd of a new member takes seconds to note of which version its data is, and is not
	// changed before.
	eventually(t, commandTime, "b can be changed", func() error {
		if r := b.run(append(upgrade, "--dry-run")...); r.code != 0 {
			return errors.New(r.stderr)
		}
		return nil
	})
	b.foretold(upgrade...)
	if got := b.serves(); got != v37 {
		t.Errorf("b runs etcd %s", got)
	}
	b.unchanged("reset --dry-run", func() {
		if out := b.ok("reset", "--dry-run"); !strings.Contains(out, "member remove") || !strings.Contains(out, "aside") {
			t.Errorf("reset --dry-run: %s", out)
		}
	})
	script[0].unchanged("remove --dry-run", func() { script[0].ok("remove", "b", "--force", "--dry-run") })
	script[0].wantVoters("a", "b")
}

// foretold runs a command with --dry-run, and then the lines that it printed as
// a script.
func (h *host) foretold(args ...string) {
	h.t.Helper()
	var out string
	h.unchanged(args[0]+" --dry-run", func() { out = h.ok(append(args, "--dry-run")...) })
	if entries, err := os.ReadDir(h.root); args[0] == "init" && (err != nil || len(entries) > 0) {
		h.t.Errorf("%s: --dry-run leaves %v behind, %v", h.name, entries, err)
	}
	if pids := h.processes(); len(pids) > 0 && h.etcd() == 0 {
		h.t.Errorf("%s: --dry-run has started %q", h.name, pids)
	}
	if r := h.shell(out); r.code != 0 {
		h.t.Fatalf("%s: the script of --dry-run fails: %s", h.name, r)
	}
	if r := h.report(args...); r.Changed {
		h.t.Errorf("%s: after the script there is still to do: %+v", h.name, r.Steps)
	}
}

// sameFiles fails the test unless the hosts have the same files, apart from
// what is their own: keys, ids, tokens.
func sameFiles(a, b *host) {
	a.t.Helper()
	x, y := tree(a.t, a.root), tree(b.t, b.root)
	if !slices.Equal(x.names(), y.names()) {
		a.t.Errorf("the files of %s are %q, and %q", a.name, x.names(), y.names())
		return
	}
	for _, name := range x.names() {
		if x[name].mode != y[name].mode {
			a.t.Errorf("%s is %s, and %s", name, x[name].mode, y[name].mode)
		}
		if !strings.HasSuffix(name, ".env") && !strings.HasSuffix(name, ".sh") {
			continue
		}
		if one, two := anonymous(a.normal(a.path(name))), anonymous(b.normal(b.path(name))); one != two {
			a.t.Errorf("%s:\n%s\nand\n%s", name, one, two)
		}
	}
}

// anonymous takes the lines out that are new in each cluster.
func anonymous(env string) string {
	lines := slices.DeleteFunc(strings.SplitAfter(env, "\n"), func(line string) bool {
		return strings.HasPrefix(line, "ETCD_INITIAL_CLUSTER_TOKEN=") || strings.HasPrefix(line, "ETCD_INITIAL_CLUSTER=")
	})
	return strings.Join(lines, "")
}

// A configuration file and flags for the same make the same files.
func TestConfigFile(t *testing.T) {
	t.Parallel()
	a, b := newHost(t, "a", v36), newHost(t, "a", v36)
	flags := []string{
		"--etcd-flag=snapshot-count=5000", "--etcd-flag=heartbeat-interval=200", "--etcd-flag=election-timeout=2000",
		"--etcd-env=GOMAXPROCS=2",
		"--server-cert-extra-sans=etcd.example,10.1.2.3", "--peer-cert-extra-sans=peer.example", "--quota-backend-bytes=4Gi",
		"--cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
		"--key-algorithm=RSA-2048", "--cert-lifetime=720h",
	}
	a.ok(append([]string{"init"}, flags...)...)
	file := b.path("member.yaml")
	b.write(file, fmt.Sprintf(`apiVersion: etcdadm.dev/v1
kind: Member
name: a
version: %s
listen: {address: %s, clientPort: %d, peerPort: %d}
paths:
  data: %s
  certificates: %s
  install: %s
  cache: %s
  environment: %s
certificates:
  serverSANs: [etcd.example, 10.1.2.3]
  peerSANs: [peer.example]
  keyAlgorithm: RSA-2048
  lifetime: 720h
binaries: {dir: %s}
service: {initSystem: process}
etcd:
  cipherSuites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]
  quotaBytes: 4294967296
  flags: {snapshot-count: 5000, heartbeat-interval: 200, election-timeout: 2000}
  environment: {GOMAXPROCS: 2}
timeouts: {start: 60s}
`, v36, b.address, b.clientPort, b.peerPort, b.path("data"), b.path("pki"), b.path("bin"),
		b.path("cache"), b.path("etc"), b.binaries), 0o644)
	b.bare()
	b.ok("config", "validate", "--config", file)
	b.ok("init", "--config", file)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	sameFiles(a, b)
	for _, pair := range []string{"server", "peer", "etcdctl-etcd-client", "apiserver-etcd-client"} {
		one, two := a.certificate(pair), b.certificate(pair)
		if got, want := describe(two), describe(one); got != want {
			t.Errorf("%s by the file: %s\nby flags: %s", pair, got, want)
		}
	}
	b.write(file, "apiVersion: etcdadm.dev/v1\nkind: Member\nname: a\nlisten:\n  clientprot: 1\n", 0o644)
	b.fails(2, []string{file + ":5:3", "clientPort"}, "init", "--config", file)
}
