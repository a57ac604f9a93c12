package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/command/statuspage"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
)

// reader issues the certificate of a person who may only read.
func reader(t *testing.T, c *harness.Cluster) tls.Certificate {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pki")
	must(t, c.PKI.Install(dir))
	ca, err := certs.LoadCA(dir, certs.ManagerCA, time.Now())
	must(t, err)
	r, err := certs.Person("bob", certs.ReadOnly)
	must(t, err)
	r.Lifetime = time.Hour
	leaf, err := ca.Issue(r, time.Now())
	must(t, err)
	return leaf.TLS()
}

// browser returns what asks the metrics port of a node, which has to prove its name.
func browser(t *testing.T, c *harness.Cluster, n *harness.Node, own ...tls.Certificate) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(c.PKI.CAs[harness.ManagerCA].Cert)
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		RootCAs: roots, ServerName: certs.ManagerServerName(cluster.NodeName(n.Name)), Certificates: own,
		MinVersion: tls.VersionTLS12,
	}}
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// fetch returns the answer to a request for a page, with its body.
func fetch(t *testing.T, client *http.Client, url string) (*http.Response, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	answer, err := client.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	b, err := io.ReadAll(answer.Body)
	return answer, string(b), err
}

func pageOf(t *testing.T, client *http.Client, url string) (p statuspage.Page, err error) {
	t.Helper()
	answer, body, err := fetch(t, client, url+statuspage.JSONPath)
	if err != nil {
		return p, err
	}
	if answer.StatusCode != http.StatusOK {
		return p, fmt.Errorf("%s: %s", answer.Status, body)
	}
	return p, json.Unmarshal([]byte(body), &p)
}

// Each daemon serves the status page, to whom the daemons' authority knows and to nobody
// else, and it shows what is.
func TestStatusPageOfEachDaemon(t *testing.T) {
	t.Parallel()
	port := testport.Free(t)
	c := start(t, fmt.Sprintf("--etcd-manager-metrics-port=%d", port))
	c.Bootstrap(3, v36, "a", "b", "c")
	own := reader(t, c)
	at := func(scheme string, n *harness.Node) string { return fmt.Sprintf("%s://%s:%d", scheme, n.Address, port) }
	c.Eventually(harness.Soon, "all three show a healthy cluster", func(context.Context) error {
		for _, n := range c.Nodes() {
			p, err := pageOf(t, browser(t, c, n, own), at("https", n))
			if err != nil {
				return err
			}
			if p.Health != render.Healthy || string(p.Node) != n.Name || p.Leader == "" || len(p.Links) != 6 ||
				!strings.Contains(p.Coordinator, "term") || len(p.TimeLine) == 0 || p.Backups.Count == 0 ||
				p.Machines[0].CertificateLeft == nil {
				return fmt.Errorf("%s shows %+v", n.Name, p)
			}
		}
		return nil
	})
	a := c.Node("a")
	for path, code := range map[string]int{"/": 403, statuspage.JSONPath: 403, "/metrics": 200, "/healthz": 200} {
		answer, body, err := fetch(t, browser(t, c, a), at("http", a)+path)
		if err != nil || answer.StatusCode != code || code == 403 && !strings.Contains(body, "etcdadm dashboard") {
			t.Errorf("without TLS %s says %v %q, %v", path, answer, body, err)
		}
	}
	for what, pair := range map[string][]tls.Certificate{"none": nil, "one of etcd": {c.PKI.Client}} {
		if answer, _, err := fetch(t, browser(t, c, a, pair...), at("https", a)+"/"); err == nil {
			t.Errorf("with the certificate %s it answers %s", what, answer.Status)
		}
	}
	if answer, body, err := fetch(t, browser(t, c, a, own), at("https", a)+"/"); err != nil || answer.StatusCode != 200 ||
		!strings.Contains(body, "status.js") || answer.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("the page is %v %q, %v", answer, body, err)
	}

	// The coordinator goes: the others say so, and who coordinates then.
	gone := c.Coordinator()
	gone.Kill()
	for _, n := range c.Nodes() {
		if n == gone {
			continue
		}
		c.Eventually(harness.Soon, n.Name+" shows that "+gone.Name+" is gone", func(context.Context) error {
			p, err := pageOf(t, browser(t, c, n, own), at("https", n))
			if err != nil {
				return err
			}
			for _, m := range p.Machines {
				if string(m.Name) == gone.Name && !m.Answers && p.Health == render.Degraded &&
					strings.Contains(p.Coordinator, "term") && !strings.HasPrefix(p.Coordinator, gone.Name+" ") {
					return nil
				}
			}
			return fmt.Errorf("%s shows %+v", n.Name, p)
		})
	}
	if _, err := pageOf(t, browser(t, c, gone, own), at("https", gone)); err == nil {
		t.Error("the one that is gone still answers")
	}
}

// Without certificates the page is open, but not to a web site under another name.
func TestStatusPageWithoutCertificates(t *testing.T) {
	t.Parallel()
	port := testport.Free(t)
	o := options(t, fmt.Sprintf("--etcd-manager-metrics-port=%d", port))
	o.Insecure = true
	c := harness.New(t.Context(), t, o)
	c.Bootstrap(1, v36, "a")
	url := fmt.Sprintf("http://%s:%d", c.Node("a").Address, port)
	client := &http.Client{Timeout: time.Minute}
	c.Eventually(harness.Soon, "it shows a healthy cluster", func(context.Context) error {
		p, err := pageOf(t, client, url)
		if err == nil && p.Health != render.Healthy {
			err = errors.New(strings.Join(p.Because, ", "))
		}
		return err
	})
	for host, code := range map[string]int{
		"evil.example": 421, "evil.example:80": 421, "localhost:9": 200, "a": 200, "[::1]:9": 200,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/", nil)
		must(t, err)
		r.Host = host
		answer, err := client.Do(r)
		must(t, err)
		_ = answer.Body.Close()
		if answer.StatusCode != code {
			t.Errorf("for host %s it says %s", host, answer.Status)
		}
	}
}

// dashboardOf runs etcdadm dashboard until the test ends, and returns the URL that it prints.
func dashboardOf(t *testing.T, c *harness.Cluster, args ...string) string {
	t.Helper()
	url, _ := startDashboard(t, c, args...)
	return url
}

// startDashboard runs etcdadm dashboard until end is called, or the test ends.
func startDashboard(t *testing.T, c *harness.Cluster, args ...string) (url string, end func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(c.Bin, "etcdadm"), append([]string{"dashboard"}, args...)...)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	end = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(end)
	url, err = bufio.NewReader(out).ReadString('\n')
	must(t, err)
	return strings.TrimSpace(url), end
}

// etcdadm dashboard shows the page with a reader's certificate, and goes on to another
// daemon when one goes.
func TestDashboard(t *testing.T) {
	t.Parallel()
	port := testport.Free(t)
	c := start(t, fmt.Sprintf("--etcd-manager-metrics-port=%d", port))
	c.Bootstrap(3, v36, "a", "b", "c")
	dir := filepath.Join(t.TempDir(), "bob")
	pki := c.Node("a").InstallPKI()
	if _, err := c.Program("etcdadm", "certs", "user", "bob", "--role=read-only", "--pki-dir="+pki,
		"--out-dir="+dir); err != nil {
		t.Fatal(err)
	}
	nodes := "--nodes=" + c.Node("a").Endpoint() + "," + c.Node("b").Endpoint() + "," + c.Node("c").Endpoint()
	metrics := fmt.Sprintf("--metrics-port=%d", port)
	pair := []string{"--cert=" + dir + "/bob.crt", "--key=" + dir + "/bob.key", "--cacert=" + dir + "/bob-ca.crt"}
	client := &http.Client{Timeout: time.Minute}
	var page string
	for what, args := range map[string][]string{"a person's certificate": pair, "the authority": {"--pki-dir=" + pki}} {
		url := strings.TrimSuffix(dashboardOf(t, c, append([]string{nodes, metrics}, args...)...), "/")
		c.Eventually(harness.Soon, "it shows a healthy cluster with "+what, func(context.Context) error {
			p, err := pageOf(t, client, url)
			if err == nil && p.Health != render.Healthy {
				err = errors.New(strings.Join(p.Because, ", "))
			}
			return err
		})
		page = url
	}
	if out, err := c.Program("etcdadm", append([]string{"dashboard", nodes}, pair...)...); err == nil ||
		!strings.Contains(err.Error(), "--metrics-port") {
		t.Errorf("without a port, and daemons that have not the default one: %s, %v", out, err)
	}
	pair = append(pair, metrics, "--listen=0.0.0.0:0")
	if out, err := c.Program("etcdadm", append([]string{"dashboard", nodes}, pair...)...); err == nil ||
		!strings.Contains(err.Error(), "loopback") {
		t.Errorf("for all: %s, %v", out, err)
	}
	p, err := pageOf(t, client, page)
	must(t, err)
	c.Node(string(p.Node)).Kill()
	c.Eventually(harness.Soon, "another daemon serves it", func(context.Context) error {
		again, err := pageOf(t, client, page)
		if err == nil && (again.Node == p.Node || again.Health != render.Degraded) {
			err = fmt.Errorf("it is of %s, %s", again.Node, again.Health)
		}
		return err
	})
}
