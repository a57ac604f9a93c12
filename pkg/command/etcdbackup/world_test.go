package etcdbackup

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

var v36 = etcdversion.Must(etcdtest.V36)

// authority writes a CA and one pair, good for servers and clients on
// 127.0.0.1, to dir.
func authority(t *testing.T, dir string) {
	t.Helper()
	sign := func(name string, template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) {
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
		must(t, err)
		secret, err := x509.MarshalPKCS8PrivateKey(key)
		must(t, err)
		write(t, filepath.Join(dir, name+".crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
		write(t, filepath.Join(dir, name+".key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	}
	newKey := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(t, err)
		return key
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "pair"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{
			x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth,
		}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	caKey := newKey()
	sign("ca", ca, ca, caKey, caKey)
	sign("pair", leaf, ca, newKey(), caKey)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A world is a cluster of real etcd with TLS for clients, and a store.
type world struct {
	t          *testing.T
	dir, store string
	urls       []string
	client     *clientv3.Client
}

func newWorld(t *testing.T, n int) *world {
	t.Helper()
	b := etcdtest.Binaries(t, etcdtest.V36)
	w := &world{t: t, dir: t.TempDir()}
	w.store = filepath.Join(w.dir, "store")
	authority(t, w.dir)
	var members []*etcdtest.Member
	for i := range n {
		m := etcdtest.New(t, fmt.Sprintf("m%d", i))
		m.SecureClients(etcdtest.Pair{Cert: w.file("pair.crt"), Key: w.file("pair.key"), CA: w.file("ca.crt")})
		members, w.urls = append(members, m), append(w.urls, m.ClientURL)
	}
	for _, m := range members {
		m.Start(t, b, "--initial-cluster="+etcdtest.Initial(members...))
	}
	config, err := certs.ClientTLSFromFiles(w.file("ca.crt"), w.file("pair.crt"), w.file("pair.key"))
	must(t, err)
	w.client = etcdtest.Open(t, clientv3.Config{Endpoints: w.urls, TLS: config})
	return w
}

func (w *world) file(name string) string { return filepath.Join(w.dir, name) }

// fill puts values of a megabyte.
func (w *world) fill(megabytes int) {
	w.t.Helper()
	value := make([]byte, 1<<20)
	for i := range megabytes {
		_, _ = rand.Read(value) // never fails
		// Etcd refuses a write during an election.
		testwait.For(w.t, "a write", func(context.Context) error {
			ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
			defer cancel()
			_, err := w.client.Put(ctx, fmt.Sprintf("/key/%d", i), string(value))
			return err
		})
	}
}

// args are the flags for an agent beside member i.
func (w *world) args(i int, more ...string) []string {
	return append([]string{
		"--cluster-name=test", "--backup-store=" + w.store, "--client-url=" + w.urls[i],
		"--client-ca-file=" + w.file("ca.crt"), "--client-cert-file=" + w.file("pair.crt"),
		"--client-key-file=" + w.file("pair.key"),
	}, more...)
}

// An agent is an etcd-backup in a process of its own.
type agent struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{}

	mu  sync.Mutex
	out bytes.Buffer
}

func (a *agent) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.out.Write(p)
}

func (a *agent) said() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.out.String()
}

func start(t *testing.T, args ...string) *agent {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	a := &agent{t: t, cmd: exec.Command(self, append([]string{program}, args...)...), ended: make(chan struct{})}
	a.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	a.cmd.Stdout, a.cmd.Stderr = a, a
	must(t, a.cmd.Start())
	go func() {
		defer close(a.ended)
		_ = a.cmd.Wait() // the code says it
	}()
	t.Cleanup(func() {
		a.stop(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("%s", a.said())
		}
	})
	return a
}

// stop sends a signal and returns the exit code, -1 for a signal's death.
func (a *agent) stop(sig syscall.Signal) int {
	_ = a.cmd.Process.Signal(sig) // it may have ended
	select {
	case <-a.ended:
	case <-time.After(testwait.Limit):
		a.t.Fatalf("it does not end by %s", sig)
	}
	return a.cmd.ProcessState.ExitCode()
}
