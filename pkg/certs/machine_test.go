package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// machine is a spec for a directory that does not exist yet.
func machine(t *testing.T) MachineSpec {
	t.Helper()
	return MachineSpec{Dir: filepath.Join(t.TempDir(), "etcd", "pki"), Name: "a", Address: "10.0.0.1"}
}

// made is a machine with everything in place, as of now.
func made(t *testing.T) MachineSpec {
	t.Helper()
	s := machine(t)
	mustCreate(t, s)
	mustIssue(t, s, now, MachinePairs()...)
	return s
}

func mustCreate(t *testing.T, s MachineSpec) {
	t.Helper()
	if err := CreateMachineCA(s, now); err != nil {
		t.Fatal(err)
	}
}

// mustIssue issues, which must concern exactly these pairs.
func mustIssue(t *testing.T, s MachineSpec, at time.Time, want ...string) {
	t.Helper()
	got, err := IssueMachine(s, at)
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("issued %q, %v, want %q", got, err, want)
	}
}

// at returns the path of a file of the machine.
func (s MachineSpec) at(name string) string { return filepath.Join(s.Dir, name) }

func certOf(t *testing.T, s MachineSpec, name string) *x509.Certificate {
	t.Helper()
	certs, err := parseCerts(read(t, s.at(name+".crt")))
	if err != nil {
		t.Fatal(err)
	}
	return certs[0]
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func remove(t *testing.T, files ...string) {
	t.Helper()
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
}

// contents maps the files of a directory to their contents.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		if e.Name() != lockName && !e.IsDir() {
			all[e.Name()] = string(read(t, filepath.Join(dir, e.Name())))
		}
	}
	return all
}

func same(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

func leafOf(t *testing.T, s MachineSpec, name string, at time.Time) LeafCheck {
	t.Helper()
	pki := ObserveMachine(s, at)
	i := slices.IndexFunc(pki.Leaves, func(l LeafCheck) bool { return l.Name == name })
	if i < 0 {
		t.Fatalf("no %s in %+v", name, pki)
	}
	return pki.Leaves[i]
}

// The names, usages and times are those of the existing etcdadm, and names for
// loopback besides.
func TestMachineCertificatesSayWhatEtcdadmsDo(t *testing.T) {
	s := machine(t)
	s.ServerSANs = []string{"etcd.example.com", "10.0.0.9", "localhost"}
	s.PeerSANs = []string{"peer.example.com"}
	mustCreate(t, s)
	mustIssue(t, s, now, MachinePairs()...)
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	client := both[:1]
	ca := certOf(t, s, MachineCA)
	if ca.Subject.String() != "CN=etcd" || !ca.IsCA || !slices.Equal(ca.DNSNames, []string{"etcd"}) ||
		!ca.NotAfter.Equal(now.Add(3650*24*time.Hour)) || len(ca.ExtKeyUsage) > 0 {
		t.Errorf("CA %s %v until %s", ca.Subject, ca.DNSNames, ca.NotAfter)
	}
	for _, want := range []struct {
		name, subject string
		dns, ips      []string
		usage         []x509.ExtKeyUsage
	}{
		{"server", "CN=a", []string{"a", "localhost", "etcd.example.com"}, []string{
			"10.0.0.1", "127.0.0.1", "::1", "10.0.0.9",
		}, both},
		{"peer", "CN=a", []string{"a", "peer.example.com"}, []string{"10.0.0.1", "127.0.0.1", "::1"}, both},
		{"etcdctl-etcd-client", "CN=a-etcdctl,O=system:masters", nil, nil, client},
		{"apiserver-etcd-client", "CN=a-kube-apiserver-etcd-client,O=system:masters", nil, nil, client},
	} {
		c := certOf(t, s, want.name)
		if c.Subject.String() != want.subject || !slices.Equal(c.DNSNames, want.dns) ||
			!slices.Equal(ipStrings(c.IPAddresses), want.ips) || !slices.Equal(c.ExtKeyUsage, want.usage) {
			t.Errorf("%s: %s, %q, %q, %v", want.name, c.Subject, c.DNSNames, c.IPAddresses, c.ExtKeyUsage)
		}
		if !c.NotBefore.Equal(ca.NotBefore) || !c.NotAfter.Equal(now.Add(365*24*time.Hour)) {
			t.Errorf("%s: from %s to %s", want.name, c.NotBefore, c.NotAfter)
		}
		if err := c.CheckSignatureFrom(ca); err != nil {
			t.Errorf("%s: %v", want.name, err)
		}
		if _, ok := c.PublicKey.(*ecdsa.PublicKey); !ok {
			t.Errorf("%s: key %T", want.name, c.PublicKey)
		}
		if _, err := tls.LoadX509KeyPair(s.at(want.name+".crt"), s.at(want.name+".key")); err != nil {
			t.Error(err)
		}
	}
	for name, mode := range map[string]fs.FileMode{
		".": 0o755, "ca.crt": 0o644, "ca.key": 0o600, "server.crt": 0o644, "server.key": 0o600, "peer.key": 0o600,
		"etcdctl-etcd-client.key": 0o600,
	} {
		if st, err := os.Stat(s.at(name)); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
	// Fingerprints for comparison between machines.
	check := ObserveMachine(s, now)
	if check.CA.Fingerprint != Fingerprint(ca) || check.CA.KeyHash != KeyHash(ca) || len(check.CA.Fingerprint) != 64 ||
		!strings.HasPrefix(check.CA.KeyHash, "sha256:") || !check.Complete() {
		t.Errorf("%+v", check)
	}
}

func TestMachineCAAndKeysOfRSA(t *testing.T) {
	s := machine(t)
	s.RSA = true
	mustCreate(t, s)
	mustIssue(t, s, now, MachinePairs()...)
	for _, name := range []string{"ca", "server"} {
		if key, ok := certOf(t, s, name).PublicKey.(*rsa.PublicKey); !ok || key.N.BitLen() != 2048 {
			t.Errorf("%s: key %T", name, key)
		}
		if !bytes.Contains(read(t, s.at(name+".key")), []byte("BEGIN RSA PRIVATE KEY")) {
			t.Errorf("%s is not in PKCS#1", name)
		}
	}
	s.RSA = false // the next new key is another, what is there stays
	remove(t, s.at("peer.key"), s.at("server.crt"))
	mustIssue(t, s, now, "server", "peer")
	if _, ok := certOf(t, s, "peer").PublicKey.(*ecdsa.PublicKey); !ok {
		t.Error("the new key is not ECDSA")
	}
	if _, ok := certOf(t, s, "server").PublicKey.(*rsa.PublicKey); !ok {
		t.Error("the RSA key did not stay in use")
	}
}

// Names that are no host names of the strict kind lose nothing silently, and a
// client that dials them verifies the server.
func TestUnusualMachineNames(t *testing.T) {
	for name, c := range map[string]struct {
		dns  []string // in the server's certificate, before localhost
		warn string
	}{
		"node-1.example.com": {dns: []string{"node-1.example.com"}},
		"Node1":              {[]string{"node1"}, `"Node1" is in the certificates as "node1"`},
		"node_1":             {[]string{"node_1"}, "has an underscore"},
		"a..b":               {nil, `"a..b" is not a valid host name`},
		"-a":                 {nil, "is not a valid host name: the certificates name the machine by its address only"},
		"...":                {nil, "is not a valid host name: the certificates name the machine by its address only"},
	} {
		t.Run(name, func(t *testing.T) {
			s := machine(t)
			s.Name = cluster.NodeName(name)
			mustCreate(t, s)
			mustIssue(t, s, now, MachinePairs()...)
			cert := certOf(t, s, "server")
			if !slices.Equal(cert.DNSNames, append(c.dns, "localhost")) || cert.Subject.CommonName != name {
				t.Errorf("%q for %q", cert.DNSNames, cert.Subject.CommonName)
			}
			check := ObserveMachine(s, now)
			if text := strings.Join(check.Warnings, "\n"); !strings.Contains(text, c.warn) || (text == "") != (c.warn == "") {
				t.Errorf("warnings %q", check.Warnings)
			}
			if !slices.Equal(check.Warnings, s.Warnings()) || !check.Complete() {
				t.Errorf("warnings %q, %+v", s.Warnings(), check)
			}
			hosts := []string{"10.0.0.1", "localhost", "127.0.0.1", "::1"}
			if c.dns != nil {
				hosts = append(hosts, name, strings.ToUpper(name))
			}
			for _, host := range hosts {
				if err := cert.VerifyHostname(host); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestMachineSpecIsChecked(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*MachineSpec)
		want   string
	}{
		"no name":         {func(s *MachineSpec) { s.Name = "" }, "name is missing"},
		"slash in name":   {func(s *MachineSpec) { s.Name = "a/b" }, "character"},
		"no address":      {func(s *MachineSpec) { s.Address = "" }, "address is missing"},
		"host as address": {func(s *MachineSpec) { s.Address = "a.example.com" }, "not an IP address"},
		"every address":   {func(s *MachineSpec) { s.Address = "0.0.0.0" }, "is not an address to connect to; give one of the machine's own"},
		"every address 6": {func(s *MachineSpec) { s.Address = "::" }, "is not an address to connect to; give one of the machine's own"},
		"URL": {func(s *MachineSpec) { s.ServerSANs = []string{"https://a"} },
			"neither a host name nor an IP address"},
		"port":        {func(s *MachineSpec) { s.PeerSANs = []string{"10.0.0.1:2380"} }, "certificate peer"},
		"umlaut":      {func(s *MachineSpec) { s.ServerSANs = []string{"ä.example"} }, "xn--"},
		"star inside": {func(s *MachineSpec) { s.ServerSANs = []string{"a.*.example"} }, "neither"},
		"empty name":  {func(s *MachineSpec) { s.ServerSANs = []string{""} }, "neither"},
		"lifetime":    {func(s *MachineSpec) { s.Lifetime = -1 }, "lifetime"},
		"CA lifetime": {func(s *MachineSpec) { s.CALifetime = -1 }, "lifetime"},
	} {
		t.Run(name, func(t *testing.T) {
			s := machine(t)
			c.change(&s)
			for what, err := range map[string]error{"Validate": s.Validate(), "CreateMachineCA": CreateMachineCA(s, now)} {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if _, err := IssueMachine(s, now); err == nil {
				t.Error("issued")
			}
			if l := leafOf(t, s, "server", now); l.State != PairWrong || !strings.Contains(l.Why, c.want) {
				t.Errorf("%+v", l)
			}
			if _, err := os.Stat(s.Dir); err == nil {
				t.Error("something was written")
			}
		})
	}
}

func TestIPv6AndMappedAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"fd00::1": "fd00::1", "fe80::1%eth0": "fe80::1", "::ffff:10.0.0.7": "10.0.0.7", "::1": "::1",
	} {
		s := machine(t)
		s.Address, s.ServerSANs = text, []string{"[fd00::9]", "*.example.com"}
		mustCreate(t, s)
		mustIssue(t, s, now, MachinePairs()...)
		c := certOf(t, s, "server")
		for _, host := range []string{want, "fd00::9", "x.example.com"} {
			if err := c.VerifyHostname(host); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
		if !ObserveMachine(s, now).Complete() {
			t.Errorf("%s: not complete", text)
		}
	}
}

func TestCreateMachineCANeverOverwrites(t *testing.T) {
	s := made(t)
	before := contents(t, s.Dir)
	var exists *CAExistsError
	for _, missing := range []string{"", "ca.key", "ca.crt"} {
		if missing != "" {
			remove(t, s.at(missing))
			delete(before, missing)
		}
		if err := CreateMachineCA(s, now); !errors.As(err, &exists) || exists.Hint() == "" {
			t.Errorf("without %q: %v", missing, err)
		}
		if !same(before, contents(t, s.Dir)) {
			t.Errorf("without %q: files changed", missing)
		}
		if missing != "" {
			before[missing] = "x"
			put(t, s.at(missing), []byte("x"))
		}
	}
}

// However far the CA came before the machine died, another call ends with one
// CA, and a key that was visible under its name stays.
func TestCreateMachineCAAfterACrash(t *testing.T) {
	dead := errors.New("power is off")
	for writes := range 3 {
		s := machine(t)
		n := 0
		s.write = func(path string, data []byte, perm os.FileMode) error {
			if n++; n > writes {
				return dead
			}
			return writeFile(path, data, perm)
		}
		if writes == 2 { // both are written: die between the two renames
			if err := os.MkdirAll(s.Dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := newMachineCA(s, MachineCA, now); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(halfFile(s.Dir, MachineCA, ".key"), s.at("ca.key")); err != nil {
				t.Fatal(err)
			}
		} else if err := CreateMachineCA(s, now); !errors.Is(err, dead) {
			t.Fatalf("after %d writes: %v", writes, err)
		}
		if check := ObserveMachine(s, now).CA; check.State != PairMissing {
			t.Errorf("after %d writes: %+v", writes, check)
		}
		s.write = nil
		mustCreate(t, s)
		if check := ObserveMachine(s, now).CA; check.State != PairOK {
			t.Errorf("after %d writes: %+v", writes, check)
		}
		for name := range contents(t, s.Dir) {
			if name != "ca.crt" && name != "ca.key" {
				t.Errorf("after %d writes: %s is left", writes, name)
			}
		}
	}
}

func TestOnlyOneChangesTheDirectoryAtATime(t *testing.T) {
	s := made(t)
	lock, err := hostfs.Lock(s.at(lockName))
	if err != nil {
		t.Fatal(err)
	}
	var held *hostfs.LockedError
	_, issueErr := IssueMachine(s, now)
	_, renewErr := RenewFiles(s, nil, now)
	_, rotateErr := RotateCA(s, StepPrepare, "", now)
	_, csrErr := GenerateCSRs(s, "")
	for name, err := range map[string]error{
		"issue": issueErr, "renew": renewErr, "rotate": rotateErr, "csr": csrErr, "create": CreateMachineCA(s, now),
	} {
		if !errors.As(err, &held) || held.Holder != os.Getpid() {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	mustIssue(t, s, now)
}

func TestDirectoryIsOpenWhateverTheUmaskIs(t *testing.T) {
	s := made(t)
	if err := os.Chmod(s.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	mustIssue(t, s, now) // what the owner made stays as he made it
	if st, err := os.Stat(s.Dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if _, err := IssueMachine(MachineSpec{Dir: filepath.Join(t.TempDir(), "none"), Name: "a", Address: "10.0.0.1"},
		now); !errors.As(err, new(*NoCAError)) {
		t.Error(err)
	}
}
