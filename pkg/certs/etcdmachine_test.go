package certs

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// A realNode is a machine with a real etcd.
type realNode struct {
	MachineSpec
	etcd *etcdtest.Member
}

func realMachine(t *testing.T, name cluster.NodeName) *realNode {
	t.Helper()
	n := &realNode{
		MachineSpec: MachineSpec{Dir: filepath.Join(t.TempDir(), "pki"), Name: name, Address: testport.Local},
		etcd:        etcdtest.New(t, string(name)),
	}
	n.etcd.SecurePeers(etcdtest.Pair{Cert: n.at("peer.crt"), Key: n.at("peer.key"), CA: n.at("ca.crt")})
	n.etcd.SecureClients(etcdtest.Pair{Cert: n.at("server.crt"), Key: n.at("server.key"), CA: n.at("ca.crt")})
	return n
}

// ask asks for the health with a pair of some machine, and returns the serial
// number of the certificate that etcd shows.
func (n *realNode) ask(ctx context.Context, trust, show MachineSpec, host string) (string, error) {
	config, err := ClientTLSFromFiles(trust.at("ca.crt"), show.at(EtcdctlPair+".crt"), show.at(EtcdctlPair+".key"))
	if err != nil {
		return "", err
	}
	config.ServerName = host
	client := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.etcd.ClientURL+"/health", nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct{ Health, Reason string }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return "", err
	}
	if answer.Health != "true" {
		return "", fmt.Errorf("health is %q: %s", answer.Health, answer.Reason)
	}
	return certSerial(resp.TLS), nil
}

// healthy waits until etcd answers its own machine's client.
func (n *realNode) healthy(t *testing.T) string {
	t.Helper()
	var serial string
	testwait.For(t, string(n.Name), func(ctx context.Context) (err error) {
		serial, err = n.ask(ctx, n.MachineSpec, n.MachineSpec, "")
		return err
	})
	return serial
}

func (n *realNode) rotate(t *testing.T, step RotationStep) Rotated {
	t.Helper()
	r, err := RotateCA(MachineSpec{Dir: n.Dir}, step, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func eachEtcd(t *testing.T, test func(ctx context.Context, t *testing.T, bin etcdbin.Binaries)) {
	t.Helper()
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		test(ctx, t, bin)
	})
}

// Two members whose names are no proper host names form a cluster, and answer
// clients that ask for those names. A renewal shows at the next handshake.
func TestRealEtcdWithUnusualNamesAndRenewal(t *testing.T) {
	eachEtcd(t, func(ctx context.Context, t *testing.T, bin etcdbin.Binaries) {
		a, b := realMachine(t, "Node_1"), realMachine(t, "b..B")
		if err := CreateMachineCA(a.MachineSpec, time.Now()); err != nil {
			t.Fatal(err)
		}
		copyFiles(t, a.MachineSpec, b.MachineSpec, "ca.crt", "ca.key")
		initial := "--initial-cluster=" + etcdtest.Initial(a.etcd, b.etcd)
		for _, n := range []*realNode{a, b} {
			if _, err := IssueMachine(n.MachineSpec, time.Now()); err != nil {
				t.Fatal(err)
			}
			n.etcd.Start(t, bin, initial)
		}
		before := a.healthy(t)
		b.healthy(t)
		for _, host := range []string{"Node_1", "node_1", "localhost", "127.0.0.1", "::1"} {
			testwait.For(t, "an answer as "+host, func(context.Context) error { // there may be an election
				_, err := a.ask(ctx, a.MachineSpec, b.MachineSpec, host)
				return err
			})
		}
		if _, err := RenewFiles(MachineSpec{Dir: a.Dir}, nil, time.Now()); err != nil {
			t.Fatal(err)
		}
		after := a.healthy(t)
		if cert := realCert(t, a, "server"); after == before || after != cert {
			t.Errorf("etcd shows %s after %s, the file has %s", after, before, cert)
		}
		// Also what the members say to each other: a restarted one gets in.
		b.etcd.Kill()
		b.etcd.Start(t, bin, initial)
		b.healthy(t)
	})
}

func realCert(t *testing.T, n *realNode, pair string) string {
	t.Helper()
	c, err := tls.LoadX509KeyPair(n.at(pair+".crt"), n.at(pair+".key"))
	if err != nil {
		t.Fatal(err)
	}
	return c.Leaf.SerialNumber.String()
}

// A rotation under a running etcd: it reads ca.crt when it starts and not
// again, so that the restarts that [Rotated.Restart] asks for are needed, and
// no other.
func TestRealEtcdRotation(t *testing.T) {
	eachEtcd(t, func(ctx context.Context, t *testing.T, bin etcdbin.Binaries) {
		n := realMachine(t, "a")
		if err := CreateMachineCA(n.MachineSpec, time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := IssueMachine(n.MachineSpec, time.Now()); err != nil {
			t.Fatal(err)
		}
		n.etcd.Start(t, bin)
		n.healthy(t)
		outside := realMachine(t, "old") // a client of the old CA, on another machine
		copyFiles(t, n.MachineSpec, outside.MachineSpec, "ca.crt", "ca.key")
		if _, err := IssueMachine(outside.MachineSpec, time.Now()); err != nil {
			t.Fatal(err)
		}

		if r := n.rotate(t, StepPrepare); !r.Restart {
			t.Errorf("%+v", r)
		}
		copyFiles(t, n.MachineSpec, outside.MachineSpec, "ca.crt") // as an API server is given both
		newcomer := realMachine(t, "new")
		copyFiles(t, n.MachineSpec, newcomer.MachineSpec, "ca.crt", "ca-next.crt", "ca-next.key")
		for _, ext := range []string{".crt", ".key"} {
			if err := os.Rename(newcomer.at("ca-next"+ext), newcomer.at("ca"+ext)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := IssueMachine(newcomer.MachineSpec, time.Now()); err != nil {
			t.Fatal(err)
		}
		fromNew := func() error { _, err := n.ask(ctx, n.MachineSpec, newcomer.MachineSpec, ""); return err }
		fromOld := func() error { _, err := n.ask(ctx, outside.MachineSpec, outside.MachineSpec, ""); return err }

		if fromNew() == nil {
			t.Error("etcd has read ca.crt again without a restart: the restart that prepare asks for is not needed")
		}
		n.etcd.Kill()
		n.etcd.Start(t, bin)
		n.healthy(t)
		if err := fromNew(); err != nil {
			t.Errorf("after the restart: %v", err)
		}
		if r := n.rotate(t, StepIssue); r.Restart {
			t.Errorf("%+v", r)
		}
		if shown := n.healthy(t); shown != realCert(t, n, "server") {
			t.Error("etcd does not show the new CA's certificate without a restart")
		}
		if err := fromOld(); err != nil {
			t.Errorf("an old client is cut off by issue: %v", err)
		}
		if r := n.rotate(t, StepFinish); !r.Restart {
			t.Errorf("%+v", r)
		}
		if err := fromOld(); err != nil {
			t.Errorf("etcd has read ca.crt again without a restart: %v", err)
		}
		n.etcd.Kill()
		n.etcd.Start(t, bin)
		n.healthy(t)
		if fromOld() == nil {
			t.Error("the old CA is still trusted after the last restart")
		}
	})
}
