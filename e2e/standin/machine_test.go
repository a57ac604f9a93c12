package standin

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/testing/existing"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// fake is an etcd that writes down its environment and runs.
const fake = "#!/bin/sh\n/usr/bin/env > \"$ETCD_DATA_DIR.env\"\n[ \"$ETCD_NAME\" = dies ] || exec /bin/sleep 1000\n"

// newTestMachine returns a machine with kops' URLs, and with fakes of some versions of etcd.
func newTestMachine(t *testing.T) *machine {
	t.Helper()
	dir := t.TempDir()
	o := options{
		store: dir + "/store", cluster: "etcd", data: dir + "/volume", name: "etcd-a", address: "10.1.1.1", pki: dir + "/pki",
		suffix: ".internal.prod.example.com", port: 3996, etcd: []string{dir},
		client: "https://__name__:4001", peer: "https://__name__:2380", quarantine: "https://__name__:3994",
		places: &places{at: map[string]string{
			"etcd-a": "10.1.1.1:3996", "etcd-b": "10.1.1.2:3996", "dns": "node0.example.com:3996",
		}},
	}
	if _, err := harness.NewPKI(o.pki, true); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"3.5.31", "3.6.12"} {
		file(t, filepath.Join(dir, "etcd-v"+version, "etcd"), fake, 0o755)
	}
	if err := os.MkdirAll(filepath.Join(o.data, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	m := &machine{o: o}
	m.hosts.of(o)
	m.hosts.path = dir + "/hosts"
	file(t, m.hosts.path, "127.0.0.1\tlocalhost\n", 0o644)
	t.Cleanup(m.stop)
	return m
}

func file(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// joined has the machine run the first member of a cluster of two.
func joined(t *testing.T, version string) *machine {
	t.Helper()
	m := newTestMachine(t)
	j := existing.Join{Token: "token", Version: version, Nodes: []existing.Node{
		m.o.node(), {Name: "etcd-b", Peer: []string{"https://b:2380"}}, // without client URLs, as ours leaves it
	}}
	for _, phase := range []byte{existing.Prepare, existing.InitialCluster} {
		j.Phase = phase
		if err := m.Join(j); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// given waits for what etcd was given, sorted.
func given(t *testing.T, m *machine) (lines []string) {
	t.Helper()
	testwait.Until(t, "etcd", func() bool {
		b, err := os.ReadFile(m.dataDir() + ".env")
		lines = slices.DeleteFunc(strings.Split(string(b), "\n"), func(l string) bool {
			name, _, _ := strings.Cut(l, "=")
			return l == "" || name == "PWD" || name == "SHLVL" || name == "_" || name == "OLDPWD" // the shell's
		})
		return err == nil && strings.HasSuffix(string(b), "\n")
	})
	slices.Sort(lines)
	return lines
}

// What etcd is given, by the environment alone: kops' variables are the last word.
func TestEnvironment(t *testing.T) {
	t.Setenv("ETCD_QUOTA_BACKEND_BYTES", "1")
	t.Setenv("ETCD_LOGGER", "other")
	m := joined(t, "v3.5.31")
	var others []string
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "ETCD_") && !strings.HasPrefix(v, "ETCD_LOGGER=") && !strings.HasPrefix(v, "ETCD_QUOTA") {
			others = append(others, v)
		}
	}
	pki, host := m.o.data+"/pki/token", "etcd-a.internal.prod.example.com"
	want := append(others, "ETCD_DATA_DIR="+m.o.data+"/data/token", "ETCD_LOGGER=other", "ETCD_LOG_OUTPUTS=stdout",
		"ETCD_NAME=etcd-a", "ETCD_LISTEN_PEER_URLS=https://0.0.0.0:2380", "ETCD_INITIAL_CLUSTER_TOKEN=token",
		"ETCD_INITIAL_ADVERTISE_PEER_URLS=https://"+host+":2380", "ETCD_LISTEN_CLIENT_URLS=https://0.0.0.0:3994",
		"ETCD_ADVERTISE_CLIENT_URLS=https://"+host+":3994", "ETCD_INITIAL_CLUSTER_STATE=new",
		"ETCD_INITIAL_CLUSTER=etcd-a=https://"+host+":2380,etcd-b=https://b:2380", "ETCD_STRICT_RECONFIG_CHECK=true",
		"ETCD_CLIENT_CERT_AUTH=true", "ETCD_TRUSTED_CA_FILE="+pki+"/clients/ca.crt", "ETCD_QUOTA_BACKEND_BYTES=1",
		"ETCD_CERT_FILE="+pki+"/clients/server.crt", "ETCD_KEY_FILE="+pki+"/clients/server.key",
		"ETCD_PEER_CLIENT_CERT_AUTH=true", "ETCD_PEER_TRUSTED_CA_FILE="+pki+"/peers/ca.crt",
		"ETCD_PEER_CERT_FILE="+pki+"/peers/me.crt", "ETCD_PEER_KEY_FILE="+pki+"/peers/me.key",
		"ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK=true", "ETCD_LISTEN_METRICS_URLS=")
	slices.Sort(want)
	if got := given(t, m); !slices.Equal(got, want) {
		t.Errorf("etcd is given\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if err := m.Reconfigure("3.6.12", false, false); err != nil {
		t.Fatal(err)
	}
	open := "ETCD_LISTEN_CLIENT_URLS=https://0.0.0.0:4001"
	testwait.Until(t, "etcd 3.6 that is open to clients", func() bool { return slices.Contains(given(t, m), open) })
	for _, line := range given(t, m) {
		if strings.Contains(line, "CORRUPT") || line == "ETCD_INITIAL_CLUSTER_STATE=new" {
			t.Errorf("etcd 3.6 is given %s", line)
		}
	}
}

// A member is started with the peer URLs of state, and the client URLs of the flags.
func TestOwnURLs(t *testing.T) {
	m := newTestMachine(t)
	m.state = existing.State{Token: "token", Nodes: []existing.Node{
		{Name: "etcd-a", Peer: []string{"http://old:2380"}, Client: []string{"http://old:4001"}},
	}}
	if n := m.own(); n.Peer[0] != "http://old:2380" || n.Client[0] != "https://etcd-a.internal.prod.example.com:4001" {
		t.Errorf("it is %+v", n)
	}
	if n := m.Info().Node; n.Peer[0] != "https://etcd-a.internal.prod.example.com:2380" {
		t.Errorf("it reports %+v", n)
	}
}

// The file state, and who may have the machine run a member.
func TestJoin(t *testing.T) {
	m := newTestMachine(t)
	j := func(phase byte, token, version string) error {
		return m.Join(existing.Join{Phase: phase, Token: token, Version: version, Nodes: []existing.Node{m.o.node()}})
	}
	for i, step := range []struct {
		phase          byte
		token, version string
		ok             bool
	}{
		{existing.InitialCluster, "1", "3.6.12", false},
		{existing.CancelPrepare, "1", "3.6.12", true}, // none is prepared
		{existing.Prepare, "1", "3.7.9", false},       // it has no such etcd
		{existing.Prepare, "2", "3.6.12", true},
		{existing.Prepare, "1", "3.6.12", false},
		{existing.CancelPrepare, "1", "3.6.12", false},
		{existing.CancelPrepare, "2", "3.6.12", true},
		{existing.Prepare, "1", "3.6.12", true},
		{existing.JoinExisting, "2", "3.6.12", false},
		{existing.JoinExisting, "1", "3.6.12", true},
		{existing.Prepare, "3", "3.6.12", false}, // etcd runs
	} {
		if err := j(step.phase, step.token, step.version); (err == nil) != step.ok {
			t.Fatalf("step %d: %v", i+1, err)
		}
	}
	s, err := existing.ReadState(m.o.data)
	if err != nil || s.Token != "1" || s.New || s.Quarantined || s.Version != "3.6.12" {
		t.Errorf("state is %+v, %v", s, err)
	}
	if i, err := os.Stat(m.o.data + "/state"); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", i, err)
	}
	m.until = time.Now().Add(-time.Second)
	m.prepared = "late"
	m.stop()
	if err := j(existing.InitialCluster, "late", "3.6.12"); err == nil {
		t.Error("it was prepared for more than a minute")
	}
	if s := joined(t, "3.6.12").state; !s.Quarantined || s.New {
		t.Errorf("a new cluster's state is %+v", s)
	}
}

// A member that is stopped leaves an empty state, and its data in the trashcan. Such a disk
// does not count as empty.
func TestStopEtcd(t *testing.T) {
	m := newTestMachine(t)
	for _, name := range []string{"lost+found", "myid", "pki/x"} {
		file(t, filepath.Join(m.o.data, name), "", 0o600)
	}
	if !m.Info().DiskEmpty {
		t.Error("a new disk is not empty")
	}
	m = joined(t, "3.6.12")
	given(t, m)
	if m.Reconfigure("3.7.9", false, false) == nil {
		t.Error("it runs an etcd that it does not have")
	}
	if err := os.MkdirAll(m.dataDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	pid := m.etcd.Process.Pid
	if err := m.StopEtcd(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
		t.Error("etcd runs")
	}
	if _, err := os.Stat(m.o.data + "/data-trashcan/token"); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(m.o.data + "/state"); err != nil || len(b) > 0 {
		t.Errorf("state is %q, %v", b, err)
	}
	if m.Info().DiskEmpty {
		t.Error("its disk counts as empty")
	}
}

// A member that has ended is started again when it is looked after, and not before.
func TestWatch(t *testing.T) {
	m := joined(t, "3.6.12")
	given(t, m)
	first := m.etcd.Process.Pid
	_ = m.etcd.Process.Kill()
	<-m.exited
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { m.watch(ctx, time.Millisecond) })
	testwait.Until(t, "another etcd", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.runs() && m.etcd.Process.Pid != first
	})
}

// Certificates have the names and uses of the existing tool's. With several certificates
// in a CA's file, the first one that has the key issues, and all are trusted.
func TestCertificates(t *testing.T) {
	m := newTestMachine(t)
	peers := filepath.Join(m.o.pki, "etcd-peers-ca.crt")
	own, err := os.ReadFile(peers)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(filepath.Join(m.o.pki, "etcd-clients-ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	file(t, peers, string(other)+string(own), 0o644)
	if _, _, err := m.credentials(); err != nil {
		t.Fatal(err)
	}
	m.state = existing.State{Token: "token", Nodes: []existing.Node{{Name: "etcd-a", Peer: []string{"https://p:1"}}}}
	pki, err := m.issue("token")
	if err != nil {
		t.Fatal(err)
	}
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	host := "etcd-a.internal.prod.example.com"
	for path, want := range map[string]struct {
		name string
		use  []x509.ExtKeyUsage
		dns  []string
		ips  string
	}{
		m.o.pki + "/etcd-manager-server-etcd-a": {"etcd-manager-server-etcd-a", both[1:],
			[]string{"etcd-manager-server-etcd-a"}, "[]"},
		m.o.pki + "/etcd-manager-client-etcd-a": {"etcd-manager-client-etcd-a", both[:1], nil, "[]"},
		pki + "/peers/me":                       {"etcd-a", both, []string{"etcd-a", "p"}, "[127.0.0.1 ::1 10.1.1.1]"},
		pki + "/clients/server":                 {"etcd-a", both, []string{"etcd-a", host, "p"}, "[127.0.0.1 ::1]"},
	} {
		c := certificate(t, path+".crt")
		years := time.Until(c.NotAfter).Hours() / 24 / 365
		if c.Subject.CommonName != want.name || !slices.Equal(c.ExtKeyUsage, want.use) || years < 1.9 || years > 2.1 ||
			!slices.Equal(c.DNSNames, want.dns) || fmt.Sprint(c.IPAddresses) != want.ips ||
			c.KeyUsage != x509.KeyUsageDigitalSignature|x509.KeyUsageKeyEncipherment {
			t.Errorf("%s is of %s for %v until %s, with %v and %v", path, c.Subject, c.ExtKeyUsage, c.NotAfter,
				c.DNSNames, c.IPAddresses)
		}
		if i, err := os.Stat(path + ".key"); err != nil || i.Mode().Perm() != 0o600 {
			t.Errorf("%s.key is %v, %v", path, i, err)
		}
	}
	if got := certificate(t, pki+"/peers/me.crt").Issuer.CommonName; got != "etcd-peers-ca" {
		t.Errorf("it is issued by %s", got)
	}
	if b, err := os.ReadFile(pki + "/peers/ca.crt"); err != nil || string(b) != string(other)+string(own) {
		t.Errorf("the bundle is %s, %v", b, err)
	}
	file(t, peers, string(other), 0o644)
	if _, err := m.issue("token"); err == nil || !strings.Contains(err.Error(), "did not find certificate") {
		t.Errorf("without a certificate of the key: %v", err)
	}
}

// A key that stands is used again; one that is no RSA key is an error.
func TestKeys(t *testing.T) {
	m := newTestMachine(t)
	for range 2 {
		if _, _, err := m.credentials(); err != nil {
			t.Fatal(err)
		}
	}
	path := m.o.pki + "/etcd-manager-server-etcd-a"
	before, err := os.ReadFile(path + ".key")
	if err != nil {
		t.Fatal(err)
	}
	serial := certificate(t, path+".crt").SerialNumber
	if _, _, err := m.credentials(); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(path + ".key"); err != nil || string(after) != string(before) {
		t.Errorf("the key is another one, %v", err)
	}
	if certificate(t, path+".crt").SerialNumber.Cmp(serial) == 0 {
		t.Error("there is no new certificate")
	}
	file(t, path+".key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY"})), 0o600)
	if _, _, err := m.credentials(); err == nil || !strings.Contains(err.Error(), "unexpected private key type") {
		t.Errorf("with another key: %v", err)
	}
}

func certificate(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(b)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
