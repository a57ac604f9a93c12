package certificates

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/host/configfile"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// A run is what a command line did.
type run struct {
	code           int
	stdout, stderr string
}

func do(t *testing.T, args ...string) run {
	t.Helper()
	root := &cobra.Command{Use: "etcdadm", Args: cli.Known, RunE: func(*cobra.Command, []string) error { return nil }}
	cli.AddOutput(root, cli.Table, cli.JSON, cli.YAML)
	root.AddCommand(New(), NewKubeadm())
	var stdout, stderr strings.Builder
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code := cli.Run(t.Context(), root, args)
	return run{code, stdout.String(), stderr.String()}
}

// words splits a command line at blanks and adds the directories of the test.
func words(line, dir string, more ...string) []string {
	return append(append(strings.Fields(line), "--certs-dir="+dir), more...)
}

func (r run) want(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	if r.code != code || !strings.Contains(r.stdout, stdout) || !strings.Contains(r.stderr, stderr) {
		t.Errorf("exit code %d, want %d\nstdout: %s\nwant %q\nstderr: %s\nwant %q", r.code, code, r.stdout, stdout, r.stderr,
			stderr)
	}
}

// made is the PKI of a machine in a new directory, whose certificates are
// valid for a time; for less than nothing they have expired an hour ago.
func made(t *testing.T, name cluster.NodeName, life time.Duration) certs.MachineSpec {
	t.Helper()
	at := time.Now()
	if life < 0 {
		at, life = at.Add(-2*time.Hour), time.Hour
	}
	s := certs.MachineSpec{Dir: filepath.Join(t.TempDir(), "pki"), Name: name, Address: "127.0.0.1", Lifetime: life}
	if err := certs.CreateMachineCA(s, at); err != nil {
		t.Fatal(err)
	}
	if _, err := certs.IssueMachine(s, at); err != nil {
		t.Fatal(err)
	}
	return s
}

func issue(t *testing.T, s certs.MachineSpec) {
	t.Helper()
	if _, err := certs.IssueMachine(s, time.Now()); err != nil {
		t.Fatal(err)
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func copied(t *testing.T, from, to string, names ...string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCheckExpiration(t *testing.T) {
	s := made(t, "a", 100*24*time.Hour)
	r := do(t, words("certs check-expiration", s.Dir)...)
	r.want(t, 0, "CERTIFICATE  ", "")
	for _, line := range []string{
		`server +20\d\d-\d\d-\d\d \d\d:\d\d UTC +99d +etcd +no`,
		`apiserver-etcd-client +20.* +99d +etcd +no`,
		`ca +20.* +9y +[0-9a-f]{64} +no`,
	} {
		if !matches(line, r.stdout) {
			t.Errorf("no line %q in\n%s", line, r.stdout)
		}
	}
	do(t, words("certs check-expiration --within=90d", s.Dir)...).want(t, 0, "server", "")
	do(t, words("certs check-expiration --within=2376h", s.Dir)...).want(t, 0, "server", "")
	r = do(t, words("certs check-expiration --within=100d", s.Dir)...)
	r.want(t, 1, "server", "error: server expires on 20")
	r.want(t, 1, "", "hint: etcdadm certs renew all --certs-dir="+s.Dir)

	for _, format := range []string{"json", "yaml"} {
		r := do(t, words("certs check-expiration -o "+format, s.Dir)...)
		var got expirations
		if err := yaml.Unmarshal([]byte(r.stdout), &got); err != nil || r.code != 0 || len(got.Certificates) != 4 ||
			len(got.Authorities) != 1 ||
			got.Certificates[0].Name != "server" || got.Certificates[0].Residual < 99*24*3600 ||
			got.Authorities[0].Fingerprint == "" {
			t.Errorf("%s: %v %+v", format, err, got)
		}
	}
	// The error is for programs too, and the list is there nevertheless.
	r = do(t, words("certs check-expiration --within=200d -o json", s.Dir)...)
	if !json.Valid([]byte(r.stdout)) || !json.Valid([]byte(r.stderr)) || r.code != 1 {
		t.Errorf("%+v", r)
	}
}

func TestCheckExpirationOfWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		change           func(*testing.T, certs.MachineSpec)
		code             int
		stdout           string // a pattern
		stderr, tip      string
		expired, nothing bool
	}{
		"expired": {expired: true, code: 1, stdout: `server .* expired 60m ago`, stderr: "server expired on",
			tip: "etcdadm certs renew all"},
		"missing": {change: func(t *testing.T, s certs.MachineSpec) { os.Remove(filepath.Join(s.Dir, "peer.crt")) },
			stdout: `peer +missing +- +- +no`},
		"garbage": {change: func(t *testing.T, s certs.MachineSpec) {
			os.WriteFile(filepath.Join(s.Dir, "peer.crt"), []byte("x"), 0o644)
		}, code: 1, stdout: `peer +unreadable`, stderr: "peer cannot be read", tip: "renew all"},
		"half a pair": {change: func(t *testing.T, s certs.MachineSpec) { os.Remove(filepath.Join(s.Dir, "peer.key")) },
			code: 1, stdout: `peer +20`, stderr: "peer cannot be used: the certificate exists, but not its key",
			tip: "renew all"},
		"external": {change: func(t *testing.T, s certs.MachineSpec) { os.Remove(filepath.Join(s.Dir, "ca.key")) },
			stdout: `server .* yes`},
		"external, expired": {change: func(t *testing.T, s certs.MachineSpec) { os.Remove(filepath.Join(s.Dir, "ca.key")) },
			expired: true, code: 1, stdout: `server .* yes`, stderr: "server expired",
			tip: "etcdadm certs generate-csr"},
		"no directory": {change: func(t *testing.T, s certs.MachineSpec) { os.RemoveAll(s.Dir) }, code: 1,
			stderr: "there is no certificate in", tip: "--certs-dir", nothing: true},
		"CA garbage": {change: func(t *testing.T, s certs.MachineSpec) {
			os.WriteFile(filepath.Join(s.Dir, "ca.crt"), []byte("x"), 0o644)
		}, code: 1, stdout: `ca +unreadable`, stderr: "ca cannot be read",
			tip: "compare ca.crt and ca.key"},
	} {
		t.Run(name, func(t *testing.T) {
			life := 0 * time.Second
			if c.expired {
				life = -1
			}
			s := made(t, "a", life)
			if c.change != nil {
				c.change(t, s)
			}
			r := do(t, words("certs check-expiration", s.Dir)...)
			r.want(t, c.code, "", c.stderr)
			r.want(t, c.code, "", c.tip)
			if !matches(c.stdout, r.stdout) || c.nothing != (r.stdout == "") {
				t.Errorf("no line %q in\n%s", c.stdout, r.stdout)
			}
		})
	}
}

func TestRemediesOfTheCA(t *testing.T) {
	for want, e := range map[string]certs.Expiry{
		"rotate-ca prepare --certs-dir=/x": {Name: "ca", Residual: 1}, "make a new authority": {
			Name: "ca", Residual: -1,
		}, "rotate-ca prepare": {Name: "ca-next", Residual: 1},
	} {
		if got := nextStep(e, "/x"); !strings.Contains(got, want) {
			t.Errorf("%q for %+v", got, e)
		}
	}
	if got := nextStep(certs.Expiry{Name: "server"}, "/etc/etcd/pki"); got != "etcdadm certs renew all" {
		t.Error(got)
	}
}

func TestFlagWithin(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d": 720 * time.Hour, "0d": 0, "1y": 8760 * time.Hour, "90m": 90 * time.Minute, "0": 0,
	} {
		var d days
		if err := d.Set(text); err != nil || time.Duration(d) != want {
			t.Errorf("%s is %s, %v", text, d.String(), err)
		}
	}
	for _, text := range []string{"", "d", "30", "-1h", "-1d", "1h30", "1.5d", "1000000d", "xd"} {
		if new(days).Set(text) == nil {
			t.Errorf("%q is taken", text)
		}
	}
	do(t, "certs", "check-expiration", "--within=soon").want(t, 2, "", `"soon" is not a duration such as 36h, 90d or 2y`)
}

func TestResidualTimes(t *testing.T) {
	for d, want := range map[time.Duration]string{
		3650 * 24 * time.Hour: "10y", 729 * 24 * time.Hour: "729d", 49 * time.Hour: "2d", 47 * time.Hour: "47h",
		119 * time.Minute: "119m", 0: "0m",
	} {
		if got := span(d); got != want {
			t.Errorf("%s: %s", d, got)
		}
	}
}

func TestRenew(t *testing.T) {
	s := made(t, "a", time.Hour)
	r := do(t, words("certs renew all", s.Dir)...)
	r.want(t, 0, "apiserver-etcd-client  20", "etcdadm kubeadm bundle --certs-dir="+s.Dir)
	if pkis := certs.ObserveMachine(certs.MachineSpec{Dir: s.Dir, Name: "a", Address: "127.0.0.1"},
		time.Now()); !pkis.Complete() {
		t.Errorf("%+v", pkis)
	}
	r = do(t, words("certs renew server peer --cert-lifetime=48h --server-cert-extra-sans=lb.example.com,10.1.1.1 -o json",
		s.Dir)...)
	var list renewal
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil || len(list.Renewed) != 2 ||
		time.Until(list.Renewed[0].NotAfter) > 48*time.Hour {
		t.Errorf("%v %+v", err, r)
	}
	all, err := certs.Expiries(s.Dir, time.Now())
	if err != nil || !slices.Contains(all[0].SANs, "lb.example.com") || !slices.Contains(all[0].SANs, "10.1.1.1") ||
		slices.Contains(all[1].SANs, "10.1.1.1") {
		t.Errorf("%v %+v", err, all)
	}
}

// With --within only what ends soon, or cannot be read, is renewed; what is missing stays so.
func TestRenewWithin(t *testing.T) {
	s := made(t, "a", 100*24*time.Hour)
	do(t, words("certs renew server --cert-lifetime=480h", s.Dir)...).want(t, 0, "server ", "")
	renewed := func(want ...string) {
		t.Helper()
		r := do(t, words("certs renew all --within=30d -o json", s.Dir)...)
		var list renewal
		if err := json.Unmarshal([]byte(r.stdout), &list); err != nil || r.code != 0 || list.Renewed == nil {
			t.Fatalf("%v %+v", err, r)
		}
		var names []string
		for _, one := range list.Renewed {
			names = append(names, one.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("renewed %v, want %v", names, want)
		}
	}
	do(t, words("certs renew all --within=10d", s.Dir)...).want(t, 0, "No certificate expires within 10d", "")
	do(t, words("certs renew peer --within=30d", s.Dir)...).want(t, 0, "No certificate expires within 30d", "")
	renewed("server")
	renewed()
	if err := os.WriteFile(filepath.Join(s.Dir, "etcdctl-etcd-client.crt"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(s.Dir, "apiserver-etcd-client.crt")); err != nil {
		t.Fatal(err)
	}
	r := do(t, words("certs renew all --within=30d --name=a --bind-address=127.0.0.1", s.Dir)...)
	r.want(t, 0, "etcdctl-etcd-client  -", "")
	if strings.Contains(r.stdout, "apiserver") || strings.Contains(r.stdout, "peer") {
		t.Errorf("%+v", r)
	}
	do(t, words("certs renew server --within=400d --cert-lifetime=480h", s.Dir)...).want(t, 1, "server ",
		"the new certificate of server expires within 400d as well")
	renewed("server")
	move(t, s.Dir+"/ca.key", s.Dir+"/x")
	renewed()
	do(t, words("certs renew all --within=2000d", s.Dir)...).want(t, 1, "", "ca.key is not on this machine")
	do(t, words("certs renew all --within=soon", s.Dir)...).want(t, 2, "", `"soon" is not a duration such as 36h, 90d or 2y`)
}

func TestRenewFailures(t *testing.T) {
	for name, c := range map[string]struct {
		args        string
		change      func(*testing.T, string)
		code        int
		stdout, err string
		tip         string
	}{
		"nothing named": {args: "renew", code: 2, err: "say which certificates: all, or server", tip: "renew all"},
		"unknown":       {args: "renew serer", code: 2, err: `no certificate "serer"`, tip: "the certificates are server"},
		"all and one":   {args: "renew all server", code: 2, err: `no certificate "all"`},
		"other name":    {args: "renew all --name=b", code: 1, err: "is of \"a\", not of \"b\"", tip: "omit --name"},
		"bad name":      {args: "renew server --server-cert-extra-sans=a:1", code: 2, err: "a:1"},
		"external": {args: "renew all", change: func(t *testing.T, dir string) { move(t, dir+"/ca.key", dir+"/x") },
			code: 1, err: "ca.key is not on this machine", tip: "etcdadm certs generate-csr --certs-dir="},
		"no CA": {args: "renew all", change: func(t *testing.T, dir string) {
			move(t, dir+"/ca.key", dir+"/x")
			move(t, dir+"/ca.crt", dir+"/y")
		}, code: 1, err: "there is no CA in",
			tip: "copy ca.crt and ca.key"},
		"nothing to copy from": {
			args: "renew peer", change: func(t *testing.T, dir string) { move(t, dir+"/peer.crt", dir+"/x") }, code: 1,
			err: "machine's address is missing", tip: "--bind-address=IP",
		},
		"no name to copy": {args: "renew peer --bind-address=127.0.0.1", change: func(t *testing.T, dir string) {
			for _, name := range certs.MachinePairs() {
				move(t, dir+"/"+name+".crt", dir+"/"+name+".x")
			}
		}, code: 1, err: "member's name is missing", tip: "--name=NAME"},
		"one of them": {args: "renew all", change: func(t *testing.T, dir string) {
			move(t, dir+"/peer.crt", dir+"/x")
			if err := os.Mkdir(dir+"/peer.crt", 0o755); err != nil {
				t.Fatal(err)
			}
		}, code: 1, stdout: "server", err: "peer.crt"},
	} {
		t.Run(name, func(t *testing.T) {
			s := made(t, "a", 0)
			if c.change != nil {
				c.change(t, s.Dir)
			}
			r := do(t, words("certs "+c.args, s.Dir)...)
			r.want(t, c.code, c.stdout, c.err)
			r.want(t, c.code, c.stdout, c.tip)
			if c.stdout == "" && r.stdout != "" {
				t.Errorf("stdout %q", r.stdout)
			}
		})
	}
}

// The loopback is no address by which others find the machine, so that a peer's
// certificate with nothing else does not show the address.
func TestGenerateCSR(t *testing.T) {
	dir, csrs := filepath.Join(t.TempDir(), "pki"), filepath.Join(t.TempDir(), "csr")
	do(t, words("certs generate-csr", dir)...).want(t, 1, "", "hint: name the member: --name=NAME")
	do(t, words("certs generate-csr --name=a", dir)...).want(t, 1, "",
		"hint: name the machine's address: --bind-address=IP")
	do(t, words("certs generate-csr --name=a --bind-address=0.0.0.0", dir)...).want(t, 1, "", "--bind-address=IP")
	if _, err := os.Stat(dir); err == nil {
		t.Error("something was written")
	}
	r := do(t, words("certs generate-csr --name=Node_1 --bind-address=10.0.0.1 --csr-dir="+csrs, dir)...)
	r.want(t, 0, filepath.Join(csrs, "server.csr"), "Have the requests signed")
	r.want(t, 0, "CN=Node_1-etcdctl,O=system:masters", `warning: the name "Node_1" has an underscore`)
	r.want(t, 0, "node_1,localhost,10.0.0.1,127.0.0.1,::1  serverAuth,clientAuth  "+filepath.Join(dir, "server.crt"), "")

	r = do(t, words("certs generate-csr server -o json --name=Node_1 --bind-address=10.0.0.1", dir)...)
	var list requests
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil || len(list.Requests) != 1 ||
		list.Requests[0].NewKey || list.Requests[0].File != filepath.Join(dir, "server.csr") {
		t.Errorf("%v %+v", err, r)
	}
	do(t, words("certs generate-csr ca", dir)...).want(t, 2, "", `no certificate "ca"`)

	// With certificates nothing has to be said.
	s := made(t, "a", 0)
	do(t, words("certs generate-csr", s.Dir)...).want(t, 0, "CN=a-kube-apiserver-etcd-client,O=system:masters", "")
}

func TestSomebodyElseIsAtWork(t *testing.T) {
	s := made(t, "a", 0)
	lock, err := hostfs.Lock(filepath.Join(s.Dir, ".certs.lock"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"renew all", "generate-csr", "rotate-ca prepare"} {
		do(t, words("certs "+line, s.Dir)...).want(t, 1, "",
			fmt.Sprintf("hint: another etcdadm is running; when process %d is done", os.Getpid()))
	}
	// Looking does not wait for anybody.
	for _, line := range []string{"check-expiration", "rotate-ca status"} {
		do(t, words("certs "+line, s.Dir)...).want(t, 0, "", "")
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
}

// The configuration file says what the flags say, and the flags go first.
func TestConfigurationFile(t *testing.T) {
	s := made(t, "a", 0)
	file := filepath.Join(t.TempDir(), "etcdadm.yaml")
	text := "apiVersion: " + configfile.APIVersion + "\nkind: " + configfile.Kind + "\npaths:\n  certificates: " + s.Dir +
		"\ncertificates:\n  lifetime: 100h\n  serverSANs: [from-file.example.com]\n  keyAlgorithm: RSA-2048\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(s.Dir, "server.key")); err != nil {
		t.Fatal(err)
	}
	do(t, "certs", "renew", "server", "--config="+file).want(t, 0, "server", "")
	all, err := certs.Expiries(s.Dir, time.Now())
	if err != nil || !slices.Contains(all[0].SANs, "from-file.example.com") || all[0].Left() > 100*time.Hour ||
		all[0].Left() < 99*time.Hour {
		t.Errorf("%v %+v", err, all[0])
	}
	if key := read(t, s.Dir, "server.key"); !strings.Contains(key, "RSA PRIVATE KEY") {
		t.Error("the new key is not RSA")
	}
	do(t, "certs", "renew", "server", "--config="+file, "--cert-lifetime=50h").want(t, 0, "server", "")
	if all, err := certs.Expiries(s.Dir, time.Now()); err != nil || all[0].Left() > 50*time.Hour {
		t.Errorf("%v %+v", err, all[0])
	}
	for _, line := range []string{
		"check-expiration", "renew all", "generate-csr", "rotate-ca prepare", "rotate-ca status",
	} {
		do(t, append(strings.Fields("certs "+line), "--config=/nowhere.yaml")...).want(t, 1, "", "/nowhere.yaml")
	}
	for _, line := range []string{"config", "bundle --out=-"} {
		do(t, append(strings.Fields("kubeadm "+line), "--config=/nowhere.yaml")...).want(t, 1, "", "/nowhere.yaml")
	}
}

func TestGroupsNeedACommand(t *testing.T) {
	do(t, "certs").want(t, 2, "", "certs needs a command: check-expiration, client, generate-csr, renew, rotate-ca, user")
	do(t, "certs", "renwe").want(t, 2, "", "did you mean etcdadm certs renew?")
	do(t, "certs", "rotate-ca").want(t, 2, "", "finish, issue, prepare, status")
	do(t, "kubeadm").want(t, 2, "", "bundle, config")
	for _, c := range []*cobra.Command{New(), NewKubeadm()} {
		for _, sub := range c.Commands() {
			if sub.Short == "" || strings.HasSuffix(sub.Short, ".") {
				t.Errorf("%s: %q", sub.Name(), sub.Short)
			}
		}
	}
}
