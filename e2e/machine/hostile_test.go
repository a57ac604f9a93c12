//go:build e2e

package machine

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
)

// A join with the certificate authority of another cluster says so, adds nobody, and does
// not wait: nobody will accept it later.
func TestJoinWithAnotherCA(t *testing.T) {
	t.Parallel()
	a, b := strange(t)
	other := newHost(t, "other", v36)
	other.ok("init", "--skip-phases=start,health")
	b.copyCA(other)
	began := time.Now()
	b.fails(1, []string{"cluster-unreachable", "which is not in this machine's CA file", "hint: ", b.path("pki")},
		"join", "--membership-timeout=10m", a.clientURL())
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %s", took)
	}
	a.alone()
	b.nothing()
	// With the right one it goes on: the certificates are issued again.
	b.copyCA(a)
	b.ok("join", a.clientURL())
	b.wantVoters("a", "b")
}

// reissue gives the host a server's certificate of another time.
func (h *host) reissue(notBefore, notAfter time.Time) {
	h.t.Helper()
	pair, err := tls.LoadX509KeyPair(h.path("pki", "ca.crt"), h.path("pki", "ca.key"))
	if err != nil {
		h.t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		h.t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		h.t.Fatal(err)
	}
	cert, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: h.name}, NotBefore: notBefore, NotAfter: notAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{
			x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth,
		},
		DNSNames: []string{h.name, "localhost"}, IPAddresses: []net.IP{net.ParseIP(h.address)},
	}, pair.Leaf, &key.PublicKey, pair.PrivateKey)
	if err != nil {
		h.t.Fatal(err)
	}
	h.write(h.path("pki", "server.key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), 0o600)
	h.write(h.path("pki", "server.crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})), 0o644)
}

// A member whose certificates are over, or not valid yet, is named with the
// reason by whoever asks it.
func TestJoinAMemberWithBadCertificates(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		shift time.Duration
		words string
	}{
		"expired":       {-48 * time.Hour, "expired since"},
		"not valid yet": {48 * time.Hour, "not valid before"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := strange(t)
			at := time.Now().Add(tt.shift)
			a.reissue(at, at.Add(24*time.Hour)) // etcd takes it with the next handshake
			b.fails(1, []string{"cluster-unreachable", tt.words, "clock"}, quick(a.clientURL())...)
			b.nothing()
			// The command on the machine itself fixes it.
			a.ok("init")
			b.ok("join", a.clientURL())
			b.wantVoters("a", "b")
		})
	}
}

// A certificate authority that has expired, or is not valid yet, stops init and
// join before they do anything.
func TestBadCA(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		shift time.Duration
		words string
	}{
		"expired":       {-100 * 24 * time.Hour, "expired"},
		"not valid yet": {48 * time.Hour, "valid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, "a", v36)
			spec := certs.MachineSpec{
				Dir: h.path("pki"), Name: "a", Address: h.address, CALifetime: 24 * time.Hour, Lifetime: time.Hour,
			}
			if err := certs.CreateMachineCA(spec, time.Now().Add(tt.shift)); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"init", "--membership-timeout=10s"}, quick("https://127.0.0.1:1")} {
				h.unchanged(args[0], func() {
					h.fails(3, []string{"CAValidity", tt.words, "hint: "}, args...)
				})
			}
			h.nothing()
		})
	}
}

// hang listens, accepts, and says nothing.
func hang(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
		}
	}()
	return "https://" + l.Addr().String()
}

// Endpoints that hang, refuse, or speak something else hold nobody up where
// another one answers; alone they are named.
func TestEndpointsThatAreNone(t *testing.T) {
	t.Parallel()
	a, b := strange(t)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { plain.Close() })
	go func() {
		for {
			c, err := plain.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "220 mail.example ESMTP\r\n")
			c.Close()
		}
	}()
	hanging, closed, mail := hang(t), "https://"+testport.Address(t), "https://"+plain.Addr().String()
	for _, endpoint := range []string{hanging, closed, mail} {
		r := b.fails(1, []string{"cluster-unreachable", strings.TrimPrefix(endpoint, "https://")}, quick(endpoint)...)
		if strings.Contains(r.stderr, "deadline exceeded") {
			t.Errorf("%s is not explained: %s", endpoint, r)
		}
	}
	a.alone()
	b.nothing()
	began := time.Now()
	b.ok("join", strings.Join([]string{hanging, closed, mail, a.clientURL()}, ","))
	with := time.Since(began)
	c := newHost(t, "c", v36)
	c.copyCA(a)
	began = time.Now()
	c.ok("join", a.clientURL())
	if without := time.Since(began); with > max(15*time.Second, 5*without) {
		t.Errorf("with the endpoints that do not answer it has taken %s, without them %s", with, without)
	}
	b.wantVoters("a", "b", "c")
}

// A learner knows nothing of its cluster that is for sure: as the only endpoint
// it is refused, and beside another it does no harm.
func TestLearnerAsEndpoint(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 3)
	a, b, c := hosts[0], hosts[1], hosts[2]
	a.ok("init")
	a.put("before", "anything")
	b.copyCA(a)
	c.copyCA(a)
	b.ok("join", "--skip-phases=health", a.clientURL()) // the phase that promotes it
	eventually(t, commandTime, "the learner to serve", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), askTime)
		defer cancel()
		_, err := b.client(b).Status(ctx, b.clientURL())
		return err
	})
	c.fails(1, []string{"cluster-unreachable", "learner"}, quick(b.clientURL())...)
	c.nothing()
	b.ok("join", a.clientURL())
	c.ok("join", b.clientURL()+","+a.clientURL())
	c.wantVoters("a", "b", "c")
}

// slow returns an endpoint behind which another one is, at the end of a line
// that takes its time.
func slow(t *testing.T, h *host, delay time.Duration) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	t.Cleanup(conns.Wait)
	t.Cleanup(func() { l.Close() })
	to := strings.TrimPrefix(h.clientURL(), "https://")
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			time.AfterFunc(delay, func() {
				defer conns.Done()
				relay(c, to)
			})
		}
	})
	return "https://" + l.Addr().String()
}

// Endpoints of two clusters: nobody can know which one is meant, also where one
// of the two takes long to answer.
func TestEndpointsOfTwoClusters(t *testing.T) {
	t.Parallel()
	a, b := strange(t)
	other := newHost(t, "other", v36)
	other.copyCA(a)
	other.ok("init")
	for _, list := range []string{
		a.clientURL() + "," + other.clientURL(), other.clientURL() + "," + a.clientURL(),
		a.clientURL() + "," + slow(t, other, 300*time.Millisecond),
		a.clientURL() + "," + slow(t, other, 1200*time.Millisecond), // for each connection, of which there are two
	} {
		r := b.run(quick(list)...)
		if r.code == 0 || !strings.Contains(r.stderr, "different clusters") {
			t.Errorf("endpoints of two clusters are taken: %s", r)
			break
		}
	}
	a.alone()
	other.wantVoters("other")
	b.nothing()
}

// A cluster without a quorum takes nobody, and the machine that leaves it is
// reported how.
func TestWithoutQuorum(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 3)
	a, b, c := hosts[0], hosts[1], hosts[2]
	found(a, b)
	c.copyCA(a)
	b.kill()
	c.fails(1, []string{"cluster-unreachable", "no leader", "hint: "}, quick(a.clientURL())...)
	c.nothing()
	a.fails(1, []string{"cluster-unreachable", "--skip-remove-member"}, "reset", "--membership-timeout=10s", "--endpoints",
		a.clientURL())
	if !exists(a.path("data", "member")) {
		t.Error("a has lost its data")
	}
	a.fails(1, []string{"cluster-unreachable"}, "remove", "--membership-timeout=10s", "b")
	// b comes back, and all is as it was.
	b.boot()
	c.ok("join", a.clientURL())
	c.wantVoters("a", "b", "c")
}

// The member that the quorum needs is not removed, also not by force, and does
// not leave.
func TestTheQuorumNeedsIt(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 3)
	found(hosts...)
	a, b, c := hosts[0], hosts[1], hosts[2]
	a.put("before", "anything")
	eventually(t, commandTime, "all members to be well", a.seesAll)
	a.fails(3, []string{"member-healthy"}, "remove", "c")
	c.kill()
	a.fails(5, []string{"quorum-margin", "hint: "}, "remove", "--membership-timeout=10s", "--force", "b")
	b.fails(5, []string{"quorum-margin", "hint: "}, "reset")
	a.wantVoters("a", "b", "c")
	b.wantVoters("a", "b", "c")
	// Nor is it restarted for another setting.
	b.fails(5, []string{"quorum-margin"}, "join", "--membership-timeout=10s", "--quota-backend-bytes=1000000000",
		a.clientURL())
	b.put("before", "anything else")
	a.ok("remove", "c")
	a.wantVoters("a", "b")
}

// stub returns a directory with the binaries of a version whose etcd, when it is
// to run, does what the lines of sh say.
func stub(t *testing.T, version, lines string) string {
	t.Helper()
	dir, from := t.TempDir(), etcdDir(t, version)
	for _, name := range []string{"etcdctl", "etcdutl"} {
		if err := os.Symlink(filepath.Join(from, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *version*) exec %s/etcd --version;; esac\n%s\n", from, lines)
	if err := os.WriteFile(filepath.Join(dir, "etcd"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A join whose etcd does not come up is undone, and says so; with a good
// etcd the same command works then.
func TestJoinThatCannotFinish(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lines string
		args  []string
		words []string
	}{
		"etcd ends":        {"echo nobody home; exit 3", nil, []string{"nobody home", "exit status 3"}},
		"etcd never ready": {"exec sleep 1000", []string{"--start-timeout=3s"}, []string{"does not serve within 3s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := strange(t)
			good := b.binaries
			b.binaries = stub(t, v36, tt.lines)
			b.fails(1, append(tt.words, "was undone", "hint: "), append([]string{"join", a.clientURL()}, tt.args...)...)
			a.alone()
			b.nothing()
			if exists(b.at("data.etcdadm.json")) {
				t.Errorf("b remembers a join that was undone: %s", b.read(b.at("data.etcdadm.json")))
			}
			if err := os.RemoveAll(b.path("bin")); err != nil { // of the right version, as far as anybody can see
				t.Fatal(err)
			}
			b.binaries = good
			b.ok("join", a.clientURL())
			b.wantVoters("a", "b")
			wantKeys(map[string]string{"before": "anything"}, b)
		})
	}
}

// A learner that cannot reach the others never catches up.
func TestLearnerThatCannotCatchUp(t *testing.T) {
	t.Parallel()
	a, b := strange(t)
	// b's own certificate for its peers is nothing to a: of another authority,
	// under a name that a looks for.
	b.ok("join", "--skip-phases=stop,membership,configure,start,etcdctl,health", a.clientURL())
	foreign, err := certs.NewCA(certs.CASpec{CommonName: "etcd"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	wrapped := "ETCD_PEER_TRUSTED_CA_FILE=" + b.path("foreign.crt") + " exec " + filepath.Join(b.binaries, "etcd")
	b.write(b.path("foreign.crt"), string(foreign.PEM()), 0o644)
	good := b.binaries
	b.binaries = stub(t, v36, wrapped)
	if err := os.RemoveAll(b.path("bin")); err != nil {
		t.Fatal(err)
	}
	r := b.run("join", "--start-timeout=8s", "--promotion-timeout=5s", "--membership-timeout=60s", a.clientURL())
	if r.code == 0 || !strings.Contains(r.stderr, "was undone") {
		t.Errorf("a join that cannot finish is not undone: %s", r)
	}
	a.alone()
	b.nothing()
	b.binaries = good
	if err := os.RemoveAll(b.path("bin")); err != nil {
		t.Fatal(err)
	}
	b.ok("join", a.clientURL())
	b.wantVoters("a", "b")
}

// Somebody else has the port.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	a, b := strange(t)
	for _, port := range []*int{&b.clientPort, &b.peerPort} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		free := *port
		*port = l.Addr().(*net.TCPAddr).Port
		for _, args := range [][]string{{"init"}, quick(a.clientURL())} {
			b.unchanged(args[0], func() { b.fails(3, []string{fmt.Sprintf("Port-%d", *port), "hint: "}, args...) })
		}
		// Despite it etcd cannot start, and the join is undone.
		b.fails(1, []string{"address already in use", "was undone"}, "join", "--ignore-preflight-errors=all",
			"--start-timeout=20s", a.clientURL())
		a.alone()
		b.nothing()
		*port = free
	}
	b.ok("join", a.clientURL())
	b.wantVoters("a", "b")
}

// An etcd of another cluster, which trusts the same authority, has our client
// port. It is not ours.
func TestForeignEtcdOnOurPort(t *testing.T) {
	t.Parallel()
	a, b := strange(t)
	b.clientPort = a.clientPort
	b.unchanged("init", func() { b.fails(3, []string{fmt.Sprint(a.clientPort), "hint: "}, "init") })
	r := b.run("init", "--ignore-preflight-errors=all", "--start-timeout=5s")
	if r.code == 0 {
		t.Errorf("an init whose port is somebody else's says that it is done: %s", r)
	}
	b.kill()
	// What answers there is not what a reset is about.
	b.run("reset")
	a.alone()
	if _, etcd := a.onStatusFile(); etcd == 0 {
		t.Error("the reset of b has ended the etcd of a")
	}
}

// raw returns what a TLS client without any certificate gets: etcd asks for one.
func raw(ctx context.Context, h *host) error {
	d := tls.Dialer{Config: h.tls("etcdctl-etcd-client")}
	d.Config.Certificates = nil
	c, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(h.clientURL(), "https://"))
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Read(make([]byte, 1))
	return errors.Join(err, ctx.Err())
}

// Whatever befalls, nobody without a certificate gets in.
func TestNoCertificateNoEntry(t *testing.T) {
	t.Parallel()
	a, _ := strange(t)
	ctx, cancel := context.WithTimeout(t.Context(), askTime)
	defer cancel()
	if err := raw(ctx, a); err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("a client without a certificate: %v", err)
	}
}
