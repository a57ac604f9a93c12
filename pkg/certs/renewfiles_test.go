package certs

import (
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const later = 200 * 24 * time.Hour

func TestFromFiles(t *testing.T) {
	for name, c := range map[string]struct {
		spec          MachineSpec
		without       []string
		name, address string
	}{
		"all":          {name: "a", address: "10.0.0.1"},
		"said":         {spec: MachineSpec{Name: "b", Address: "10.0.0.2"}, name: "b", address: "10.0.0.2"},
		"clients only": {without: []string{"server.crt", "peer.crt"}, name: "a"},
		"nothing":      {without: []string{"server.crt", "peer.crt", EtcdctlPair + ".crt", APIServerPair + ".crt"}},
	} {
		s := made(t)
		for _, file := range c.without {
			remove(t, s.at(file))
		}
		c.spec.Dir = s.Dir
		if got := c.spec.FromFiles(); string(got.Name) != c.name || got.Address != c.address {
			t.Errorf("%s: %q at %q", name, got.Name, got.Address)
		}
	}
	// Which of two addresses is the machine's nobody knows.
	s := made(t)
	s.PeerSANs = []string{"10.0.0.2"}
	mustIssue(t, s, now, "peer")
	if got := (MachineSpec{Dir: s.Dir}).FromFiles(); got.Address != "" || got.Name != "a" {
		t.Errorf("%+v", got)
	}
}

func TestRenewCopiesWhatTheCertificateSays(t *testing.T) {
	s := machine(t)
	s.ServerSANs = []string{"lb.example.com"}
	mustCreate(t, s)
	mustIssue(t, s, now, MachinePairs()...)
	before := map[string]*x509.Certificate{}
	for _, name := range MachinePairs() {
		before[name] = certOf(t, s, name)
	}
	renewed, err := RenewFiles(MachineSpec{Dir: s.Dir}, nil, now.Add(later))
	if err != nil || len(renewed) != 4 {
		t.Fatalf("%+v, %v", renewed, err)
	}
	for i, name := range MachinePairs() {
		old, c := before[name], certOf(t, s, name)
		if c.Equal(old) || KeyHash(c) != KeyHash(old) || c.Subject.String() != old.Subject.String() ||
			!slices.Equal(c.DNSNames, old.DNSNames) ||
			!slices.Equal(ipStrings(c.IPAddresses), ipStrings(old.IPAddresses)) ||
			!slices.Equal(c.ExtKeyUsage, old.ExtKeyUsage) {
			t.Errorf("%s: %s %q instead of %s %q", name, c.Subject, c.DNSNames, old.Subject, old.DNSNames)
		}
		want := Renewed{Name: name, Before: now.Add(year), NotAfter: now.Add(later + year)}
		if renewed[i] != want || !c.NotAfter.Equal(want.NotAfter) {
			t.Errorf("%+v", renewed[i])
		}
	}
	if pki := ObserveMachine(s, now.Add(later)); !pki.Complete() {
		t.Errorf("%+v", pki)
	}
}

// Also what this project does not issue is copied: the rest of a subject, and
// names of other kinds.
func TestRenewCopiesForeignCertificates(t *testing.T) {
	s := made(t)
	ca, err := LoadCA(s.Dir, MachineCA, now)
	if err != nil {
		t.Fatal(err)
	}
	key, err := parseKey(read(t, s.at("server.key")))
	if err != nil {
		t.Fatal(err)
	}
	like := selfSigned(t, "a", key, func(c *x509.Certificate) {
		c.Subject.OrganizationalUnit, c.Subject.Country, c.Subject.Organization = []string{"control plane"}, []string{"AT"},
			[]string{"ACME"}
		c.URIs, c.EmailAddresses = []*url.URL{{Scheme: "spiffe", Host: "example", Path: "/etcd"}}, []string{
			"root@example.com",
		}
	})
	leaf, err := ca.issue(Request{
		CommonName: "a", Server: true, DNSNames: []string{"x"}, IPs: []net.IP{{10, 1, 1, 1}}, like: like,
	}, key, now)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s.at("server.crt"), leaf.CertPEM())
	if _, err := RenewFiles(MachineSpec{Dir: s.Dir}, []string{"server"}, now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	c := certOf(t, s, "server")
	if c.Equal(leaf.Cert) || string(c.RawSubject) != string(like.RawSubject) || len(c.URIs) != 1 ||
		len(c.EmailAddresses) != 1 || c.DNSNames[0] != "x" {
		t.Errorf("%s %v %v %v", c.Subject, c.URIs, c.EmailAddresses, c.DNSNames)
	}
	// etcd's gateway needs it for clients, whatever it was for before.
	if why := lacksUsage(c, Request{Server: true, Client: true}); why != "" {
		t.Error(why)
	}
}

func TestRenewTakesFurtherNamesAndOneName(t *testing.T) {
	s := made(t)
	before := contents(t, s.Dir)
	more := MachineSpec{Dir: s.Dir, Name: "a", Address: "10.0.0.2", ServerSANs: []string{"LB.example.com", "a"},
		PeerSANs: []string{"10.0.0.1"}, Lifetime: 10 * 24 * time.Hour}
	renewed, err := RenewFiles(more, []string{"server"}, now)
	if err != nil || len(renewed) != 1 || !renewed[0].NotAfter.Equal(now.Add(10*24*time.Hour)) {
		t.Fatalf("%+v, %v", renewed, err)
	}
	c := certOf(t, s, "server")
	if !slices.Equal(c.DNSNames, []string{"a", "localhost", "lb.example.com"}) ||
		!slices.Equal(ipStrings(c.IPAddresses), []string{"10.0.0.1", "127.0.0.1", "::1", "10.0.0.2"}) {
		t.Errorf("%q %q", c.DNSNames, c.IPAddresses)
	}
	for name, text := range contents(t, s.Dir) {
		if name != "server.crt" && before[name] != text {
			t.Errorf("%s changed", name)
		}
	}
	if _, err := RenewFiles(more, []string{"peer"}, now); err != nil ||
		!slices.Equal(ipStrings(certOf(t, s, "peer").IPAddresses), []string{"10.0.0.1", "127.0.0.1", "::1", "10.0.0.2"}) {
		t.Errorf("%q, %v", certOf(t, s, "peer").IPAddresses, err)
	}
}

func TestRenewFailures(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, *MachineSpec)
		names  []string
		at     time.Duration
		want   string
		done   []string
		hint   bool
	}{
		"unknown": {names: []string{"server", "etcd"}, want: `no certificate "etcd"; there are server, peer`},
		"the CA":  {names: []string{"ca"}, want: `no certificate "ca"`},
		"other name": {change: func(_ *testing.T, s *MachineSpec) { s.Name = "b" },
			want: `server.crt is of "a", not of "b"`, hint: true},
		"no directory": {change: func(_ *testing.T, s *MachineSpec) { s.Dir = "/nowhere/pki" },
			want: "there is no CA in /nowhere/pki", hint: true},
		"no CA": {change: func(t *testing.T, s *MachineSpec) { remove(t, s.at("ca.crt"), s.at("ca.key")) },
			want: "there is no CA in", hint: true},
		"external": {change: func(t *testing.T, s *MachineSpec) { remove(t, s.at("ca.key")) },
			want: "would have to issue server, peer", hint: true},
		"CA expired": {at: 3651 * 24 * time.Hour, want: "expired on", hint: true},
		"wrong CA key": {change: func(t *testing.T, s *MachineSpec) { copyPair(t, *s, "server", "ca") },
			want: "not a CA certificate", hint: true},
		"bad name": {change: func(_ *testing.T, s *MachineSpec) { s.ServerSANs = []string{"a:1"} }, want: `"a:1" is neither`,
			done: []string{"peer", EtcdctlPair, APIServerPair}},
		"not writable": {change: func(_ *testing.T, s *MachineSpec) {
			s.write = func(path string, data []byte, perm os.FileMode) error {
				if strings.Contains(path, "peer") {
					return errors.New("disk full")
				}
				return writeFile(path, data, perm)
			}
		}, want: "peer.crt: disk full", done: []string{"server", EtcdctlPair, APIServerPair}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := made(t).Dir
			s := MachineSpec{Dir: dir}
			if c.change != nil {
				c.change(t, &s)
			}
			before := contents(t, dir)
			renewed, err := RenewFiles(s, c.names, now.Add(c.at))
			var done []string
			for _, r := range renewed {
				done = append(done, r.Name)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !slices.Equal(done, c.done) {
				t.Errorf("renewed %q, %v", done, err)
			}
			var hinted interface{ Hint() string }
			if errors.As(err, &hinted) != c.hint {
				t.Errorf("a hint: %v", !c.hint)
			}
			if after := contents(t, dir); len(c.done) == 0 && !same(before, after) {
				t.Error("files changed")
			}
		})
	}
}

// Half pairs are renewed from what is left of them, and of the others.
func TestRenewHalfPairs(t *testing.T) {
	s := made(t)
	remove(t, s.at("peer.key"), s.at("etcdctl-etcd-client.crt"), s.at("server.crt"), s.at("server.key"))
	put(t, s.at("apiserver-etcd-client.crt"), []byte("x"))
	renewed, err := RenewFiles(MachineSpec{Dir: s.Dir}, nil, now)
	if err != nil || len(renewed) != 4 || !renewed[0].Before.IsZero() || renewed[1].Before.IsZero() {
		t.Fatalf("%+v, %v", renewed, err)
	}
	if pki := ObserveMachine(s, now); !pki.Complete() {
		t.Errorf("%+v", pki)
	}
	remove(t, s.at("peer.crt"))
	if _, err := RenewFiles(MachineSpec{Dir: s.Dir}, []string{"peer"}, now); err == nil ||
		!strings.Contains(err.Error(), "peer.crt has to be issued again") ||
		!strings.Contains(err.Error(), "address is missing") {
		t.Error(err)
	}
}

func TestRenewNearTheEndOfTheCAWarns(t *testing.T) {
	s := made(t)
	renewed, err := RenewFiles(s, []string{"server"}, now.Add(3640*24*time.Hour))
	if err != nil || !strings.Contains(renewed[0].Warning, "rotate-ca") ||
		!renewed[0].NotAfter.Equal(certOf(t, s, "ca").NotAfter) {
		t.Errorf("%+v, %v", renewed, err)
	}
}

func TestExpiries(t *testing.T) {
	s := made(t)
	remove(t, s.at("apiserver-etcd-client.crt"))
	strange(t, s, func(r *Request) { r.Lifetime = time.Hour })
	put(t, s.at("peer.key"), sec1(t, ecKey(t, elliptic.P256())))
	all, err := Expiries(s.Dir, now.Add(90*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	type brief struct {
		name         string
		left         time.Duration
		ca           string
		missing, bad bool
	}
	var got []brief
	for _, e := range all {
		got = append(got, brief{e.Name, e.Left(), e.CA, e.Missing, e.Problem != ""})
		if e.External {
			t.Errorf("%s is external", e.Name)
		}
	}
	want := []brief{
		{"server", -30 * time.Minute, "etcd", false, false},
		{"peer", year - 90*time.Minute, "etcd", false, true},
		{"etcdctl-etcd-client", year - 90*time.Minute, "etcd", false, false},
		{"apiserver-etcd-client", 0, "", true, false},
		{"ca", 10*year - 90*time.Minute, "", false, false},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if all[0].File != s.at("server.crt") || all[0].CommonName != "a" || len(all[0].SANs) != 5 ||
		len(all[0].Fingerprint) != 64 || all[0].IsCA() || !all[4].IsCA() {
		t.Errorf("%+v", all[0])
	}
}

func TestExpiriesOfOtherStates(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, MachineSpec)
		check  func([]Expiry) bool
	}{
		"external": {func(t *testing.T, s MachineSpec) { remove(t, s.at("ca.key")) },
			func(all []Expiry) bool { return !slices.ContainsFunc(all, func(e Expiry) bool { return !e.External }) }},
		"other CA": {func(t *testing.T, s MachineSpec) { put(t, s.at("ca.crt"), newCA(t, "x").PEM()) },
			func(all []Expiry) bool { return strings.Contains(all[0].Problem, "no CA in ca.crt has issued it") }},
		"garbage": {func(t *testing.T, s MachineSpec) { put(t, s.at("server.crt"), []byte("x")) },
			func(all []Expiry) bool {
				return strings.Contains(all[0].Problem, "no certificate") && all[0].NotAfter.IsZero()
			}},
		"no CA": {func(t *testing.T, s MachineSpec) { remove(t, s.at("ca.crt"), s.at("ca.key")) },
			func(all []Expiry) bool { return all[4].Missing && len(all) == 5 && all[0].Problem == "" }},
		"garbage for a CA": {func(t *testing.T, s MachineSpec) { put(t, s.at("ca.crt"), []byte("x")) },
			func(all []Expiry) bool { return !all[4].Missing && all[4].Problem != "" }},
		"rotation": {func(t *testing.T, s MachineSpec) { rotate(t, s, StepPrepare) },
			func(all []Expiry) bool {
				return len(all) == 6 && all[4].Name == "ca" && all[5].Name == "ca-next" && all[4].Fingerprint != all[5].Fingerprint
			}},
		"half of a next CA": {func(t *testing.T, s MachineSpec) { put(t, s.at("ca-next.crt"), []byte("x")) },
			func(all []Expiry) bool { return len(all) == 6 && strings.Contains(all[5].Problem, "ca-next.crt") }},
	} {
		t.Run(name, func(t *testing.T) {
			s := made(t)
			c.change(t, s)
			all, err := Expiries(s.Dir, now)
			if err != nil || !c.check(all) {
				t.Errorf("%v, %+v", err, all)
			}
		})
	}
	var file *FileError
	for _, dir := range []string{t.TempDir(), "/nowhere"} {
		if _, err := Expiries(dir, now); !errors.As(err, &file) || file.Hint() == "" {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func parseCSR(t *testing.T, file string) *x509.CertificateRequest {
	t.Helper()
	block, _ := pem.Decode(read(t, file))
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		t.Fatalf("%s is no request", file)
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := csr.CheckSignature(); err != nil {
		t.Fatal(err)
	}
	return csr
}

// A machine gets its certificates from a CA whose key it never sees.
func TestCSRsSignedByAnExternalCA(t *testing.T) {
	s := machine(t)
	s.ServerSANs = []string{"lb.example.com"}
	csrDir := filepath.Join(t.TempDir(), "requests")
	csrs, err := GenerateCSRs(s, csrDir)
	if err != nil || len(csrs) != 4 {
		t.Fatalf("%+v, %v", csrs, err)
	}
	root := newCA(t, "corporate")
	put(t, s.at("ca.crt"), root.PEM())
	for i, name := range MachinePairs() {
		csr := parseCSR(t, filepath.Join(csrDir, name+".csr"))
		c := csrs[i]
		if c.Name != name || c.File != filepath.Join(csrDir, name+".csr") || c.KeyFile != s.at(name+".key") ||
			c.CertFile != s.at(name+".crt") || !c.NewKey || len(c.Usages) == 0 {
			t.Errorf("%+v", c)
		}
		if st, err := os.Stat(c.KeyFile); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", c.KeyFile, st.Mode(), err)
		}
		key, err := parseKey(read(t, c.KeyFile))
		if err != nil {
			t.Fatal(err)
		}
		usages := map[string]int{}
		for _, e := range csr.Extensions {
			usages[e.Id.String()] = len(e.Value)
		}
		if usages[oidKeyUsage.String()] == 0 || usages[oidExtKeyUsage.String()] == 0 {
			t.Errorf("%s: extensions %v", name, usages)
		}
		// This CA puts in what the request says, as they do.
		leaf, err := root.issue(Request{
			CommonName: csr.Subject.CommonName, Organization: csr.Subject.Organization, DNSNames: csr.DNSNames,
			IPs:    csr.IPAddresses,
			Server: slices.Contains(c.Usages, "serverAuth"), Client: slices.Contains(c.Usages, "clientAuth"),
		}, key, now)
		if err != nil {
			t.Fatal(err)
		}
		put(t, c.CertFile, leaf.CertPEM())
	}
	if pki := ObserveMachine(s, now); !pki.Complete() || pki.CA.State != PairExternal {
		t.Errorf("%+v", pki)
	}
	mustIssue(t, s, now)

	// The next time, the certificates show what the requests say, and the keys
	// stay.
	again, err := GenerateCSRs(MachineSpec{Dir: s.Dir}, "", "server")
	if err != nil || len(again) != 1 || again[0].NewKey || again[0].File != s.at("server.csr") ||
		!slices.Equal(again[0].SANs, csrs[0].SANs) {
		t.Fatalf("%+v, %v", again, err)
	}
	key, err := parseKey(read(t, s.at("server.key")))
	if csr := parseCSR(t, s.at("server.csr")); err != nil ||
		!samePublicKey(&x509.Certificate{PublicKey: csr.PublicKey}, key) || csr.DNSNames[2] != "lb.example.com" {
		t.Errorf("%v, %q", err, csr.DNSNames)
	}
	if pki := ObserveMachine(s, now); !pki.Complete() {
		t.Errorf("%+v", pki)
	}
}

// The bits of the key usage are as crypto/x509 writes them in a certificate.
func TestCSRUsagesAreThoseOfACertificate(t *testing.T) {
	r := Request{CommonName: "a", Server: true, Client: true}
	extensions, err := usageExtensions(r)
	if err != nil {
		t.Fatal(err)
	}
	cert := issue(t, newCA(t, "ca"), Request{CommonName: "a", Server: true, Client: true}).Cert
	for _, want := range extensions {
		i := slices.IndexFunc(cert.Extensions, func(e pkix.Extension) bool { return e.Id.Equal(want.Id) })
		if i < 0 || len(cert.Extensions[i].Value) != len(want.Value) || want.Id.Equal(oidKeyUsage) &&
			string(cert.Extensions[i].Value) != string(want.Value) {
			t.Errorf("%v", want)
		}
	}
}

func TestCSRFailures(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, *MachineSpec)
		names  []string
		want   string
	}{
		"unknown":    {names: []string{"x"}, want: `no certificate "x"`},
		"no address": {change: func(_ *testing.T, s *MachineSpec) { s.Address = "" }, want: "address is missing"},
		"no name":    {change: func(_ *testing.T, s *MachineSpec) { s.Name = "" }, want: "name is missing"},
		"key garbage": {change: func(t *testing.T, s *MachineSpec) { putBelow(t, s.at("peer.key"), "x") },
			want: "peer.key: there is no private key"},
		"key directory": {change: func(t *testing.T, s *MachineSpec) { putBelow(t, s.at("peer.key/x"), "x") },
			want: "is a directory"},
		"file for dir": {change: func(t *testing.T, s *MachineSpec) { putBelow(t, s.Dir, "x") }, want: "file exists"},
		"disk full": {change: func(_ *testing.T, s *MachineSpec) {
			s.write = func(string, []byte, os.FileMode) error { return errors.New("disk full") }
		}, want: "disk full"},
	} {
		t.Run(name, func(t *testing.T) {
			s := machine(t)
			if c.change != nil {
				c.change(t, &s)
			}
			if _, err := GenerateCSRs(s, "", c.names...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Error(err)
			}
		})
	}
}

func putBelow(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, file, []byte(content))
}
