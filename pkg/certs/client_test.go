package certs

import (
	"crypto/elliptic"
	"crypto/tls"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// today is a machine whose certificates are good at the real time.
func today(t *testing.T) MachineSpec {
	t.Helper()
	s := machine(t)
	s.Address = "127.0.0.1"
	if err := CreateMachineCA(s, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := IssueMachine(s, time.Now()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s MachineSpec) client(pair string) (*tls.Config, error) {
	return ClientTLSFromFiles(s.at("ca.crt"), s.at(pair+".crt"), s.at(pair+".key"))
}

// serverOf is what etcd makes of the server's pair.
func serverOf(t *testing.T, s MachineSpec) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(s.at("server.crt"), s.at("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := s.client(EtcdctlPair)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: client.RootCAs,
		ClientAuth: tls.RequireAndVerifyClientCert, SessionTicketsDisabled: true}
}

func TestClientTLSFromFilesTalksToTheServer(t *testing.T) {
	s := today(t)
	s.Name = "a"
	for _, pair := range []string{EtcdctlPair, APIServerPair} {
		client, err := s.client(pair)
		if err != nil {
			t.Fatal(err)
		}
		if client.MinVersion < tls.VersionTLS12 {
			t.Error("old TLS is allowed")
		}
		for _, host := range []string{"127.0.0.1", "::1", "localhost", "a", "A"} {
			client.ServerName = host
			if _, err := handshake(t, serverOf(t, s), client); err != nil {
				t.Errorf("%s to %s: %v", pair, host, err)
			}
		}
		client.ServerName = "10.0.0.9"
		if _, err := handshake(t, serverOf(t, s), client); err == nil {
			t.Error("a server is taken for another machine")
		}
	}
	// The client's certificate may be renewed while the configuration is in use.
	client, err := s.client(EtcdctlPair)
	if err != nil {
		t.Fatal(err)
	}
	client.ServerName = "localhost"
	before := certOf(t, s, EtcdctlPair)
	if _, err := RenewFiles(s, []string{EtcdctlPair}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := handshake(t, serverOf(t, s), client); err != nil {
		t.Error(err)
	}
	shown, err := client.GetClientCertificate(nil)
	if err != nil || shown.Leaf.Equal(before) || !shown.Leaf.Equal(certOf(t, s, EtcdctlPair)) {
		t.Errorf("the client shows the old certificate: %v", err)
	}
	other := today(t)
	if _, err := handshake(t, serverOf(t, other), client); err == nil {
		t.Error("a server of another CA is accepted")
	}
}

func TestClientTLSFromFilesSaysWhichFile(t *testing.T) {
	for name, c := range map[string]struct {
		change     func(MachineSpec)
		file, want string
		hint       string
	}{
		"no CA":      {func(s MachineSpec) { remove(t, s.at("ca.crt")) }, "ca.crt", "no such file", "copy the ca.crt"},
		"CA garbage": {func(s MachineSpec) { put(t, s.at("ca.crt"), nil) }, "ca.crt", "no certificate in it", "copy"},
		"no certificate": {func(s MachineSpec) { remove(t, s.at(EtcdctlPair+".crt")) }, EtcdctlPair + ".crt",
			"no such file", "etcdadm init phase certificates --certs-dir="},
		"garbage": {func(s MachineSpec) { put(t, s.at(EtcdctlPair+".crt"), []byte("x")) }, EtcdctlPair + ".crt",
			"no certificate in it", "init phase"},
		"no key": {func(s MachineSpec) { remove(t, s.at(EtcdctlPair+".key")) }, EtcdctlPair + ".key",
			"no such file", "init phase"},
		"key garbage": {func(s MachineSpec) { put(t, s.at(EtcdctlPair+".key"), []byte("x")) }, EtcdctlPair + ".key",
			"no private key", "init phase"},
		"key is directory": {func(s MachineSpec) {
			remove(t, s.at(EtcdctlPair+".key"))
			os.Mkdir(s.at(EtcdctlPair+".key"), 0o700)
		}, EtcdctlPair + ".key", "is a directory", "init phase"},
		"other key": {func(s MachineSpec) { put(t, s.at(EtcdctlPair+".key"), sec1(t, ecKey(t, elliptic.P256()))) },
			EtcdctlPair + ".crt", "does not match", "init phase"},
		"expired": {func(s MachineSpec) {
			remove(t, s.at("ca.crt"), s.at("ca.key"), s.at(EtcdctlPair+".crt"))
			mustCreate(t, s)
			s.Lifetime = time.Second
			if _, err := IssueMachine(s, now); err != nil {
				t.Fatal(err)
			}
		}, EtcdctlPair + ".crt", "expired on 2026-05-01 12:00:01 UTC", "etcdadm certs renew all"},
	} {
		t.Run(name, func(t *testing.T) {
			s := today(t)
			c.change(s)
			_, err := s.client(EtcdctlPair)
			var file *FileError
			if !errors.As(err, &file) || file.File != s.at(c.file) || !strings.Contains(err.Error(), s.at(c.file)) ||
				!strings.Contains(err.Error(), c.want) || !strings.Contains(file.Hint(), c.hint) {
				t.Errorf("%v, file %+v", err, file)
			}
		})
	}
	if hint := accessHint(os.ErrPermission, "x"); hint != "run it as root" {
		t.Error(hint)
	}
}
