package machine

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// A call is one that others make. Those of the page of the contract name its line.
type call struct {
	name, caller string
	run          func(t *testing.T)
	lines        []string
}

func calls() []call {
	return []call{
		{"cloud-init calls of the bootstrap provider", "aws/etcdadm-bootstrap-provider, cloudinit.go",
			cloudInit, []string{"user data of the first machine", "user data of the others"}},
		{"Bottlerocket phase calls", "bottlerocket-bootstrap of EKS Anywhere, init.go and join.go",
			bottlerocket, []string{"Bottlerocket, first machine", "Bottlerocket, the others"}},
		{"flags of the retired etcdadm", "scripts", oldFlags, nil},
		{"release URL of EKS Distro", "EKS Anywhere, --release-url", eksDistro, nil},
		{"release URL that is the archive", "EKS Anywhere, --release-url", gzURL, nil},
		{"archives without etcdutl", "EKS Distro, projects/etcd-io/etcd", withoutEtcdutl, nil},
		{"snapshot and no etcdutl", "EKS Distro with cctl", snapshotWithoutEtcdutl, nil},
		{"archive in the cache needs no network", "image-builder", cachedArchive, nil},
		{"files that scripts read", "restore and renewal pages of EKS Anywhere", scripts, nil},
		{"info for programs", "platform9/cctl, ssh-provider", info, nil},
		{"version for goss", "image-builder", version, nil},
		{"join hint whatever the log level", "scripts, blogs", joinHint, nil},
		{"health over HTTPS", "aws/etcdadm-controller, healthcheck.go", health, []string{"health check"}},
		{"renewal of certificates", "EKS Anywhere, renewerubuntu.go and renewerbottlerocket.go",
			renewal, []string{"renewal"}},
		{"exit codes", "cloud-init", exitCodes, nil},
		{"recovery by cctl", "platform9/cctl", recovery, nil},
		{"upgrade by replacing machines", "aws/etcdadm-controller, upgrade.go",
			replacedMachines, []string{"scale-down"}},
		{"calls of a playbook", "kerlabs/etcdadm-ansible", playbook, nil},
		{"manifest that somebody has changed", "kube-vip", changedManifest, nil},
		{"certificates for kubeadm", "kubeadm, external etcd", kubeadmCertificates, nil},
		{"machine that the retired etcdadm set up", "scripts", takenOver, nil},
		{"certificates made before", "vik8s, etcd init", madeBefore, nil},
		{"TLS 1.2 and a suite for RSA", "EKS Anywhere, pkg/crypto/tls.go", olderTLS, nil},
		{"TLS 1.2 where certificates have other keys", "EKS Anywhere, pkg/crypto/tls.go", olderTLSLater, nil},
		{"server of releases that is overloaded", "cloud-init, on many machines at once", overloadedServer, nil},
		{"clock that is behind", "cloud-init, before the clock is set", clockIsBehind, nil},
		{"join with the flags of scripts", "scripts, issues", joinOfScripts, nil},
		{"restore in place", "ubuntu-rhel-etcd-backup.md of EKS Anywhere", restoreByThePage, nil},
		{"file names and modes", "image builders, scripts", fileModes, nil},
	}
}

// What others do with the retired etcdadm, and must go on doing with this one:
// Cluster API providers, image builders, scripts. Each subtest has the calls
// exactly as they make them, on a machine where everything is where it is by
// default.
func TestContract(t *testing.T) {
	t.Parallel()
	for _, tt := range calls() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			t.Logf("called by %s", tt.caller)
			tt.run(t)
		})
	}
}

// ciphers is what EKS Anywhere sets.
const ciphers = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"

// runcmd is what cloud-init runs: the provider's command with its blanks, and
// what it does after success.
func runcmd(command string) string {
	return "      " + command + " && echo success > /run/cluster-api/bootstrap-success.complete"
}

// The provider writes the certificate authority, and runs init on the first
// machine and join on the others, with flags after the endpoint and all client
// URLs that it knows. cloud-init may run it all again.
func cloudInit(t *testing.T) {
	a, b := newPair(t, v36)
	ca := newOldCA(t)
	flags := " --init-system systemd --version " + v36 +
		" --release-url https://distro.example/releases/ --install-dir /opt/bin/ --cipher-suites " + ciphers
	lines := map[*host]string{
		a: "etcdadm init" + flags, b: "etcdadm join https://192.0.2.9:2379,https://192.0.2.1:2379" + flags,
	}
	for _, h := range []*host{a, b} {
		h.fakeSystemd()
		ca.install(h)
		h.seed(v36, archive(t, v36))
		line := strings.ReplaceAll(runcmd(lines[h]), "/run/cluster-api", h.root)
		for range 2 {
			if r := h.shell(line); r.code != 0 || !exists(filepath.Join(h.root, "bootstrap-success.complete")) {
				t.Fatalf("%s: %s", h.name, r)
			}
		}
		if got := h.variables()["ETCD_CIPHER_SUITES"]; got != ciphers {
			t.Errorf("%s: ETCD_CIPHER_SUITES is %q", h.name, got)
		}
	}
	a.wantVoters("a", "b")
	b.put("k", "v")
	wantKeys(map[string]string{"k": "v"}, a)
	for _, m := range a.members() {
		want := map[string]string{"a": "https://192.0.2.1:2380", "b": "https://192.0.2.2:2380"}[m.Name]
		if !slices.Equal(m.PeerURLs, []string{want}) {
			t.Errorf("the controller finds %s by %s alone, and its peer URLs are %q", m.Name, want, m.PeerURLs)
		}
	}
	if calls := a.read(a.path("fake", "calls")); !strings.Contains(calls, "enable etcd.service") ||
		!strings.Contains(calls, "start --no-block etcd.service") {
		t.Errorf("systemctl was called with %q", calls)
	}
}

// Bottlerocket has no systemctl, mounts an empty data directory, runs one
// process per phase in a directory of its own, and starts the pod between start
// and health. The network is not up for the phases of init.
func bottlerocket(t *testing.T) {
	a, b := newPair(t, v36)
	flags := " -l debug --version " + v36 +
		" --init-system kubelet --image-repository public.ecr.aws/eks-distro/etcd-io/etcd --certs-dir /var/lib/etcd/pki" +
		" --data-dir /var/lib/etcd/data --kubelet-pod-manifest-path ./manifests --cipher-suites " + ciphers
	phases := map[*host]struct {
		verb  string
		names []string
	}{
		a: {"init", []string{"install", "certificates", "snapshot", "configure", "start", "health"}},
		b: {"join", []string{"stop", "certificates", "membership", "install", "configure", "start", "health"}},
	}
	ca := newOldCA(t)
	for _, h := range []*host{a, b} {
		h.withoutTools()
		h.moved = map[string]string{"pki": "var/lib/etcd/pki", "data": "var/lib/etcd/data", "manifests": "manifests"}
		ca.install(h)
		for _, dir := range []string{h.path("data"), h.path("manifests"), h.path("fake")} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range phases[h].names {
			args := []string{phases[h].verb, "phase", p}
			if h == b {
				args = append(args, "https://192.0.2.1:2379")
			}
			if p == "health" {
				h.fakeKubelet(h.path("manifests", "etcd.manifest"))
			}
			h.ok(append(args, strings.Fields(flags)...)...)
		}
		wantPod(h)
	}
	a.wantVoters("a", "b")
	b.put("k", "v")
	wantKeys(map[string]string{"k": "v"}, a)
}

// wantPod checks what Bottlerocket reads: all files of the directory, whose
// base names are the pods' names.
func wantPod(h *host) {
	h.t.Helper()
	entries, err := os.ReadDir(h.path("manifests"))
	if err != nil || len(entries) != 1 || entries[0].Name() != "etcd.manifest" {
		h.t.Fatalf("%s: the manifests are %v, %v", h.name, entries, err)
	}
	manifest := h.read(h.path("manifests", "etcd.manifest"))
	if want := "image: public.ecr.aws/eks-distro/etcd-io/etcd:v" + v36 + "\n"; !strings.Contains(manifest, want) {
		h.t.Errorf("%s: the pod has no %s:\n%s", h.name, want, manifest)
	}
	env := podEnv(h.t, manifest)
	for k, want := range map[string]string{
		"ETCD_CIPHER_SUITES": ciphers, "ETCD_DATA_DIR": "/var/lib/etcd/data",
		"ETCD_CERT_FILE": "/var/lib/etcd/pki/server.crt", "ETCD_NAME": h.name,
	} {
		if env[k] != want {
			h.t.Errorf("%s: the pod has %s = %q, want %q", h.name, k, env[k], want)
		}
	}
	if exists(h.path("bin", "etcd")) || exists(h.path("units", "etcd.service")) {
		h.t.Errorf("%s: the kubelet needs neither binaries nor a unit", h.name)
	}
}

// Every flag of the retired etcdadm, at its old default where it had one. The
// phases have those of their command.
func oldFlags(t *testing.T) {
	h, _ := newPair(t, v36)
	h.fakeSystemd()
	common := []string{
		"--name", "a", "--version", "3.5.7", "--release-url", "https://github.com/coreos/etcd/releases/download",
		"--certs-dir", "/etc/etcd/pki", "--bind-address", "127.0.0.1",
		"--server-cert-extra-sans", "etcd.example,10.0.0.1", "--install-dir", "/opt/bin/", "--disk-priorities",
		"Nice=-10,IOSchedulingClass=best-effort,IOSchedulingPriority=2",
		"--init-system", "systemd", "--image-repository", "quay.io/coreos/etcd", "--data-dir", "/var/lib/etcd",
		"--kubelet-pod-manifest-path", "/etc/kubernetes/manifests",
		"--cipher-suites", ciphers, "-l", "info",
	}
	onlyInit := []string{"--skip-hash-check", "--download-connect-timeout", "10s"}
	h.ok(slices.Concat([]string{"init", "--dry-run"}, common, onlyInit)...)
	for _, p := range initPhases {
		h.ok(slices.Concat([]string{"init", "phase", p, "--snapshot", "/root/etcd.db", "--help"}, common, onlyInit)...)
	}
	for _, p := range joinPhases {
		h.ok(append([]string{"join", "phase", p, "https://127.0.0.1:2379", "--retry=false", "--help"}, common...)...)
	}
	h.ok("reset", "--skip-remove-member", "--install-dir", "/opt/bin/", "--certs-dir", "/etc/etcd/pki")
	h.ok("download", "--help", "--version", "3.5.7", "--release-url", "https://github.com/coreos/etcd/releases/download",
		"--download-connect-timeout", "10s")
	h.ok("version", "--short")
	h.ok("completion", "bash")
	// Both forms of a version, and arguments after the first of join.
	h.fails(3, []string{"there is no certificate authority"}, "join", "https://127.0.0.1:2379", "ignored", "--version",
		"v3.6.16", "--dry-run")
	// A bad value is a bad value, and named as what was typed.
	h.fails(2, []string{"loud"}, "init", "-l", "loud")
}

// EKS Distro has other names for its archives, a checksum beside each, and
// versions that its binaries do not print.
func eksDistro(t *testing.T) {
	h := newMachine(t, "a", v35)
	const release = v35 + "-eks-1-33-5"
	name := fmt.Sprintf("/v%s/etcd-linux-%s-v%s.tar.gz", release, runtime.GOARCH, release)
	path := archive(t, v35)
	url, asked := h.serve(map[string]http.HandlerFunc{
		name: fileAnswer(path), name + ".sha256": textAnswer(digest(t, path) + "  etcd-linux.tar.gz\n"),
	})
	h.ok("init", "--init-system=process", "--bind-address=127.0.0.1", "--version", release, "--release-url", url,
		"--install-dir=/opt/bin/")
	if got := h.serves(); got != v35 {
		t.Errorf("etcd %s runs", got)
	}
	if !slices.Contains(asked(), "GET "+name) {
		t.Errorf("the server was asked for %q", asked())
	}
	if cached := h.path("cache", "etcd", "v"+release,
		fmt.Sprintf("etcd-v%s-linux-%s.tar.gz", release, runtime.GOARCH)); !exists(cached) {
		t.Errorf("there is no %s", cached)
	}
	// Once more, with the server gone from the world.
	out := h.ok("init", "--init-system=process", "--bind-address=127.0.0.1", "--version", release, "--release-url",
		"https://192.0.2.1:1")
	if !strings.Contains(out, "Nothing to do") {
		t.Errorf("the second time: %s", out)
	}
}

// A release URL that ends in .gz is the archive.
func gzURL(t *testing.T) {
	h := newMachine(t, "a", v36)
	path := archive(t, v36)
	url, asked := h.serve(map[string]http.HandlerFunc{
		"/any/name.tar.gz": fileAnswer(path), "/any/name.tar.gz.sha256": textAnswer(digest(t, path) + "\n"),
	})
	h.ok("download", "--version", v36, "--release-url", url+"/any/name.tar.gz")
	if !slices.Contains(asked(), "GET /any/name.tar.gz") {
		t.Errorf("the server was asked for %q", asked())
	}
	h.ok("init", "phase", "install", "--init-system=process", "--bind-address=127.0.0.1", "--version", v36,
		"--release-url", "http://127.0.0.1:1/any/name.tar.gz")
	for _, name := range []string{"etcd", "etcdctl", "etcdutl"} {
		if info, err := os.Stat(h.path("bin", name)); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// Image builders put the archive into the cache; then no network is needed.
func cachedArchive(t *testing.T) {
	h := newMachine(t, "a", v36)
	h.seed(v36, archive(t, v36))
	for _, k := range []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"} {
		h.vars[k] = "http://127.0.0.1:1"
	}
	h.ok("download", "--version", v36)
	h.ok("init", "phase", "install", "--init-system=process", "--bind-address=127.0.0.1", "--version", v36)
	if r := h.exec(h.path("bin", "etcd"), "--version"); !strings.Contains(r.stdout, "etcd Version: "+v36+"\n") {
		t.Errorf("%s", r)
	}
}

// info is one JSON object with the names and the decimal id that its readers
// expect.
func info(t *testing.T) {
	h := newMachine(t, "a", v36)
	h.ok("init", "--init-system=process", "--bind-address=127.0.0.1", "--binaries-dir", h.binaries)
	out := h.ok("info", "--init-system=process", "--bind-address=127.0.0.1")
	var keys map[string]json.RawMessage
	h.unmarshal(out, &keys)
	want := map[string]string{
		"name": `"a"`, "ID": fmt.Sprint(h.members()[0].ID), "peerURLs": `["https://127.0.0.1:2380"]`,
		"clientURLs": `["https://127.0.0.1:2379"]`,
	}
	for k, v := range want {
		if got := strings.Join(strings.Fields(string(keys[k])), ""); got != v {
			t.Errorf("%s is %s, want %s", k, got, v)
		}
	}
	if _, there := keys["isLearner"]; there {
		t.Errorf("a voter has isLearner: %s", out)
	}
}

// version --short is one line, and nothing is on stderr; -o has the old names.
func version(t *testing.T) {
	h := newMachine(t, "a", v36)
	r := h.run("version", "--short")
	if r.code != 0 || r.stderr != "" || !regexp.MustCompile(`^\S+\n$`).MatchString(r.stdout) {
		t.Errorf("%s", r)
	}
	var v struct{ ClientVersion map[string]string }
	h.unmarshal(h.ok("version", "--output", "json"), &v)
	for _, k := range []string{
		"major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform",
	} {
		if _, there := v.ClientVersion[k]; !there {
			t.Errorf("clientVersion has no %s: %v", k, v.ClientVersion)
		}
	}
	if out := h.ok("version", "--output", "yaml"); !strings.Contains(out, "clientVersion:\n") ||
		!strings.Contains(out, "  gitVersion: ") {
		t.Errorf("yaml: %s", out)
	}
}

// The line for the next machine is on stdout, whatever is logged.
func joinHint(t *testing.T) {
	h := newMachine(t, "a", v36)
	line := regexp.MustCompile(`(?m)^\tetcdadm join https://127\.0\.0\.1:2379$`)
	args := []string{"--init-system=process", "--bind-address=127.0.0.1", "--binaries-dir", h.binaries, "-l"}
	for _, level := range []string{"warn", "error", "panic", "info", "debug"} {
		for _, verb := range [][]string{{"init"}, {"init", "phase", "post-init-instructions"}} {
			r := h.run(slices.Concat(verb, args, []string{level})...)
			if r.code != 0 || len(line.FindAllString(r.stdout, -1)) != 1 || strings.Contains(r.stderr, "etcdadm join") {
				t.Errorf("the line is not there once: %s", r)
			}
		}
	}
}
