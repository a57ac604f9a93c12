package certs

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// Two real members talk over certificates of the etcd profiles, answer a
// client with one, and after a renewal show new connections the new
// certificate without a restart.
func TestRealEtcdUsesAndReloadsCertificates(t *testing.T) {
	etcdtest.Each(t, testEtcd)
}

func testEtcd(t *testing.T, bin etcdbin.Binaries) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	for _, name := range []string{PeersCA, ClientsCA} {
		write(t, todaysCA(t, name), dir, name)
	}
	members := []*etcdMember{newMember(t, dir, "a"), newMember(t, dir, "b")}
	initial := "--initial-cluster=" + etcdtest.Initial(members[0].Member, members[1].Member)
	for _, m := range members {
		m.Start(t, bin, initial)
	}

	var r Renewer
	client, err := r.Add(Source{
		Name: "client", Dir: dir, CA: ClientsCA, Pair: Pair{Request: EtcdClient(EtcdClientName("a"))},
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	m := members[0]
	first := m.waitHealthy(t, client)
	if want := m.serving.Leaf().Cert.SerialNumber.String(); first != want {
		t.Fatalf("etcd shows serial %s, want %s", first, want)
	}
	if renewed, _, err := m.renewer.Renew(time.Now().Add(200 * 24 * time.Hour)); len(renewed) != 2 || err != nil {
		t.Fatalf("renewed %q, %v", renewed, err)
	}
	second := m.waitHealthy(t, client)
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
	*etcdtest.Member
	dir              string
	renewer          Renewer
	peering, serving *Identity
}

// newMember issues a member's certificates for 200 days.
func newMember(t *testing.T, dir, name string) *etcdMember {
	t.Helper()
	m := &etcdMember{Member: etcdtest.New(t, name), dir: filepath.Join(dir, name)}
	file := func(sub, name string) string { return filepath.Join(m.dir, sub, name) }
	m.SecurePeers(etcdtest.Pair{Cert: file("peers", "my.crt"), Key: file("peers", "my.key"), CA: file("peers", "ca.crt")})
	m.SecureClients(etcdtest.Pair{
		Cert: file("clients", "my.crt"), Key: file("clients", "my.key"), CA: file("clients", "ca.crt"),
	})
	urls := cluster.URLs{Client: []string{m.ClientURL}, Peer: []string{m.PeerURL}}
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
		id, err := m.renewer.Add(Source{Name: sub, Dir: dir, CA: ca,
			Pair: Pair{Request: r, CertFile: file(sub, "my.crt"), KeyFile: file(sub, "my.key"), CAFile: file(sub, "ca.crt")}},
			time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	m.peering, m.serving = hold(PeersCA, peer, "peers"), hold(ClientsCA, server, "clients")
	return m
}

// waitHealthy returns the serial number of the certificate that a healthy
// member shows.
func (m *etcdMember) waitHealthy(t *testing.T, id *Identity) string {
	t.Helper()
	var serial string
	testwait.For(t, "member "+m.Name, func(ctx context.Context) (err error) {
		serial, err = m.health(ctx, id)
		return err
	})
	return serial
}

func (m *etcdMember) health(ctx context.Context, id *Identity) (serial string, err error) {
	client := http.Client{Transport: &http.Transport{TLSClientConfig: id.ClientTLS(""), DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.ClientURL+"/health", nil)
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
