package etcdproc

import (
	"context"
	"crypto/tls"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// secureEtcd returns the configuration of a member with certificates, and of its clients.
func secureEtcd(t testing.TB, version string) (Config, clientv3.Config) {
	t.Helper()
	bin, dir, now := etcdtest.Binaries(t, version), t.TempDir(), time.Now()
	ca, err := certs.NewCA(certs.CASpec{CommonName: "ca", Lifetime: time.Hour}, now)
	if err != nil {
		t.Fatal(err)
	}
	files := etcdconf.Files{
		CA: filepath.Join(dir, "ca.crt"), Cert: filepath.Join(dir, "a.crt"), Key: filepath.Join(dir, "a.key"),
	}
	leaf, _, err := certs.Pair{CertFile: files.Cert, KeyFile: files.Key, CAFile: files.CA, Request: certs.Request{
		CommonName: "a", IPs: []net.IP{net.ParseIP("127.0.0.1")}, Client: true, Server: true, Lifetime: time.Hour,
	}}.Ensure(ca, now)
	if err != nil {
		t.Fatal(err)
	}
	peer, client := "https://"+testport.Address(t), "https://"+testport.Address(t)
	env, err := etcdconf.Env(etcdconf.Member{
		Name: "a", Version: bin.Version, Token: "t", State: etcdconf.StateNew, DataDir: filepath.Join(dir, "data"),
		Peers:   []cluster.InitialMember{{Name: "a", PeerURLs: []string{peer}}},
		URLs:    cluster.URLs{Peer: []string{peer}, Client: []string{client}},
		Address: "127.0.0.1", TLS: &etcdconf.TLS{Peer: files, Client: files},
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Path: bin.Etcd, Env: env, ClientPorts: etcdconf.ClientPorts(env), PeerPorts: etcdconf.PeerPorts(env),
	}
	return cfg, clientv3.Config{
		Endpoints: []string{client},
		TLS:       &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca.Pool(), Certificates: []tls.Certificate{leaf.TLS()}},
	}
}

// BenchmarkStopWhileAClientWatches stops etcd, which waits for clients that watch.
func BenchmarkStopWhileAClientWatches(b *testing.B) {
	for _, version := range etcdtest.Versions {
		b.Run(version+"/waiting for it", func(b *testing.B) { stopWatched(b, version, false) })
		b.Run(version+"/cutting it off", func(b *testing.B) { stopWatched(b, version, true) })
	}
}

func stopWatched(b *testing.B, version string, cut bool) {
	cfg, to := secureEtcd(b, version)
	if !cut {
		cfg.ClientPorts = nil
	}
	s, err := New(b.Context(), Options{Dir: b.TempDir(), StopTimeout: testwait.Limit})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close(context.Background()) })
	for range b.N {
		b.StopTimer()
		if err := s.Start(b.Context(), cfg); err != nil {
			b.Fatal(err)
		}
		client := etcdtest.Open(b, to)
		etcdtest.AwaitRead(b, client)
		first, ok := <-client.Watch(b.Context(), "a", clientv3.WithCreatedNotify())
		if !ok || !first.Created {
			b.Fatalf("the watch begins with %+v", first)
		}
		b.StartTimer()
		if err := s.Stop(b.Context()); err != nil {
			b.Fatal(err)
		}
		if how := s.Status().LastExit; !strings.HasPrefix(how, "signal: terminated") &&
			!strings.HasPrefix(how, "exit status 0") {
			b.Errorf("etcd ended with %s", how)
		}
		b.StopTimer()
		_ = client.Close()
		b.StartTimer()
	}
}
