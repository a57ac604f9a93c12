package machine

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// 11: every process made a cluster token of its own.
func phasesBootstrapOneCluster(t *testing.T) {
	h := newHost(t, "a", v36)
	h.ok("init")
	file := h.path("saved.db")
	h.ok(append([]string{"snapshot", "save", file}, h.access()...)...)
	h.ok("reset")
	h.ok("init", "phase", "install")
	h.ok("init", "phase", "certificates")
	h.ok("init", "phase", "snapshot", "--snapshot", file)
	h.ok("init", "phase", "configure", "--snapshot", file)
	token := h.variables()["ETCD_INITIAL_CLUSTER_TOKEN"]
	if err := os.Remove(h.path("etc", "etcd.env")); err != nil {
		t.Fatal(err)
	}
	h.ok("init", "phase", "configure", "--snapshot", file)
	if again := h.variables()["ETCD_INITIAL_CLUSTER_TOKEN"]; token == "" || again != token {
		t.Errorf("the token is %q, and then %q", token, again)
	}
	if record := h.read(h.path("data") + ".etcdadm.json"); !strings.Contains(record, `"`+token+`"`) {
		t.Errorf("the snapshot was restored with another token than %s: %s", token, record)
	}
	// It is not always the same.
	other := newHost(t, "a", v36)
	other.ok("init", "phase", "configure")
	if other.variables()["ETCD_INITIAL_CLUSTER_TOKEN"] == token {
		t.Error("two clusters have the same token")
	}
}

// 12: join phase without an endpoint was a panic.
func phaseWithoutEndpoint(t *testing.T) {
	h := newHost(t, "a", v36)
	for _, p := range joinPhases {
		if r := h.fails(2, []string{"the endpoint is missing"}, "join", "phase", p); strings.Contains(r.stderr, "goroutine") {
			t.Errorf("%s", r)
		}
	}
}

// 13: errors were on both outputs, with the whole usage, and -l warn took the
// line for the next machine away.
func errorsOnce(t *testing.T) {
	h := newHost(t, "a", v36)
	for _, args := range [][]string{{"init", "--nonsense"}, {"join", "https://127.0.0.1:1"}} {
		r := h.run(args...)
		if r.code == 0 || r.stdout != "" || strings.Count(r.stderr, "error: ") != 1 || strings.Contains(r.stderr, "Flags:") {
			t.Errorf("%s", r)
		}
	}
	if r := h.run("init", "-l", "warn"); !strings.Contains(r.stdout, "\tetcdadm join "+h.clientURL()+"\n") ||
		strings.Contains(r.stderr, "[start]") {
		t.Errorf("%s", r)
	}
}

// 14: systemd was let wait for a quorum forever, and the health check for five
// seconds whatever was said.
func waitingEnds(t *testing.T) {
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 2)
	found(hosts...)
	a, b := hosts[0], hosts[1]
	a.kill()
	b.kill()
	testwait.InTime(t, "a wait of 2s", 30*time.Second, func() {
		began := time.Now()
		r := b.run("join", "phase", "start", a.clientURL())
		if r.code == 0 {
			r = b.run("join", "phase", "health", "--start-timeout=2s", a.clientURL())
		}
		if took := time.Since(began); r.code == 0 || took < 2*time.Second || !strings.Contains(r.stderr, "within 2s") {
			t.Errorf("after %s: %s", took, r)
		}
	})
	// When the other one is back, so is the cluster.
	a.ok("init")
	b.ok("join", "phase", "health", a.clientURL())
	b.put("k", "v")
}

// 15: a name that is no host name was not in the certificates, and etcd did not
// accept them.
func namesThatAreNoHostNames(t *testing.T) {
	a, b := newHost(t, "Node_A", v36), newHost(t, "NODE.b", v36)
	if r := a.run("init"); r.code != 0 || !strings.Contains(r.stderr, "WARNING Hostname") {
		t.Fatalf("%s", r)
	}
	b.copyCA(a)
	b.ok("join", a.clientURL())
	a.wantVoters("NODE.b", "Node_A")
	if names := b.certificate("server").DNSNames; !strings.Contains(strings.Join(names, ","), "node.b") {
		t.Errorf("the names are %q", names)
	}
	if cn := a.certificate("server").Subject.CommonName; cn != "Node_A" {
		t.Errorf("the common name is %s", cn)
	}
}

// 16: a certificate was used again whatever names it had, until it expired.
func otherNamesAreIssuedAgain(t *testing.T) {
	h := newHost(t, "a", v36)
	h.ok("init", "phase", "certificates")
	server, peer := h.certificate("server"), h.certificate("peer")
	h.ok("init", "phase", "certificates", "--server-cert-extra-sans=late.example")
	if now := h.certificate("server"); now.VerifyHostname("late.example") != nil || !h.certificate("peer").Equal(peer) {
		t.Errorf("server is %s, before %s", describe(now), describe(server))
	}
	// One that is about to end is issued again, and there is a way to ask.
	short := newHost(t, "b", v36)
	short.ok("init", "phase", "certificates", "--cert-lifetime=1h")
	if r := short.run("certs", "check-expiration", "--within=30d", "--certs-dir", short.path("pki")); r.code == 0 ||
		!strings.Contains(r.stdout, "server") {
		t.Errorf("%s", r)
	}
	before := short.certificate("server")
	short.ok("certs", "renew", "all", "--certs-dir", short.path("pki"))
	if after := short.certificate("server"); after.NotAfter.Before(before.NotAfter.Add(24*time.Hour)) ||
		after.VerifyHostname("127.0.0.1") != nil {
		t.Errorf("server ends %s, before %s", after.NotAfter, before.NotAfter)
	}
	short.ok("certs", "check-expiration", "--within=30d", "--certs-dir", short.path("pki"))
}

// 17: one endpoint was asked, once.
func joinAsksAllEndpoints(t *testing.T) {
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 3)
	a, b, c := hosts[0], hosts[1], hosts[2]
	a.ok("init")
	b.copyCA(a)
	start := slices.Index(joinPhases, "start")
	for _, p := range joinPhases[:start] {
		b.ok("join", "phase", p, a.clientURL())
	}
	c.copyCA(a)
	hanging, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, and no node answers
	if err != nil {
		t.Fatal(err)
	}
	defer hanging.Close()
	// b is a learner until its vote, and etcd takes only one at a time: c waits.
	all := strings.Join([]string{
		"https://" + hanging.Addr().String(), "https://127.0.0.1:1", b.clientURL(), a.clientURL(),
	}, ",")
	c.fails(3, []string{"learner-pending"}, "join", "--retry=false", all)
	join := c.beginsInTurn("join", all)
	for _, p := range joinPhases[start:] {
		b.ok("join", "phase", p, a.clientURL())
	}
	join.succeeds()
	a.wantVoters("a", "b", "c")
	// A cluster that comes up later is waited for.
	for _, h := range hosts {
		h.kill()
	}
	c.fails(1, []string{"cluster-unreachable"}, "join", "--retry=false", "phase", "membership", a.clientURL())
	join = c.beginsInTurn("join", "phase", "membership", a.clientURL())
	a.ok("init", "phase", "start")
	b.ok("join", "phase", "start", a.clientURL())
	join.succeeds()
}

// 18: the default etcd was too old for kubeadm, from where the project was once.
func defaultsAreOfToday(t *testing.T) {
	h := newHost(t, "a", v36)
	for k := range h.placed() {
		h.vars[k] = ""
	}
	out := h.ok("config", "print", "--defaults")
	if !strings.Contains(out, "github.com/etcd-io/etcd/releases/download") {
		t.Errorf("the release URL is another one: %s", out)
	}
	m := regexp.MustCompile(`(?m)^version: "?(\d+)\.(\d+)\.(\d+)"?$`).FindStringSubmatch(out)
	if m == nil || m[1] != "3" || m[2] < "6" {
		t.Errorf("the default version is %q: %s", m, out)
	}
}

// 19: etcdutl, which restores snapshots, was not installed.
func etcdutlIsInstalled(t *testing.T) {
	h := newHost(t, "a", v35)
	h.ok("init", "phase", "install")
	if r := h.exec(h.path("bin", "etcdutl"), "version"); r.code != 0 || !strings.Contains(r.stdout, v35) {
		t.Errorf("%s", r)
	}
}

// 20: --download-connect-timeout was read and not used.
func connectTimeoutIsKept(t *testing.T) {
	h := newHost(t, "a", v36)
	h.vars["ETCDADM_BINARIES_DIR"] = ""
	hanging, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hanging.Close()
	// The default is 10 s, more than once.
	testwait.InTime(t, "a download from a mirror that hangs", 9*time.Second, func() {
		h.fails(1, []string{"100ms"}, "download", "--release-url", "http://"+hanging.Addr().String(),
			"--download-connect-timeout=100ms")
	})
}

// 21: the unit was executable, waited for nothing, and ran without protection.
func unitWaits(t *testing.T) {
	h := newMachine(t, "a", v36)
	h.fakeSystemd()
	h.ok("init", "--bind-address=127.0.0.1", "--binaries-dir", h.binaries)
	path := h.path("units", "etcd.service")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
	unit := h.read(path)
	for _, line := range []string{
		"After=network-online.target", "Wants=network-online.target", "RequiresMountsFor=/var/lib/etcd",
		"NoNewPrivileges=yes", "ProtectSystem=strict",
		"OOMScoreAdjust=-997", "Type=notify", "Restart=on-failure", "LimitNOFILE=65536", "EnvironmentFile=/etc/etcd/etcd.env",
		"ExecStart=/opt/bin/etcd",
		"Nice=-10", "IOSchedulingClass=best-effort", "IOSchedulingPriority=2", "WantedBy=multi-user.target",
	} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("the unit has no %s:\n%s", line, unit)
		}
	}
	h.ok("init", "phase", "configure", "--bind-address=127.0.0.1", "--user=root", "--no-hardening",
		"--disk-priorities=Nice=5")
	if unit = h.read(path); !strings.Contains(unit, "\nUser=root\n") || strings.Contains(unit, "ProtectSystem") ||
		!strings.Contains(unit, "\nNice=5\n") {
		t.Errorf("the flags are not in %s", unit)
	}
}

// 22: the static pod was privileged and had no probes; stopping it did not wait
// for its end, nor did reset know of it.
func staticPod(t *testing.T) {
	h := newMachine(t, "a", v36)
	h.withoutTools()
	h.write(h.path("fake", "log"), "", 0o600)
	flags := []string{"--init-system=kubelet", "--bind-address=127.0.0.1"}
	path := h.path("manifests", "etcd.manifest")
	h.fakeKubelet(path)
	h.ok(append([]string{"init"}, flags...)...)
	manifest := h.read(path)
	for _, want := range []string{
		"privileged: false", "allowPrivilegeEscalation: false", "readinessProbe:", "startupProbe:", "priorityClassName:",
		"hostNetwork: true",
	} {
		if !strings.Contains(manifest, want) {
			t.Errorf("the pod has no %q:\n%s", want, manifest)
		}
	}
	h.put("k", "v")
	live, err := h.http("etcdctl-etcd-client").Get("http://127.0.0.1:2381/livez") // what the probe asks
	if err != nil || live.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", live, err)
	}
	live.Body.Close()
	if len(h.processes()) == 0 {
		t.Fatal("no pod runs")
	}
	h.ok(append([]string{"reset"}, flags...)...)
	if left := h.processes(); len(left) > 0 || exists(path) || exists(h.path("data")) {
		t.Errorf("after the reset there is still %q, and %q", left, tree(t, h.root).names())
	}
}

// 23: version printed a struct of Go, and info an id that no other tool prints.
func output(t *testing.T) {
	h := newHost(t, "a", v36)
	if out := h.ok("version"); strings.Contains(out, "{") || strings.Count(out, "\n") != 1 ||
		!strings.HasPrefix(out, "etcdadm ") {
		t.Errorf("version: %s", out)
	}
	h.ok("init")
	var info struct {
		ID    uint64
		IDHex string
	}
	h.unmarshal(h.ok("info"), &info)
	if id := h.members()[0].ID; info.ID != id || info.IDHex != fmt.Sprintf("%x", id) {
		t.Errorf("the member is %x, and info has %+v", id, info)
	}
	h.fails(5, []string{"quorum-margin"}, "remove", "--dry-run", "--force", info.IDHex) // it is understood
}

// 24: two commands at once spoilt each other's work.
func oneCommandAtATime(t *testing.T) {
	h := newHost(t, "a", v36)
	lock, err := os.OpenFile(filepath.Clean(h.path("data")+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init"}, {"reset"}, {"join", "https://127.0.0.1:1"}, {"init", "phase", "start"}} {
		h.fails(1, []string{"another etcdadm runs on this machine"}, args...)
	}
	h.ok("init", "--dry-run") // it changes nothing
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	results := make([]result, 3)
	for i := range results {
		wg.Go(func() { results[i] = h.run("init") })
	}
	wg.Wait()
	done := 0
	for _, r := range results {
		if r.code == 0 {
			done++
		} else if !strings.Contains(r.stderr, "another etcdadm runs on this machine") {
			t.Errorf("%s", r)
		}
	}
	if done == 0 {
		t.Errorf("none of the three is done: %v", results)
	}
	h.ok("init")
	h.wantVoters("a")
	h.put("k", "v")
}
