package certificates

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/daemons"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testchild"
)

// onMachine runs a command line where these daemons run.
func onMachine(t *testing.T, found []daemons.Daemon, args ...string) run {
	t.Helper()
	find := func() ([]daemons.Daemon, error) { return found, nil }
	root := &cobra.Command{Use: "etcdadm", Args: cli.Known}
	cli.AddOutput(root, cli.Table, cli.JSON, cli.YAML)
	root.AddCommand(newCerts(find), newKubeadm(find))
	var stdout, stderr strings.Builder
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code := cli.Run(t.Context(), root, args)
	return run{code, stdout.String(), stderr.String()}
}

// authorities makes a daemon's PKI directory.
func authorities(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{certs.ManagerCA, certs.ClientsCA} {
		ca, err := certs.NewCA(certs.CASpec{CommonName: name, Lifetime: 365 * 24 * time.Hour}, time.Now())
		if err == nil {
			err = ca.Write(dir, name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The line that certs client prints can be pasted where etcdctl is not in the PATH, too.
func TestWhatRunsEtcdctl(t *testing.T) {
	const byHand = "/opt/bin/etcdctl"
	dir := t.TempDir()
	for _, name := range []string{"etcd", "etcdctl"} {
		file := filepath.Join(dir, "etcd-v3.6.16", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	empty, some := etcdbin.Finder{Opt: t.TempDir()}, etcdbin.Finder{Dirs: []string{dir}, Opt: t.TempDir()}
	for _, tt := range []struct {
		there string
		f     etcdbin.Finder
		want  string
	}{
		{"etcdctl " + byHand, some, "etcdctl"},
		{byHand, some, byHand},
		{"", some, filepath.Join(dir, "etcd-v3.6.16", "etcdctl")},
		{"", empty, "etcdctl"},
	} {
		look := func(file string) (string, error) {
			if !slices.Contains(strings.Fields(tt.there), file) {
				return "", exec.ErrNotFound
			}
			return file, nil
		}
		if got := etcdctl(look, tt.f); got != tt.want {
			t.Errorf("with %q it is %s instead of %s", tt.there, got, tt.want)
		}
	}
}

// aDaemon is a daemon with these flags.
func aDaemon(t *testing.T, flags ...string) daemons.Daemon {
	t.Helper()
	argv := []string{"etcd-manager", "--backup-store=s3://b/x", "--cluster-name=main", "--address=127.0.0.1"}
	return daemons.Daemon{Store: "s3://b/x", Cluster: "main", PID: testchild.Named(t, append(argv, flags...)...)}
}

// serving starts an etcd whose certificates are of the daemon's authority.
func serving(t *testing.T, dir string) (*etcdtest.Member, string) {
	t.Helper()
	ca, err := certs.LoadCA(dir, certs.ClientsCA, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Issue(
		certs.Request{CommonName: "a", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true, Client: true},
		time.Now())
	if err != nil {
		t.Fatal(err)
	}
	own := t.TempDir()
	at := func(name string) string { return filepath.Join(own, name) }
	if err := (issued{leaf, ca}).write(at("server.crt"), at("server.key"), at("ca.crt")); err != nil {
		t.Fatal(err)
	}
	bin := etcdtest.Binaries(t, machine.DefaultVersion.String())
	m := etcdtest.New(t, "a")
	m.SecureClients(etcdtest.Pair{Cert: at("server.crt"), Key: at("server.key"), CA: at("ca.crt")})
	m.Start(t, bin, "--initial-cluster="+etcdtest.Initial(m))
	return m, bin.Etcdctl
}

// On a daemon's machine a certificate for etcd, and what kubeadm needs, are one command
// without a flag.
func TestClientOfADaemonsEtcd(t *testing.T) {
	dir := authorities(t)
	m, etcdctl := serving(t, dir)
	one := []daemons.Daemon{aDaemon(t, "--pki-dir="+dir, "--client-urls="+m.ClientURL)}
	t.Chdir(t.TempDir())
	r := onMachine(t, one, "certs", "client", "alice", "--timeout=1m")
	r.want(t, 0, "issued to alice, valid until ", "the authorities are those of the daemon on this machine (process")
	if strings.Contains(r.stderr, "warning") {
		t.Error(r.stderr)
	}
	works := func(env string) {
		t.Helper()
		cmd := exec.Command("sh", "-euc", `. "$1"; exec "$2" member list --command-timeout=60s`, "sh", env, etcdctl)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), m.ClientURL) {
			t.Errorf("%v: %s", err, out)
		}
	}
	works("./alice-etcdctl.env")
	for name, mode := range map[string]os.FileMode{
		"alice.key": 0o600, "alice.crt": 0o644, "alice-ca.crt": 0o644, "alice-etcdctl.env": 0o600,
	} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v", name, err)
		}
	}
	var c struct {
		Kind, Name, Env string
		Endpoints       []string
		NotAfter        time.Time
	}
	r = onMachine(t, one, "certs", "client", "bob", "--out-dir=bobs/own", "--lifetime=10d", "-o", "json", "--timeout=1m")
	if err := json.Unmarshal([]byte(r.stdout), &c); err != nil || c.Kind != "ClientCertificate" || c.Name != "bob" ||
		fmt.Sprint(c.Endpoints) != "["+m.ClientURL+"]" || time.Until(c.NotAfter).Round(time.Hour) != 240*time.Hour {
		t.Errorf("%v: %s", err, r.stdout)
	}
	works(c.Env)

	onMachine(t, one, "kubeadm", "config", "--timeout=1m").want(t, 0, "      - "+m.ClientURL+"\n", "")
	// Beside the daemon of another cluster, its authorities say which one is meant.
	two := append(one, aDaemon(t, "--pki-dir="+authorities(t)))
	onMachine(t, two, "kubeadm", "config", "--pki-dir="+dir, "--timeout=1m").want(t, 0, "      - "+m.ClientURL+"\n", "")
	onMachine(t, one, "kubeadm", "bundle", "--out=cp/").want(t, 0, "", "rsync -a cp/")
	config, err := certs.ClientTLSFromFiles("cp"+KubeadmCA, "cp"+KubeadmCert, "cp"+KubeadmKey)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := config.GetClientCertificate(nil)
	if err != nil || pair.Leaf.Subject.String() != "CN=kube-apiserver-etcd-client,O=system:masters" ||
		time.Until(pair.Leaf.NotAfter) < 364*24*time.Hour {
		t.Errorf("%v: %s, %s", err, pair.Leaf.Subject, pair.Leaf.NotAfter)
	}
	if _, err := (home{dir: dir, authority: certs.ClientsCA, daemon: &daemons.Settings{
		ClientURLs: []string{m.ClientURL}}}).live(t.Context()); err != nil {
		t.Error(err)
	}

	// Where etcd is away the certificate is there nevertheless.
	m.Stop(t)
	onMachine(t, one, "certs", "client", "carol", "--timeout=1s").want(t, 0, "issued to carol",
		"the endpoints are those in the daemon's command line")
}

func TestClientOfAMemberByHand(t *testing.T) {
	s := made(t, "a", 0)
	out := t.TempDir()
	flags := env(t, "ETCD_ADVERTISE_CLIENT_URLS=https://127.0.0.1:1\n")
	// A daemon of another cluster on the machine is not what the flags name.
	other := []daemons.Daemon{aDaemon(t, "--pki-dir="+authorities(t))}
	r := onMachine(t, other, words("certs client alice --timeout=1s --out-dir="+out, s.Dir, flags)...)
	r.want(t, 0, "issued to alice", "the endpoints are those in this machine's files")
	text := read(t, out, "alice-etcdctl.env")
	if !strings.Contains(text, "export ETCDCTL_ENDPOINTS=https://127.0.0.1:1\n") ||
		!strings.Contains(text, "export ETCDCTL_KEY="+out+"/alice.key\n") {
		t.Error(text)
	}
	if read(t, out, "alice-ca.crt") != read(t, s.Dir, "ca.crt") {
		t.Error("it is another authority")
	}
	if _, err := certs.ClientTLSFromFiles(out+"/alice-ca.crt", out+"/alice.crt", out+"/alice.key"); err != nil {
		t.Error(err)
	}
	// Nothing shows where etcd is.
	r = do(t, words("certs client bob --out-dir="+out, s.Dir, "--environment-dir="+t.TempDir())...)
	r.want(t, 0, "It is not known where etcd answers", "")
	if text := read(t, out, "bob-etcdctl.env"); strings.Contains(text, "ENDPOINTS") {
		t.Error(text)
	}
	do(t, words("certs client dave --endpoints=https://10.0.0.1:2379 --out-dir="+out, s.Dir)...).want(t, 0, "", "")
	if text := read(t, out, "dave-etcdctl.env"); !strings.Contains(text, "ENDPOINTS=https://10.0.0.1:2379\n") {
		t.Error(text)
	}
}

func TestClientFailures(t *testing.T) {
	dir, s := authorities(t), made(t, "a", 0)
	empty := t.TempDir()
	move(t, s.Dir+"/ca.key", s.Dir+"/x")
	const theirs = "--pki-dir=/etc/kubernetes/pki/etcd-manager"
	plain, two := aDaemon(t, "--etcd-insecure"), []daemons.Daemon{aDaemon(t), aDaemon(t)}
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args     string
		found    []daemons.Daemon
		code     int
		err, tip string
	}{
		{"certs client", nil, 2, "an argument is missing: the command is etcdadm certs client NAME", "certs client --help"},
		{"certs client a b", nil, 2, "there are too many arguments: the command is etcdadm certs client NAME", ""},
		{"certs renew all", two[:1], 1, "which renews its certificates itself", "etcdadm certs client NAME"},
		{"certs check-expiration", two[:1], 1, "the member of this machine is a daemon's (", "etcdadm certs client NAME"},
		{"certs renew all --certs-dir=" + empty, two[:1], 1, "there is no CA in " + empty, "copy ca.crt and ca.key"},
		{"certs client a/b --pki-dir=" + dir, nil, 2, "the name of a client is that of its files", ""},
		{"certs client a --lifetime=0s --pki-dir=" + dir, nil, 2, "must be positive", ""},
		{"certs client etcd-clients-ca --pki-dir=" + dir + " --out-dir=" + dir, nil, 2, "the directory of the authorities",
			"--out-dir=DIR"},
		{"certs user etcd-manager-ca --pki-dir=" + dir + " --out-dir=" + dir, nil, 2, "the directory of the authorities",
			"--out-dir=DIR"},
		{"certs client a --out-dir=$HOME --pki-dir=" + dir, nil, 2, "--out-dir: ", ""},
		{"certs client a --pki-dir=" + empty, nil, 1, "etcd-clients-ca.crt", "--pki-dir=DIR"},
		{"certs client a --certs-dir=" + s.Dir, nil, 1, "ca.key", "run it where " + s.Dir + "/ca.key is"},
		{"certs client a", []daemons.Daemon{plain}, 1, "has no TLS", "etcdctl --endpoints=http://127.0.0.1:4001"},
		{"certs client a", two, 2, "2 daemons run on this machine", "hint: etcdadm certs client " + theirs + " a\n"},
		{"certs user a", two, 2, "2 daemons run on this machine", "hint: etcdadm certs user " + theirs + " a\n"},
		{"kubeadm bundle --out=-", two, 2, "2 daemons run on this machine",
			"hint: etcdadm kubeadm bundle --out=- " + theirs + "\n"},
		{"kubeadm bundle --out=- --pki-dir=" + empty, nil, 1, "etcd-clients-ca.crt", "--pki-dir=DIR"},
		{"kubeadm config --pki-dir=" + dir, nil, 1, "no file on this machine says where etcd is", "--endpoints="},
	} {
		r := onMachine(t, c.found, strings.Fields(c.args)...)
		r.want(t, c.code, "", c.err)
		if !strings.Contains(r.stderr, c.tip) {
			t.Errorf("%s: no %q in %s", c.args, c.tip, r.stderr)
		}
		if files, _ := os.ReadDir("."); len(files) > 0 || r.stdout != "" {
			t.Errorf("%s: files %v, output %s", c.args, files, r.stdout)
		}
	}
}

// A person's certificate comes from the authorities of the daemon, too.
func TestPersonOnADaemonsMachine(t *testing.T) {
	dir := authorities(t)
	one := []daemons.Daemon{aDaemon(t, "--pki-dir="+dir)}
	t.Chdir(t.TempDir())
	onMachine(t, one, "certs", "user", "alice", "--role=operator").want(t, 0, "issued to alice",
		"the authorities are those of the daemon on this machine")
	if read(t, ".", "alice-ca.crt") != read(t, dir, certs.ManagerCA+".crt") ||
		read(t, ".", "alice-etcd-ca.crt") != read(t, dir, certs.ClientsCA+".crt") {
		t.Error("they are of other authorities")
	}
	// A person and a client of one name have different authorities: neither takes the
	// other's place.
	key := read(t, ".", "alice.key")
	r := onMachine(t, one, "certs", "client", "alice", "--endpoints=https://10.0.0.1:1")
	if r.code != 2 || !strings.Contains(r.stderr, "alice-ca.crt is the certificate of another authority") ||
		!strings.Contains(r.stderr, "--out-dir") || read(t, ".", "alice.key") != key {
		t.Errorf("%+v", r)
	}
	plain := []daemons.Daemon{aDaemon(t, "--pki-dir="+dir, "--etcd-insecure")}
	onMachine(t, plain, "certs", "person", "bob", "--role=operator").want(t, 0, "issued to bob", "")
	if _, err := os.Stat("bob-etcd.crt"); err == nil {
		t.Error("a certificate for an etcd without TLS")
	}
}
