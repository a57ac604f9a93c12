package certs

import (
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"
)

// handshake connects a client to a server over a pipe and returns the client's
// state and error.
func handshake(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	a, b := net.Pipe()
	s := tls.Server(a, server)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Handshake()
		_ = a.Close()
	}()
	c := tls.Client(b, client)
	err := c.Handshake()
	state := c.ConnectionState()
	_ = b.Close()
	<-done
	return state, err
}

func anyNodeIdentity(t *testing.T, r *Renewer, dir string, name string, req Request) *Identity {
	t.Helper()
	id, err := r.Add(Source{Name: name, Dir: dir, CA: ManagerCA, Pair: Pair{Request: req}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func writeManagerCA(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	ca, err := NewCA(CASpec{CommonName: ManagerCA, Lifetime: time.Hour}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := ca.Write(dir, ManagerCA); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAnyNodeTLSAcceptsEveryNodeOfTheCA(t *testing.T) {
	dir := writeManagerCA(t)
	var r Renewer
	client := anyNodeIdentity(t, &r, dir, "client", ManagerClient("a"))
	server := anyNodeIdentity(t, &r, dir, "server", ManagerServer("b"))
	state, err := handshake(t, server.ServerTLS(), client.AnyNodeTLS())
	if err != nil {
		t.Fatal(err)
	}
	if node, err := ServerNode(state); err != nil || node != "b" {
		t.Errorf("the server is node %q, %v", node, err)
	}
}

func TestAnyNodeTLSRefusesOthers(t *testing.T) {
	dir := writeManagerCA(t)
	var r Renewer
	client := anyNodeIdentity(t, &r, dir, "client", ManagerClient("a"))

	t.Run("another CA", func(t *testing.T) {
		var other Renewer
		server := anyNodeIdentity(t, &other, writeManagerCA(t), "server", ManagerServer("b"))
		if _, err := handshake(t, server.ServerTLS(), client.AnyNodeTLS()); err == nil {
			t.Error("a server of another CA is accepted")
		}
	})
	t.Run("no node", func(t *testing.T) {
		server := anyNodeIdentity(t, &r, dir, "no-node", Request{
			CommonName: "somebody", DNSNames: []string{"somebody"}, Server: true,
		})
		if _, err := handshake(t, server.ServerTLS(), client.AnyNodeTLS()); !errors.Is(err, ErrNoPeer) {
			t.Errorf("error %v, want ErrNoPeer", err)
		}
	})
	t.Run("a client's certificate", func(t *testing.T) {
		server := anyNodeIdentity(t, &r, dir, "wrong-use", Request{
			CommonName: ManagerServerName("b"), DNSNames: []string{ManagerServerName("b")}, Client: true,
		})
		if _, err := handshake(t, server.ServerTLS(), client.AnyNodeTLS()); err == nil {
			t.Error("a certificate for clients serves")
		}
	})
}
