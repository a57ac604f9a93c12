package certs

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/testport"
)

// etcdBinaries returns the etcd binaries to test with.
func etcdBinaries(t *testing.T) []string {
	t.Helper()
	dirs := os.Getenv("ETCDADM_ETCD_DIR")
	if dirs == "" {
		t.Skip("ETCDADM_ETCD_DIR is not set: no etcd to test with")
	}
	var found []string
	for _, dir := range filepath.SplitList(dirs) {
		paths, _ := filepath.Glob(filepath.Join(dir, "etcd-v*", "etcd"))
		found = append(found, paths...)
	}
	if len(found) == 0 {
		t.Fatalf("no etcd-v<version>/etcd in %s", dirs)
	}
	return found
}

// Two real members talk over certificates of the etcd profiles, answer a
// client with one, and after a renewal show new connections the new
// certificate without a restart.
func TestRealEtcdUsesAndReloadsCertificates(t *testing.T) {
	for _, binary := range etcdBinaries(t) {
		t.Run(filepath.Base(filepath.Dir(binary)), func(t *testing.T) {
			t.Parallel()
			testEtcd(t, binary)
		})
	}
}

func testEtcd(t *testing.T, binary string) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	dir := t.TempDir()
	for _, name := range []string{PeersCA, ClientsCA} {
		write(t, todaysCA(t, name), dir, name)
	}
	members := []*etcdMember{newMember(t, dir, "a"), newMember(t, dir, "b")}
	initial := members[0].initial() + "," + members[1].initial()
	for _, m := range members {
		m.start(ctx, t, binary, initial)
	}

	var r Renewer
	client, err := r.Add(Source{Name: "client", Dir: dir, CA: ClientsCA, Pair: Pair{Request: EtcdClient(EtcdClientName("a"))}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	m := members[0]
	first := m.waitHealthy(ctx, t, client)
	if want := m.serving.Leaf().Cert.SerialNumber.String(); first != want {
		t.Fatalf("etcd shows serial %s, want %s", first, want)
	}
	if renewed, _, err := m.renewer.Renew(time.Now().Add(200 * 24 * time.Hour)); len(renewed) != 2 || err != nil {
		t.Fatalf("renewed %q, %v", renewed, err)
	}
	second := m.waitHealthy(ctx, t, client)
	if want := m.serving.Leaf().Cert.SerialNumber.String(); second != want || second == first {
		t.Fatalf("after the renewal etcd shows serial %s, want %s", second, want)
	}

	stranger := newNode(t, todaysCA(t, "stranger"), "x")
	mixed := *stranger.client.current.Load()
	mixed.pool = client.Pool()
	intruder := &Identity{}
	intruder.current.Store(&mixed)
	if _, err := m.health(ctx, intruder); err == nil || !strings.Contains(err.Error(), "tls:") {
		t.Fatalf("a client of another CA got %v", err)
	}
}

type etcdMember struct {
	name, dir, client, peer string
	renewer                 Renewer
	peering, serving        *Identity
}

// newMember issues a member's certificates for 200 days.
func newMember(t *testing.T, dir, name string) *etcdMember {
	t.Helper()
	m := &etcdMember{name: name, dir: filepath.Join(dir, name), client: "https://" + testport.Address(t), peer: "https://" + testport.Address(t)}
	urls := cluster.URLs{Client: []string{m.client}, Peer: []string{m.peer}}
	peer, err := EtcdPeer(cluster.NodeName(name), urls, net.IPv4(127, 0, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	server, err := EtcdServer(cluster.NodeName(name), urls)
	if err != nil {
		t.Fatal(err)
	}
	hold := func(ca string, r Request, sub string) *Identity {
		r.Lifetime = 200 * 24 * time.Hour
		file := func(name string) string { return filepath.Join(m.dir, sub, name) }
		id, err := m.renewer.Add(Source{Name: sub, Dir: dir, CA: ca,
			Pair: Pair{Request: r, CertFile: file("my.crt"), KeyFile: file("my.key"), CAFile: file("ca.crt")}}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	m.peering, m.serving = hold(PeersCA, peer, "peers"), hold(ClientsCA, server, "clients")
	return m
}

func (m *etcdMember) initial() string { return m.name + "=" + m.peer }

func (m *etcdMember) start(ctx context.Context, t *testing.T, binary, initial string) {
	t.Helper()
	file := func(sub, name string) string { return filepath.Join(m.dir, sub, name) }
	cmd := exec.CommandContext(ctx, binary, "--name", m.name, "--data-dir", filepath.Join(m.dir, "data"), "--log-level", "panic",
		"--listen-client-urls", m.client, "--advertise-client-urls", m.client,
		"--listen-peer-urls", m.peer, "--initial-advertise-peer-urls", m.peer, "--initial-cluster", initial,
		"--peer-client-cert-auth", "--peer-trusted-ca-file", file("peers", "ca.crt"),
		"--peer-cert-file", file("peers", "my.crt"), "--peer-key-file", file("peers", "my.key"),
		"--client-cert-auth", "--trusted-ca-file", file("clients", "ca.crt"),
		"--cert-file", file("clients", "my.crt"), "--key-file", file("clients", "my.key"))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // "signal: killed"
	})
}

// waitHealthy returns the serial number of the certificate that a healthy
// member shows.
func (m *etcdMember) waitHealthy(ctx context.Context, t *testing.T, id *Identity) string {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		serial, err := m.health(ctx, id)
		if err == nil {
			return serial
		}
		select {
		case <-ctx.Done():
			t.Fatalf("member %s is not healthy: %v", m.name, err)
		case <-tick.C:
		}
	}
}

func (m *etcdMember) health(ctx context.Context, id *Identity) (serial string, err error) {
	client := http.Client{Transport: &http.Transport{TLSClientConfig: id.ClientTLS(""), DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.client+"/health", nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct{ Health string }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return "", err
	}
	if answer.Health != "true" {
		return "", fmt.Errorf("health is %q", answer.Health)
	}
	return certSerial(resp.TLS), nil
}

func certSerial(s *tls.ConnectionState) string { return s.PeerCertificates[0].SerialNumber.String() }
