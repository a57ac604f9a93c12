package operate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// port listens at a port that the kernel gives, and does with each connection what serve
// does. It returns the URL.
func port(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				serve(c)
				_ = c.Close()
			}()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return "https://" + l.Addr().String()
}

// newPeers returns how the members of a new CA talk to each other.
func newPeers(t *testing.T) *tls.Config {
	t.Helper()
	conf, _ := newPeersOf(t)
	return conf
}

// newPeersOf returns the CA's certificate, too.
func newPeersOf(t *testing.T) (*tls.Config, *x509.Certificate) {
	t.Helper()
	ca, err := certs.NewCA(certs.CASpec{CommonName: "etcd", Lifetime: time.Hour}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Issue(certs.Request{CommonName: "a", Server: true, Client: true, Lifetime: time.Hour,
		IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: ca.Pool(), ClientCAs: ca.Pool(),
		ClientAuth: tls.RequireAndVerifyClientCert, Certificates: []tls.Certificate{leaf.TLS()},
	}, ca.Cert
}

// Peer ports that are closed, unreachable or of another CA are reported, each with its member; those
// that take a connection, of members that are down, and one's own are not.
func TestClosedPeerPortsAreReported(t *testing.T) {
	ours, theirs := newPeers(t), newPeers(t)
	speak := func(conf *tls.Config) func(net.Conn) {
		return func(c net.Conn) { _ = tls.Server(c, conf).Handshake() }
	}
	hung := make(chan struct{})
	t.Cleanup(func() { close(hung) })
	const closed = "https://127.0.0.1:1"
	open, other := port(t, speak(ours)), port(t, speak(theirs))
	unreachable := port(t, func(net.Conn) { <-hung })
	member := func(name cluster.NodeName, urls ...string) cluster.Member {
		return cluster.Member{ID: cluster.MemberID(len(name)), Name: name, PeerURLs: urls, Healthy: name != "down"}
	}
	members := []cluster.Member{
		member("open", open), member("closed", closed), member("other", other), member("two", closed, open),
		member("down", closed), member("self", closed), member("plain", strings.Replace(open, "https", "http", 1)),
	}
	got := triedPeers(t.Context(), ours, members, "self")
	if len(got) != 2 || got[0].Name != "closed" || got[1].Name != "other" {
		t.Fatalf("closed are %+v", got)
	}
	for i, why := range []string{"connection refused", "certificate"} {
		if !strings.Contains(got[i].Why, why) {
			t.Errorf("%s: %s, want %q", got[i].Name, got[i].Why, why)
		}
	}
	// One that takes connections and says nothing does not keep the check.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if got := triedPeers(ctx, ours, []cluster.Member{member("unreachable", unreachable)}, "self"); len(got) != 1 {
		t.Errorf("one that hangs: %+v", got)
	}

	found := fmt.Sprint(machine.Preflight(machine.Goal{Action: machine.Join}, machine.Defaults(),
		machine.Observation{Remote: machine.Remote{Answered: true, ClosedPeers: got}}))
	for _, want := range []string{"PeerPorts", "does not reach the peer port of member closed: ", "member other: "} {
		if !strings.Contains(found, want) {
			t.Errorf("no %q in %s", want, found)
		}
	}
}
