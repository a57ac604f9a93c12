package certs

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A node is the two identities of a daemon, and its PKI directory.
type node struct {
	dir            string
	renewer        *Renewer
	server, client *Identity
}

// newNode makes a node with certificates of a CA that is valid today: TLS
// connections check the real clock.
func newNode(t *testing.T, ca *CA, name cluster.NodeName) node {
	t.Helper()
	n := node{dir: t.TempDir(), renewer: &Renewer{}}
	write(t, ca, n.dir, ManagerCA)
	hold := func(r Request) *Identity {
		id, err := n.renewer.Add(Source{Name: r.CommonName, Dir: n.dir, CA: ManagerCA, Pair: Pair{Request: r}}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	n.server, n.client = hold(ManagerServer(name)), hold(ManagerClient(name))
	return n
}

func todaysCA(t *testing.T, name string) *CA {
	t.Helper()
	ca, err := NewCA(CASpec{CommonName: name, Lifetime: year}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// serve answers each line on each connection with the name of the other end.
func serve(t *testing.T, config *tls.Config) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		answered := make(chan struct{}, 100)
		for {
			c, err := l.Accept()
			if err != nil {
				break
			}
			conns = append(conns, c)
			go func() {
				answer(c.(*tls.Conn))
				answered <- struct{}{}
			}()
		}
		for _, c := range conns {
			c.Close()
			<-answered
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func answer(c *tls.Conn) {
	defer c.Close()
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		owner, err := PeerOwner(c.ConnectionState())
		if err != nil {
			owner.Name = cluster.NodeName(err.Error())
		}
		if _, err := c.Write([]byte(owner.Name + "\n")); err != nil {
			return
		}
	}
}

// dial connects and returns the connection if both ends accept each other.
// With TLS 1.3 a client learns only from an answer that it was let in.
func dial(t *testing.T, address string, config *tls.Config) (*tls.Conn, error) {
	t.Helper()
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Minute}, "tcp", address, config)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close() })
	_, err = ask(c)
	return c, err
}

func ask(c *tls.Conn) (string, error) {
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return "", err
	}
	if _, err := c.Write([]byte("who am I?\n")); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line), err
}

func serial(c *tls.Conn) string {
	return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

func TestServerKnowsWhoCalls(t *testing.T) {
	ca := todaysCA(t, "ca")
	a, b := newNode(t, ca, "a"), newNode(t, ca, "b")
	address := serve(t, a.server.ServerTLS())
	c, err := dial(t, address, b.client.ClientTLS(ManagerServerName("a")))
	if err != nil {
		t.Fatal(err)
	}
	if name, err := ask(c); name != "b" || err != nil {
		t.Fatalf("the server thinks that b is %q, %v", name, err)
	}
}

// Renewal, and the rotation of the CA, with a listener, a configuration and a
// connection that all live through it.
func TestRenewalAndRotationUnderAListener(t *testing.T) {
	older, newer := todaysCA(t, "older"), todaysCA(t, "newer")
	a, b := newNode(t, older, "a"), newNode(t, older, "b")
	address := serve(t, a.server.ServerTLS())
	call := b.client.ClientTLS(ManagerServerName("a"))
	first, err := dial(t, address, call)
	if err != nil {
		t.Fatal(err)
	}
	last := serial(first)
	rotate := func(n node, ca *CA) {
		t.Helper()
		write(t, ca, n.dir, ManagerCA)
		if renewed, _, err := n.renewer.Renew(time.Now()); len(renewed) != 2 || err != nil {
			t.Fatalf("renewed %q, %v", renewed, err)
		}
	}
	expect := func(what string, works bool) {
		t.Helper()
		c, err := dial(t, address, call)
		if (err == nil) != works {
			t.Fatalf("%s: %v", what, err)
		}
		if err == nil && works {
			last = serial(c)
		}
		if name, err := ask(first); name != "b" || err != nil {
			t.Fatalf("%s: the first connection is broken: %v", what, err)
		}
	}
	expect("as before", true)
	before := last
	rotate(a, older.With(newer))
	expect("a trusts both", true)
	if last == before {
		t.Fatal("a new connection sees the old certificate")
	}
	rotate(b, newer)
	expect("b trusts only the new one, a still shows the old one", false)
	rotate(a, newer.With(older))
	expect("a shows the new one", true)
	rotate(b, older)
	expect("b is back with the old one, and trusts no other", false)
	rotate(b, newer)
	rotate(a, newer)
	expect("the old one is gone", true)
	rotate(b, older)
	expect("b is back with the old one", false)
}

func TestHandshakesThatMustFail(t *testing.T) {
	ca, stranger := todaysCA(t, "ca"), todaysCA(t, "stranger")
	impostor := todaysCA(t, "ca") // same name, other key
	a, b := newNode(t, ca, "a"), newNode(t, ca, "b")
	strange := newNode(t, stranger, "b")
	wrong := newNode(t, impostor, "b")
	past, err := NewCA(CASpec{CommonName: "ca", Lifetime: 10 * year}, time.Now().Add(-3*year))
	if err != nil {
		t.Fatal(err)
	}
	// expired returns an identity whose certificate of a valid CA is over.
	expired := func(r Request) (*Identity, node) {
		n := newNode(t, past, "old")
		leaf, err := past.Issue(r, time.Now().Add(-3*year+time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		id := &Identity{}
		id.set(past, leaf)
		return id, n
	}
	oldServer, pastNode := expired(ManagerServer("a"))
	oldClient, _ := expired(ManagerClient("b"))
	noCert := b.client.ClientTLS(ManagerServerName("a"))
	noCert.GetClientCertificate = nil

	for name, c := range map[string]struct {
		server *tls.Config
		client *tls.Config
		want   string
	}{
		"client of another CA": {
			a.server.ServerTLS(), withPoolOf(strange.client, a.client), "unknown certificate authority",
		},
		"client of an impostor": {
			a.server.ServerTLS(), withPoolOf(wrong.client, a.client), "unknown certificate authority",
		},
		"client without certificate": {a.server.ServerTLS(), noCert, "certificate required"},
		"client with a server's":     {a.server.ServerTLS(), withPoolOf(b.server, a.client), "bad certificate"},
		"client's has expired": {
			pastNode.server.ServerTLS(), oldClient.ClientTLS(ManagerServerName("old")), "expired certificate",
		},
		"server of another CA": {
			a.server.ServerTLS(), strange.client.ClientTLS(ManagerServerName("a")), "unknown authority",
		},
		"server of an impostor": {
			a.server.ServerTLS(), wrong.client.ClientTLS(ManagerServerName("a")), "unknown authority",
		},
		"server of another name": {
			a.server.ServerTLS(), b.client.ClientTLS(ManagerServerName("b")),
			"valid for etcd-manager-server-a, not etcd-manager-server-b",
		},
		"server's has expired": {
			oldServer.ServerTLS(), pastNode.client.ClientTLS(ManagerServerName("a")), "has expired",
		},
		"server with a client's": {
			a.client.ServerTLS(), b.client.ClientTLS("etcd-manager-client-a"), "use SANs instead",
		},
		"server that is not for that": {
			withUsage(t, ca, Request{CommonName: "x", DNSNames: []string{"x"}, Client: true}), b.client.ClientTLS("x"),
			"incompatible key usage",
		},
		"usual check, address not in": {a.server.ServerTLS(), b.client.ClientTLS(""), "127.0.0.1"},
		"old TLS": {
			a.server.ServerTLS(), &tls.Config{
				InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11,
			}, "protocol version",
		},
		"name changed behind its back": {
			a.server.ServerTLS(), renamed(b.client.ClientTLS(ManagerServerName("b")), ManagerServerName("a")),
			"not etcd-manager-server-b",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := dial(t, serve(t, c.server), c.client)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
		})
	}
}

// withPoolOf is a client that shows the certificate of one identity and trusts
// what another trusts, so that only the server can object.
func withPoolOf(shows, trusts *Identity) *tls.Config {
	mixed := &Identity{}
	s := *shows.current.Load()
	s.pool = trusts.Pool()
	mixed.current.Store(&s)
	return mixed.ClientTLS(ManagerServerName("a"))
}

func withUsage(t *testing.T, ca *CA, r Request) *tls.Config {
	t.Helper()
	leaf, err := ca.Issue(r, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	id := &Identity{}
	id.set(ca, leaf)
	return id.ServerTLS()
}

func renamed(c *tls.Config, name string) *tls.Config {
	c.ServerName = name
	return c
}

func TestUsualCheckOfTheDialledHost(t *testing.T) {
	ca := todaysCA(t, "ca")
	b := newNode(t, ca, "b")
	r, err := EtcdServer("a", cluster.URLs{Client: []string{"https://127.0.0.1:4001"}})
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, withUsage(t, ca, r))
	if _, err := dial(t, address, b.client.ClientTLS("")); err != nil {
		t.Fatal(err)
	}
	stranger := newNode(t, todaysCA(t, "stranger"), "b")
	if _, err := dial(t, address, stranger.client.ClientTLS("")); err == nil ||
		!strings.Contains(err.Error(), "unknown authority") {
		t.Fatalf("got %v", err)
	}
}

func TestVerifyServerWithoutCertificate(t *testing.T) {
	if err := verifyServer(tls.ConnectionState{}, x509.NewCertPool(), "a"); err == nil {
		t.Fatal("accepted")
	}
}

func TestNoSessionIsResumed(t *testing.T) {
	ca := todaysCA(t, "ca")
	a, b := newNode(t, ca, "a"), newNode(t, ca, "b")
	address := serve(t, a.server.ServerTLS())
	config := b.client.ClientTLS(ManagerServerName("a"))
	config.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	for range 2 {
		c, err := dial(t, address, config)
		if err != nil {
			t.Fatal(err)
		}
		if c.ConnectionState().DidResume {
			t.Fatal("a session was resumed: its certificate was not verified again")
		}
	}
}

func TestRSAAndECDSANodesTalk(t *testing.T) {
	ca := todaysCA(t, "ca")
	a, b := newNode(t, ca, "a"), newNode(t, ca, "b")
	leaf, err := ca.issue(ManagerServer("a"), rsaKey(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	a.server.set(ca, leaf)
	if _, err := dial(t, serve(t, a.server.ServerTLS()), b.client.ClientTLS(ManagerServerName("a"))); err != nil {
		t.Fatal(err)
	}
}
