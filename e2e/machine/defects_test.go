package machine

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Each defect that the retired etcdadm was known for, by its number, with what
// happens instead.
func TestDefects(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"01-init-keeps-a-live-member", initKeepsALiveMember},
		{"02-join-starts-no-voter-on-an-empty-disk", joinStartsNoVoterOnAnEmptyDisk},
		{"03-failed-download-leaves-no-member", failedDownloadLeavesNoMember},
		{"04-restored-snapshot-starts", restoredSnapshotStarts},
		{"05-join-makes-no-certificate-authority", joinMakesNoAuthority},
		{"06-reset-leaves-no-ghost", resetLeavesNoGhost},
		{"07-crash-looping-etcd-is-stopped", crashLoopingEtcdIsStopped},
		{"08-text-in-files-is-as-it-was-given", textIsAsGiven},
		{"09-addresses-of-IPv6-have-brackets", bracketsOfIPv6},
		{"10-archives-are-checked", archivesAreChecked},
		{"11-phases-bootstrap-one-cluster", phasesBootstrapOneCluster},
		{"12-join-phase-without-endpoint-is-a-usage-error", phaseWithoutEndpoint},
		{"13-errors-once-and-the-join-line-always", errorsOnce},
		{"14-waiting-ends", waitingEnds},
		{"15-names-that-are-no-host-names", namesThatAreNoHostNames},
		{"16-certificates-with-other-names-are-issued-again", otherNamesAreIssuedAgain},
		{"17-join-asks-all-endpoints-and-again", joinAsksAllEndpoints},
		{"18-defaults-are-of-today", defaultsAreOfToday},
		{"19-etcdutl-is-installed", etcdutlIsInstalled},
		{"20-connect-timeout-is-kept", connectTimeoutIsKept},
		{"21-unit-waits-for-network-and-disk", unitWaits},
		{"22-static-pod-is-not-privileged-and-stop-waits", staticPod},
		{"23-output-is-for-people-and-programs", output},
		{"24-one-command-at-a-time", oneCommandAtATime},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(t)
		})
	}
}

// 1: init over a member deleted its data.
func initKeepsALiveMember(t *testing.T) {
	h := newHost(t, "a", v36)
	h.ok("init")
	h.put("k", "v")
	id, pid := h.id(), h.etcd()
	h.ok("init")
	h.unchanged("init of another member", func() { h.fails(3, nil, "init", "--name", "other") })
	if h.id() != id || h.etcd() != pid || h.get("k") != "v" {
		t.Error("the member is not what it was")
	}
	// Nor over one that does not run, and about which etcdadm knows nothing.
	h.kill()
	for _, path := range []string{h.path("data") + ".etcdadm.json", h.path("etc", "etcd.env")} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	h.unchanged("init over data", func() { h.fails(3, []string{"data-present", "etcdadm reset"}, "init") })
	if !exists(h.path("data", "member", "snap", "db")) {
		t.Error("the data is gone")
	}
}

// 2: a member whose disk was lost was started again, and etcd panicked.
func joinStartsNoVoterOnAnEmptyDisk(t *testing.T) {
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 3)
	found(hosts...)
	a, b := hosts[0], hosts[1]
	a.put("k", "v")
	id := b.id()
	b.kill()
	for _, path := range []string{b.path("data"), b.path("data") + ".etcdadm.json", b.path("etc")} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	b.fails(3, []string{"data-lost", "--replace-member"}, "join", a.clientURL())
	if b.etcd() != 0 || exists(b.path("data", "member")) {
		t.Error("it was started")
	}
	a.wantVoters("a", "b", "c")
	b.ok("join", "--replace-member", a.clientURL())
	a.wantVoters("a", "b", "c")
	wantKeys(map[string]string{"k": "v"}, b)
	if b.id() == id {
		t.Error("it is the old member")
	}
}

// 3: the member was added before its binaries were there, and stayed as a voter
// that never started.
func failedDownloadLeavesNoMember(t *testing.T) {
	a, b := newHost(t, "a", v36), newHost(t, "b", v36)
	a.ok("init")
	b.copyCA(a)
	url, asked := b.serve(nil)
	b.fails(1, []string{"install"}, "join", "--release-url", url, a.clientURL())
	if len(asked()) == 0 {
		t.Error("nobody asked the server")
	}
	a.wantVoters("a")
	a.put("k", "v") // one of one is a quorum
}

// 4: what was restored from a snapshot did not start with etcd 3.6.
func restoredSnapshotStarts(t *testing.T) {
	for _, version := range []string{v36, v37} {
		h := newHost(t, "a", version)
		h.ok("init")
		h.put("k", "v")
		file := h.path("saved.db")
		h.ok(append([]string{"snapshot", "save", file}, h.access()...)...)
		h.ok("reset")
		h.ok("init", "--snapshot", file)
		wantKeys(map[string]string{"k": "v"}, h)
		h.kill() // it starts again, too
		h.ok("init", "--snapshot", file)
		wantKeys(map[string]string{"k": "v"}, h)
		h.wantVoters("a")
		// A copied database has no digest in it.
		db := h.path("copied.db")
		h.kill()
		h.write(db, h.read(h.path("data", "member", "snap", "db")), 0o600)
		h.ok("reset", "--skip-remove-member")
		h.fails(3, []string{"digest", "--skip-hash-check"}, "init", "--snapshot", db)
		h.ok("init", "--snapshot", db, "--skip-hash-check")
		wantKeys(map[string]string{"k": "v"}, h)
	}
}

// 5: join made a certificate authority of its own, which nobody trusts.
func joinMakesNoAuthority(t *testing.T) {
	a, b := newHost(t, "a", v36), newHost(t, "b", v36)
	a.ok("init")
	for _, args := range [][]string{{"join", a.clientURL()}, {"join", "phase", "certificates", a.clientURL()}} {
		b.fails(3, []string{"ca-missing", "copy ca.crt and ca.key"}, args...)
	}
	if exists(b.path("pki", "ca.crt")) || exists(b.path("pki", "server.crt")) {
		t.Error("certificates were made")
	}
	a.wantVoters("a")
	// The authority of another cluster is seen as such.
	other := newHost(t, "c", v36)
	other.ok("init", "phase", "certificates")
	b.copyCA(other)
	b.fails(1, []string{"certificate"}, "join", "--retry=false", a.clientURL())
	a.wantVoters("a")
}

// 6: a member whose etcd was stopped, or had another address, stayed in the
// list; the authority's key was deleted; other directories were not checked.
func resetLeavesNoGhost(t *testing.T) {
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 3)
	found(hosts...)
	a, b, c := hosts[0], hosts[1], hosts[2]
	// Stopped, and with nothing but its files to show the cluster.
	c.kill()
	c.vars["ETCDADM_BIND_ADDRESS"] = ""
	c.ok("reset", "--endpoints", a.clientURL())
	a.wantVoters("a", "b")
	if exists(c.path("data")) || !exists(c.path("pki", "ca.key")) || exists(c.path("pki", "peer.key")) {
		t.Errorf("what is left of c is %q", tree(t, c.root).names())
	}
	// Nobody answers: it is said, and nothing is deleted.
	a.kill()
	b.kill()
	b.fails(1, []string{"--skip-remove-member", "--endpoints"}, "reset", "--membership-timeout", "1s")
	if !exists(b.path("data", "member")) || !exists(b.path("etc", "etcd.env")) {
		t.Error("b has lost what it had")
	}
	b.ok("reset", "--skip-remove-member")
	if exists(b.path("data")) || !exists(b.path("data.set-aside")) {
		t.Errorf("what is left of b is %q", tree(t, b.root).names())
	}
}

// 7: systemd calls a unit that waits to be started again inactive, so it was not
// stopped before its data was deleted.
func crashLoopingEtcdIsStopped(t *testing.T) {
	h := newMachine(t, "a", v36)
	h.fakeSystemd()
	flags := []string{"--bind-address=127.0.0.1", "--binaries-dir", h.binaries}
	h.ok(append([]string{"init"}, flags...)...)
	h.kill()
	h.write(h.path("fake", "crashing"), "", 0o600)
	if status := h.run("status", "--bind-address=127.0.0.1"); status.code == 0 ||
		!strings.Contains(status.stdout, "crashing") {
		t.Errorf("%s", status)
	}
	h.ok("reset", "--skip-remove-member", "--bind-address=127.0.0.1")
	if calls := h.read(h.path("fake", "calls")); !strings.Contains(calls, "stop etcd.service") ||
		exists(h.path("fake", "crashing")) {
		t.Errorf("it was not stopped: %s", calls)
	}
	// The same with a process of our own.
	p := newHost(t, "b", v36)
	p.ok("init")
	p.kill()
	env := p.path("etc", "etcd.env")
	p.write(env, strings.Replace(p.read(env), "ETCD_LISTEN_PEER_URLS=https", "ETCD_LISTEN_PEER_URLS=nonsense", 1), 0o600)
	p.run("init", "phase", "start")
	p.fails(1, []string{"etcd keeps ending"}, "init", "phase", "health")
	p.ok("reset", "--skip-remove-member")
	if left := p.processes(); len(left) > 0 {
		t.Errorf("there is still %q", left)
	}
}

// 8: the files were written as HTML.
func textIsAsGiven(t *testing.T) {
	h := newHost(t, "a", v36)
	h.moved = map[string]string{"data": "data +@%"}
	h.ok("init", `--etcd-env=NOTE=<"&'> + $HOME \ `+"`x`")
	env := h.read(h.path("etc", "etcd.env"))
	if strings.Contains(env, "&#") || strings.Contains(env, "&lt;") || strings.Contains(env, "&amp;") {
		t.Errorf("there is HTML in %s", env)
	}
	want := `<"&'> + $HOME \ ` + "`x`"
	if r := h.shell(`. ./etc/etcd.env; printf %s "$NOTE"`); r.stdout != want {
		t.Errorf("sh reads %q, want %q", r.stdout, want)
	}
	environ := h.read(fmt.Sprintf("/proc/%d/environ", h.etcd()))
	if !strings.Contains(environ, "\x00NOTE="+want+"\x00") && !strings.HasPrefix(environ, "NOTE="+want+"\x00") {
		t.Errorf("etcd has %q", strings.Split(environ, "\x00"))
	}
	if r := h.exec(h.path("bin", "etcdctl.sh"), "endpoint", "health"); r.code != 0 {
		t.Errorf("%s", r)
	}
}

// 9: URLs with an IPv6 address had no brackets.
func bracketsOfIPv6(t *testing.T) {
	if !hasIPv6() {
		t.Skip("the machine has no IPv6 loopback (::1)")
	}
	h := newHostAt(t, "a", v36, "::1")
	h.ok("init")
	for _, k := range []string{
		"ETCD_ADVERTISE_CLIENT_URLS", "ETCD_LISTEN_CLIENT_URLS", "ETCD_LISTEN_PEER_URLS", "ETCD_INITIAL_ADVERTISE_PEER_URLS",
	} {
		if v := h.variables()[k]; !strings.HasPrefix(v, "https://[::1]:") {
			t.Errorf("%s is %s", k, v)
		}
	}
	h.put("k", "v")
}

// 10: nothing was compared: not the archive with a checksum, nor the whole
// version with what the binaries say. A broken download was used forever.
func archivesAreChecked(t *testing.T) {
	h := newHost(t, "a", v36)
	h.vars["ETCDADM_BINARIES_DIR"] = ""
	path := archive(t, v36)
	name := fmt.Sprintf("etcd-v%s-linux-%s.tar.gz", v36, runtime.GOARCH)
	dir := "/v" + v36 + "/"
	wrong := strings.Repeat("0", 64) + "  " + name + "\n"
	url, _ := h.serve(map[string]http.HandlerFunc{dir + name: fileAnswer(path), dir + "SHA256SUMS": textAnswer(wrong)})
	h.fails(1, []string{"SHA-256", strings.Repeat("0", 64)}, "init", "--release-url", url)
	if exists(h.path("bin", "etcd")) {
		t.Error("it was installed")
	}
	// Half of it, until somebody loses timeout.
	half := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100000000")
		_, _ = w.Write(make([]byte, 1<<20))
		<-r.Context().Done()
	}
	right := textAnswer(digest(t, path) + "  " + name + "\n")
	url, _ = h.serve(map[string]http.HandlerFunc{dir + name: half, dir + "SHA256SUMS": right})
	part := h.path("cache", "etcd", "v"+v36, name+".part")
	if r := h.interrupt(func() bool { return exists(part) }, "download", "--release-url", url); r.code != 130 {
		t.Errorf("%s", r)
	}
	url, _ = h.serve(map[string]http.HandlerFunc{dir + name: fileAnswer(path), dir + "SHA256SUMS": right})
	h.ok("init", "phase", "install", "--release-url", url)
	// 3.6.1 is not 3.6.16.
	other := newHost(t, "b", v36)
	other.vars["ETCDADM_BINARIES_DIR"] = ""
	other.fails(1, []string{"3.6.1", v36}, "init", "phase", "install", "--version", "3.6.1", "--binaries-archive", path,
		"--skip-checksum")
	if exists(filepath.Join(other.path("bin"), "etcd")) {
		t.Error("another version was installed")
	}
}
