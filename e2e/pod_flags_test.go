//go:build e2e

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// A kopsLine is one of the command lines that kops writes, with what comes of it. All are
// those of AWS but for what their flags say again.
type kopsLine struct {
	name  string
	etcd  harness.KopsEtcd
	flags []string
	env   []string
	// host is in the client URL, where it is not the node's.
	host string
	// http says that etcd has no TLS.
	http bool
	// ports are those that it opens besides kops' own.
	ports []string
	// more is what else comes of it.
	more func(t *testing.T, c *harness.Cluster, m *harness.Machine)
}

var kopsLines = []kopsLine{
	{name: "main", etcd: harness.KopsMain, flags: []string{"--v=10"}, env: []string{
		"ETCD_MANAGER_DAILY_BACKUPS_RETENTION=90d", "ETCD_MANAGER_HOURLY_BACKUPS_RETENTION=7d",
		"ETCD_LISTEN_METRICS_URLS=http://0.0.0.0:2382", "ETCD_LISTEN_CLIENT_HTTP_URLS=http://localhost:2385",
		"ETCD_QUOTA_BACKEND_BYTES=1234567890", "ETCD_METRICS=extensive", "ETCD_ENABLE_PPROF=true",
		// A proxy through which nothing comes.
		"http_proxy=http://127.0.0.1:9", "https_proxy=http://127.0.0.1:9", "no_proxy=127.0.0.1,localhost",
	}, ports: []string{"2382"}, more: mainServes},
	{name: "events without TLS", etcd: harness.KopsEvents, http: true, flags: []string{
		"--client-urls=http://__name__:4002", "--peer-urls=http://__name__:2381",
		"--quarantine-client-urls=http://__name__:3995", "--etcd-insecure=true",
	}, env: []string{"ETCD_HEARTBEAT_INTERVAL=150", "ETCD_ELECTION_TIMEOUT=1500"}, more: eventsServe},
	{name: "cilium", etcd: harness.KopsCilium, host: "api." + harness.KopsDomain, flags: []string{
		"--client-urls=https://api." + harness.KopsDomain + ":4003",
	}, env: []string{"ETCD_AUTO_COMPACTION_MODE=revision", "ETCD_AUTO_COMPACTION_RETENTION=2500"}, more: ciliumServes},
	{name: "leases, without pauses", etcd: harness.KopsLeases, flags: []string{
		"--backup-interval=0s", "--discovery-poll-interval=0s",
	}, env: []string{"ETCD_MANAGER_DAILY_BACKUPS_RETENTION=0d"}, more: backupsCome},
	{name: "main for API servers elsewhere", etcd: harness.KopsMain, host: "main.etcd." + harness.KopsDomain,
		flags: []string{
			"--client-urls=https://main.etcd." + harness.KopsDomain + ":4001",
			"--backup-interval=1h0m0s", "--discovery-poll-interval=1m15s",
		}},
}

// What comes of the command lines of kops, each in its pod: the ports, the names in URLs
// and certificates, with and without TLS, and the variables that etcd is given.
func TestKopsCommandLines(t *testing.T) {
	for _, line := range kopsLines {
		t.Run(line.name, func(t *testing.T) {
			c, machines := podMachines(t, line.etcd, "a")
			m := machines[0]
			m.Env = append(m.Env, line.env...)
			m.EtcdInsecure.Store(line.http)
			if line.host != "" {
				m.Host = line.host
			}
			c.SetSpec(1, v36)
			m.Pod(line.etcd.AWSArgs(c, line.flags...)...)
			c.WaitNames(harness.Soon, m.Name)
			line.urls(t, c, m)
			e := line.etcd
			want := []string{fmt.Sprint(e.Client), fmt.Sprint(e.Daemon), fmt.Sprint(e.Peer)}
			want = slices.Sorted(slices.Values(append(want, line.ports...)))
			eventually(t, c, "the ports of "+e.Name, func() error {
				open, err := m.Ports()
				if err == nil && !slices.Equal(open, want) {
					err = fmt.Errorf("they are %v, want %v", open, want)
				}
				return err
			})
			if line.more != nil {
				line.more(t, c, m)
			}
		})
	}
}

// urls holds the URLs that etcd has to the flags, and certificates to them.
func (l kopsLine) urls(t *testing.T, c *harness.Cluster, m *harness.Machine) {
	t.Helper()
	scheme, node := "https", m.Name+"."+harness.KopsDomain
	if l.http {
		scheme = "http"
	}
	host := node
	if l.host != "" {
		host = l.host
	}
	peer := fmt.Sprintf("%s://%s:%d", scheme, node, l.etcd.Peer)
	client := fmt.Sprintf("%s://%s:%d", scheme, host, l.etcd.Client)
	got := members(t, c)
	if len(got) != 1 || !slices.Equal(got[0].PeerURLs, []string{peer}) ||
		!slices.Equal(got[0].ClientURLs, []string{client}) {
		t.Errorf("etcd has %v, want %s and %s", got, peer, client)
	}
	pairs, err := filepath.Glob(m.Seen("/rootfs/mnt/*/pki/*/*/*.crt"))
	if err != nil || len(pairs) != 4 {
		t.Fatalf("the certificates are %v, %v", pairs, err)
	}
	for _, path := range pairs {
		if filepath.Base(path) != "ca.crt" {
			namesAre(t, path, m.Name, node, "127.0.0.1", "::1")
		}
		if filepath.Base(path) == "server.crt" {
			namesAre(t, path, host)
		}
	}
}

// namesAre holds a certificate to the names.
func namesAre(t *testing.T, path string, names ...string) {
	t.Helper()
	cert := certOf(t, path)
	for _, name := range names {
		if err := cert.VerifyHostname(name); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// certOf reads a certificate.
func certOf(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// get returns what a URL on the machine answers.
func get(t *testing.T, m *harness.Machine, url string) (int, string) {
	t.Helper()
	r, err := m.HTTP().Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	return r.StatusCode, string(b)
}

func mainServes(t *testing.T, c *harness.Cluster, m *harness.Machine) {
	_, metrics := get(t, m, "http://"+m.Address+":2382/metrics")
	for _, want := range []string{"etcd_server_quota_backend_bytes 1.23456789e+09", "grpc_server_handling_seconds_bucket"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s: %s", want, metrics[:min(len(metrics), 500)])
		}
	}
	for url, want := range map[string]int{
		"http://" + m.Address + ":2382/health": http.StatusOK, "http://localhost:2385/health": http.StatusOK,
		"http://localhost:2385/version": http.StatusOK, "http://localhost:2385/debug/pprof/cmdline": http.StatusOK,
	} {
		if code, text := get(t, m, url); code != want {
			t.Errorf("%s is %d %s", url, code, text)
		}
	}
	// A restore, by the lines of the page: the member is quarantined meanwhile.
	const page, heading, of = "docs/kops.md", "# kops", 2
	const theirs, example = "s3://kops-state/prod.example.com/backups/etcd/main", "2026-11-20T10:39:37Z-000001"
	lines := strings.Split(strings.TrimSpace(harness.Block(t, "..", page, heading, 1, of)), "\n")
	env := append(os.Environ(), "PATH="+c.Bin+":"+os.Getenv("PATH"))
	var backup string
	eventually(t, c, "a backup", func() error {
		out, err := shell(t, env, strings.ReplaceAll(lines[0], theirs, c.StoreURL()))
		for word := range strings.FieldsSeq(out) {
			if strings.Contains(word, "Z-") {
				backup = word
			}
		}
		if err == nil && backup == "" {
			err = fmt.Errorf("the backups are %q", out)
		}
		return err
	})
	// The daemon runs with what the page has, and more.
	line := strings.ReplaceAll(harness.Block(t, "..", page, heading, 0, of), "\\\n", " ")
	for _, arg := range strings.Fields(strings.ReplaceAll(line, theirs, "/rootfs"+c.Store))[1:] {
		if arg = strings.Replace(arg, "=/rootfs", "=file:///rootfs", 1); !slices.Contains(harness.KopsMain.AWSArgs(c), arg) {
			t.Errorf("the page has %s, which kops does not write", arg)
		}
	}
	c.Restored = true
	said := m.LogSize()
	if _, err := shell(t, env, strings.NewReplacer(theirs, c.StoreURL(), example, backup).Replace(lines[1])); err != nil {
		t.Fatal(err)
	}
	m.WaitSaid(harness.Soon, said, "configuring client listeners", ":3994")
	m.WaitSaid(harness.Soon, said, "configuring client listeners", ":4001")
	c.WaitNames(harness.Soon, m.Name)
}

func eventsServe(t *testing.T, c *harness.Cluster, m *harness.Machine) {
	if code, text := get(t, m, "http://"+m.Address+":4002/health"); code != http.StatusOK {
		t.Errorf("without TLS etcd answers %d %s", code, text)
	}
	m.WaitSaid(harness.Soon, 0, `"heartbeat-interval":"150ms"`, `"election-timeout":"1.5s"`)
	// The daemons' own port keeps its TLS.
	client := m.HTTP()
	client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	for _, scheme := range []string{"http", "https"} {
		_, err := client.Get(scheme + "://" + m.Address + ":3997/")
		if err == nil || scheme == "https" && !strings.Contains(err.Error(), "certificate required") {
			t.Errorf("the daemon's port answers %s with %v", scheme, err)
		}
	}
}

func ciliumServes(t *testing.T, c *harness.Cluster, m *harness.Machine) {
	m.WaitSaid(harness.Soon, 0, `"auto-compaction-mode":"revision"`, `"auto-compaction-retention":"2.5µs"`)
	hostsHave(t, c, m.Hosts(), nil, m.Address+"\t"+m.Name+"."+harness.KopsDomain)
	if b, err := os.ReadFile(m.Hosts()); err != nil || strings.Contains(string(b), "api."+harness.KopsDomain) {
		t.Errorf("the hosts file is %q, %v", b, err)
	}
}

// backupsCome waits for three backups. The default interval gives one in that time.
func backupsCome(t *testing.T, c *harness.Cluster, _ *harness.Machine) {
	eventually(t, c, "three backups", func() error {
		out, err := c.Ctl("list-backups")
		if err == nil && strings.Count(out, "Z-") < 3 {
			err = fmt.Errorf("the backups are %q", out)
		}
		return err
	})
}

// The pod of kops on a machine without a cloud: the operator has made the directory and the
// file in it, the store is in the container and ends with it.
func TestKopsPodOnMetal(t *testing.T) {
	t.Parallel()
	c := harness.New(t.Context(), t, podOptions(t))
	n := harness.KopsMain.Node(c, harness.KopsName+"--main--0")
	m := c.NewMachine(n, nil)
	m.Etcd(v36)
	m.HostsLines = n.Address + "\tnode0.main." + harness.KopsName + "\n"
	dir := m.File("disks/" + n.Name + "/mnt")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	request := filepath.Join(dir, "please-create-new-cluster")
	if err := os.WriteFile(request, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	args := harness.KopsMain.Args("file:///mnt/disks/backups",
		fmt.Sprintf(`--static-config={"etcdVersion":"%s","nodes":[{"id":"%s","ip":["node0.main.%s"]}]}`, v36, n.Name,
			harness.KopsName),
		"--volume-provider=external", "--volume-tag="+harness.KopsName+"--main--")
	m.Pod(args...)
	c.WaitNames(harness.Soon, n.Name)
	eventually(t, c, "the request is taken away", func() error {
		if _, err := os.Stat(request); err == nil {
			return fmt.Errorf("%s is there", request)
		}
		return nil
	})
	w := c.Write()
	w.WaitMore(harness.Soon, 5)
	m.Kill()
	gone(t, c, m)
	m.Pod(args...)
	w.WaitMore(harness.Soon, 5)
	c.WaitNames(harness.Soon, n.Name)
}
