package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/discovery"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func TestWhatIsWrongWithLookingNearby(t *testing.T) {
	scan := func(text string) func(*Config) {
		return func(c *Config) { c.ScanRange = netip.MustParsePrefix(text) }
	}
	multicast := func(c *Config) { c.Multicast = true }
	for _, tc := range []struct {
		name   string
		change []func(c *Config)
		want   string
	}{
		{"both", []func(*Config){scan("10.0.0.0/24"), multicast}, ""},
		{"too large", []func(*Config){scan("10.0.0.0/16")}, "--discovery-scan: 10.0.0.0/16 has more than 1024 addresses"},
		{"scan without TLS", []func(*Config){scan("10.0.0.0/24"), func(c *Config) { c.Insecure = true }},
			"--discovery-scan needs TLS"},
		{"multicast without TLS", []func(*Config){multicast, func(c *Config) { c.Insecure = true }},
			"--discovery-multicast needs TLS"},
		{"nobody hears it", []func(*Config){multicast, func(c *Config) { c.Address = "127.0.0.1" }},
			"--discovery-multicast cannot work at --address 127.0.0.1"},
	} {
		c := config()
		for _, change := range tc.change {
			change(&c)
		}
		if err := c.Validate(); tc.want == "" && err != nil {
			t.Errorf("%s: %v", tc.name, err)
		} else if tc.want != "" {
			wantError(t, err, tc.want)
		}
	}
}

// provingDaemon is a daemon as far as it proves who it is.
func provingDaemon(t *testing.T, pki string, name cluster.NodeName) *Daemon {
	t.Helper()
	c := config()
	c.DataDir, c.PKIDir, c.EtcdInsecure = t.TempDir(), pki, true
	k, err := newKeys(c, name, time.Now)
	must(t, err)
	return &Daemon{c: c, name: name, keys: k, log: slog.New(slog.DiscardHandler)}
}

// Only another node of the same authority proves that it is one.
func TestWhoIsNearbyProvesItself(t *testing.T) {
	pki, other := newPKI(t, certs.ManagerCA), newPKI(t, certs.ManagerCA)
	self := provingDaemon(t, pki, "a")
	served := func(d *Daemon) func(net.Conn) {
		return func(c net.Conn) { _ = tls.Server(c, d.keys.server.ServerTLS()).Handshake() }
	}
	proved := func(err error) bool { return err == nil }
	not := func(err error) bool { return err != nil && !errors.Is(err, errSelf) }
	for name, tc := range map[string]struct {
		serve func(c net.Conn)
		ok    func(err error) bool
	}{
		"another node":        {served(provingDaemon(t, pki, "b")), proved},
		"this node":           {served(self), func(err error) bool { return errors.Is(err, errSelf) }},
		"another authority's": {served(provingDaemon(t, other, "b")), not},
		"no TLS":              {func(c net.Conn) { _, _ = c.Write([]byte("SSH-2.0-x\r\n")) }, not},
		"nothing":             {func(net.Conn) {}, not},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if c, err := l.Accept(); err == nil {
				tc.serve(c)
				t.Cleanup(func() { _ = c.Close() })
			}
		}()
		c, err := net.Dial("tcp", l.Addr().String())
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
		if name == "nothing" {
			cancel()
		}
		if err := self.proveNode(ctx, c); !tc.ok(err) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		_ = c.Close()
		_ = l.Close()
		<-ended
	}
}

// Where multicast is not to be had the daemon says so, and ends as always.
func TestMulticastThatIsNotToBeHad(t *testing.T) {
	var out syncBuffer
	c := &peerGroup{
		d:      &Daemon{log: slog.New(slog.NewTextHandler(&out, nil))},
		nearby: &discovery.Nearby{Self: netip.MustParseAddrPort("192.0.2.1:8000")},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := c.announce(ctx)
	cancel()
	ended()
	if got := out.String(); !strings.Contains(got, "it is tried again") ||
		!strings.Contains(got, "no interface of this machine has the address 192.0.2.1") {
		t.Errorf("said %q", got)
	}
}

// Daemons whose stores do not list each other are found by a scan, also one that
// comes later.
func TestDaemonsFindEachOtherByAScan(t *testing.T) {
	pki := newPKI(t, certs.ManagerCA)
	v := newTestCluster(t, "a b c d", func(c *Config) {
		c.Insecure, c.PKIDir = false, pki
		c.BackupStore = "file://" + filepath.Join(t.TempDir(), "store")
		c.DNSSuffix, c.HostsFile = "example.com", filepath.Join(t.TempDir(), "hosts")
		c.EtcdDirs = []string{t.TempDir()} // no etcd is started
	})
	v.nodes[3].config.ClusterName = "other" // with the same authority
	for _, r := range v.nodes {
		r.config.ScanRange = netip.MustParsePrefix(v.prefix + "8/29")
		must(t, os.WriteFile(r.config.HostsFile, nil, 0o600))
	}
	meet := func(all ...*testMember) {
		t.Helper()
		for _, r := range all {
			v.eventually("the hosts file of "+r.name, func(context.Context) error {
				b, err := os.ReadFile(r.config.HostsFile)
				for _, o := range all {
					if !strings.Contains(string(b), o.config.Address+"\t"+o.name+".example.com") {
						return fmt.Errorf("it has no %s, %w:\n%s", o.name, err, b)
					}
				}
				return nil
			})
		}
	}
	v.start(v.nodes[3])
	v.start(v.nodes[:2]...)
	meet(v.nodes[:2]...)
	v.start(v.nodes[2])
	meet(v.nodes[:3]...)
	for _, r := range v.nodes[:3] {
		if said := r.out.String(); strings.Contains(said, "cluster-name") {
			t.Errorf("%s gossips with another cluster: %s", r.name, said)
		}
	}
}
