package certs

import (
	"crypto"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// strange issues the server's certificate of a machine from its CA, with its
// key, in a way that change makes of it.
func strange(t *testing.T, s MachineSpec, change func(*Request)) {
	t.Helper()
	ca, err := LoadCA(s.Dir, MachineCA, now)
	if err != nil {
		t.Fatal(err)
	}
	requests, _, err := s.requests()
	if err != nil {
		t.Fatal(err)
	}
	r := requests[0].Request
	change(&r)
	key, err := parseKey(read(t, s.at("server.key")))
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.issue(r, key, now)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s.at("server.crt"), leaf.CertPEM())
}

// Whatever is wrong with a pair is reported, issued again, and then good; the rest
// stays. The key stays where there is one.
func TestWhatIsWrongIsReportedAndIssuedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, *MachineSpec)
		at     time.Time
		state  PairState
		why    string
		newKey bool
	}{
		"both missing": {
			change: func(t *testing.T, s *MachineSpec) { remove(t, s.at("server.crt"), s.at("server.key")) }, state: PairMissing,
			why: "are missing", newKey: true,
		},
		"certificate missing": {
			change: func(t *testing.T, s *MachineSpec) { remove(t, s.at("server.crt")) }, state: PairMissing,
			why: "its key exists, but not",
		},
		"key missing": {
			change: func(t *testing.T, s *MachineSpec) { remove(t, s.at("server.key")) }, state: PairBroken, why: "not its key",
			newKey: true,
		},
		"certificate garbage": {
			change: func(t *testing.T, s *MachineSpec) { put(t, s.at("server.crt"), []byte("-----BEGIN")) }, state: PairBroken,
			why: "server.crt: there is no certificate",
		},
		"certificate empty": {change: func(t *testing.T, s *MachineSpec) { put(t, s.at("server.crt"), nil) },
			state: PairBroken, why: "no certificate"},
		"DER garbage": {change: func(t *testing.T, s *MachineSpec) {
			put(t, s.at("server.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}))
		}, state: PairBroken, why: "server.crt: certificate 1"},
		"key garbage": {change: func(t *testing.T, s *MachineSpec) { put(t, s.at("server.key"), []byte("x")) },
			state: PairBroken, why: "server.key: there is no private key", newKey: true},
		"key of another": {change: func(t *testing.T, s *MachineSpec) {
			put(t, s.at("server.key"), sec1(t, ecKey(t, elliptic.P256())))
		}, state: PairBroken,
			why: "do not belong together", newKey: true},
		"pair of another CA": {change: func(t *testing.T, s *MachineSpec) {
			other := made(t)
			put(t, s.at("server.crt"), read(t, other.at("server.crt")))
			put(t, s.at("server.key"), read(t, other.at("server.key")))
		}, state: PairWrong, why: `it was issued by another CA than that of ca.crt and ca.key ("etcd")`, newKey: true},
		"expired": {change: func(t *testing.T, s *MachineSpec) {
			strange(t, *s, func(r *Request) { r.Lifetime = time.Hour })
		}, at: now.Add(2 * time.Hour), state: PairExpired, why: "expired on 2026-05-01 13:00:00 UTC"},
		"last third": {change: func(t *testing.T, s *MachineSpec) {
			strange(t, *s, func(r *Request) { r.Lifetime = 100 * 24 * time.Hour })
		}, at: now.Add(70 * 24 * time.Hour), state: PairDue, why: "it expires on 2026-08-09"},
		"client only": {change: func(t *testing.T, s *MachineSpec) { strange(t, *s, func(r *Request) { r.Server = false }) },
			state: PairWrong, why: "not for servers"},
		"server only": {change: func(t *testing.T, s *MachineSpec) { strange(t, *s, func(r *Request) { r.Client = false }) },
			state: PairWrong, why: "not for clients"},
		"names that were asked for": {change: func(t *testing.T, s *MachineSpec) {
			strange(t, *s, func(r *Request) { r.DNSNames, r.IPs = []string{"a"}, r.IPs[:2] })
			s.ServerSANs = []string{"LocalHost", "::1"}
		}, state: PairWrong, why: "SANs localhost, ::1 are missing"},
		"the address": {change: func(t *testing.T, s *MachineSpec) {
			strange(t, *s, func(r *Request) { r.IPs = r.IPs[1:] })
		}, state: PairWrong, why: "SAN 10.0.0.1 is missing"},
		"new extra name": {change: func(_ *testing.T, s *MachineSpec) { s.ServerSANs = []string{"lb.example.com"} },
			state: PairWrong, why: "SAN lb.example.com is missing"},
		"key for all": {change: func(t *testing.T, s *MachineSpec) { os.Chmod(s.at("server.key"), 0o644) }, state: PairWrong,
			why: "mode 0644"},
	} {
		t.Run(name, func(t *testing.T) {
			s := made(t)
			before := certOf(t, s, "server")
			c.change(t, &s)
			at := now
			if !c.at.IsZero() {
				at = c.at
			}
			l := leafOf(t, s, "server", at)
			if l.State != c.state || !strings.Contains(l.Why, c.why) {
				t.Errorf("%s: %s", l.State, l.Why)
			}
			if pki := ObserveMachine(s, at); pki.Complete() || !slices.Equal(pki.ToIssue(), []string{"server"}) {
				t.Errorf("to issue: %q", pki.ToIssue())
			}
			others := contents(t, s.Dir)
			mustIssue(t, s, at, "server")
			for file, text := range contents(t, s.Dir) {
				if !strings.HasPrefix(file, "server.") && others[file] != text {
					t.Errorf("%s changed", file)
				}
			}
			if l := leafOf(t, s, "server", at); l.State != PairOK || l.Why != "" {
				t.Errorf("afterwards %s: %s", l.State, l.Why)
			}
			after := certOf(t, s, "server")
			if kept := KeyHash(before) == KeyHash(after); kept == c.newKey {
				t.Errorf("key kept: %v", kept)
			}
			mustIssue(t, s, at)
		})
	}
}

func TestADirectoryForAFileIsAnError(t *testing.T) {
	for _, file := range []string{"peer.crt", "peer.key"} {
		s := made(t)
		remove(t, s.at(file))
		if err := os.Mkdir(s.at(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if l := leafOf(t, s, "peer", now); l.State != PairBroken || !strings.Contains(l.Why, file+": is a directory") {
			t.Errorf("%+v", l)
		}
		if _, err := IssueMachine(s, now); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestPeerAndClientsAreComparedToo(t *testing.T) {
	s := made(t)
	s.Address = "10.0.0.2" // the machine has moved
	for name, want := range map[string]string{
		"server": "SAN 10.0.0.2 is missing", "peer": "SAN 10.0.0.2 is missing", "etcdctl-etcd-client": "",
		"apiserver-etcd-client": "",
	} {
		if l := leafOf(t, s, name, now); l.Why != want {
			t.Errorf("%s: %q", name, l.Why)
		}
	}
	mustIssue(t, s, now, "server", "peer")
	for _, host := range []string{"10.0.0.1", "10.0.0.2"} { // who knows it by the old one goes on
		if err := certOf(t, s, "server").VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
}

// A name more is no fault: who runs the command again without the flag keeps
// the certificate.
func TestNamesBeyondTheSpecAreKept(t *testing.T) {
	s := machine(t)
	s.ServerSANs = []string{"lb.example.com", "10.9.9.9"}
	mustCreate(t, s)
	mustIssue(t, s, now, MachinePairs()...)
	s.ServerSANs = nil
	if check := ObserveMachine(s, now); !check.Complete() || len(check.Warnings) > 0 {
		t.Errorf("%+v", check)
	}
	mustIssue(t, s, now)
}

func TestCAStates(t *testing.T) {
	rsaCA := selfSigned(t, "brought", rsaKey(), nil)
	for name, c := range map[string]struct {
		change  func(*testing.T, MachineSpec)
		at      time.Time
		state   PairState
		problem string
	}{
		"nothing": {change: func(t *testing.T, s MachineSpec) { remove(t, s.at("ca.crt"), s.at("ca.key")) },
			state: PairMissing, problem: "there is no CA in"},
		"key alone": {change: func(t *testing.T, s MachineSpec) { remove(t, s.at("ca.crt")) }, state: PairBroken,
			problem: "but not its certificate"},
		"external": {change: func(t *testing.T, s MachineSpec) { remove(t, s.at("ca.key")) }, state: PairExternal},
		"garbage": {change: func(t *testing.T, s MachineSpec) { put(t, s.at("ca.crt"), []byte("x")) },
			state: PairBroken, problem: "ca.crt: there is no certificate"},
		"garbage key": {change: func(t *testing.T, s MachineSpec) { put(t, s.at("ca.key"), []byte("x")) },
			state: PairBroken, problem: "ca.key: there is no private key"},
		"other key": {change: func(t *testing.T, s MachineSpec) {
			put(t, s.at("ca.key"), sec1(t, ecKey(t, elliptic.P256())))
		}, state: PairBroken, problem: "no certificate in"},
		"directory": {change: func(t *testing.T, s MachineSpec) {
			remove(t, s.at("ca.key"))
			os.Mkdir(s.at("ca.key"), 0o700)
		}, state: PairBroken, problem: "ca.key: is a directory"},
		"a leaf": {change: func(t *testing.T, s MachineSpec) { copyPair(t, s, "server", "ca") }, state: PairBroken,
			problem: "not a CA certificate"},
		"external a leaf": {change: func(t *testing.T, s MachineSpec) {
			copyPair(t, s, "server", "ca")
			remove(t, s.at("ca.key"))
		}, state: PairBroken, problem: "not a CA certificate"},
		"expired": {at: now.Add(3651 * 24 * time.Hour), state: PairExpired, problem: "expired on"},
		"external expired": {change: func(t *testing.T, s MachineSpec) { remove(t, s.at("ca.key")) },
			at: now.Add(3651 * 24 * time.Hour), state: PairExpired,
			problem: "expired on"},
		"clock is behind": {at: now.Add(-time.Hour), state: PairBroken, problem: "check the clock"},
		"brought, RSA in PKCS#1": {change: func(t *testing.T, s MachineSpec) {
			text, err := keyPEM(rsaKey())
			if err != nil {
				t.Fatal(err)
			}
			put(t, s.at("ca.crt"), certPEM(rsaCA))
			put(t, s.at("ca.key"), text)
		}, state: PairOK},
	} {
		t.Run(name, func(t *testing.T) {
			s := made(t)
			if c.change != nil {
				c.change(t, s)
			}
			at := now
			if !c.at.IsZero() {
				at = c.at
			}
			before := contents(t, s.Dir)
			check := ObserveMachine(s, at)
			if check.CA.State != c.state || !strings.Contains(check.CA.Problem, c.problem) ||
				(check.CA.Problem == "") != (c.problem == "") {
				t.Errorf("%s: %q", check.CA.State, check.CA.Problem)
			}
			issued, err := IssueMachine(s, at)
			var none *NoCAError
			var file *FileError
			switch c.state {
			case PairMissing:
				if !errors.As(err, &none) || !strings.Contains(none.Hint(), s.Dir) {
					t.Errorf("issue: %v", err)
				}
			case PairBroken, PairExpired:
				if !errors.As(err, &file) || file.Hint() == "" || !strings.Contains(err.Error(), c.problem) {
					t.Errorf("issue: %v", err)
				}
			case PairOK:
				if err != nil || len(issued) != 4 || !ObserveMachine(s, at).Complete() {
					t.Errorf("issued %q, %v", issued, err)
				}
				return
			default:
				if err != nil || len(issued) > 0 || !check.Complete() {
					t.Errorf("issued %q, %v, %+v", issued, err, check)
				}
			}
			if !same(before, contents(t, s.Dir)) {
				t.Error("files changed")
			}
		})
	}
}

func copyPair(t *testing.T, s MachineSpec, from, to string) {
	t.Helper()
	for _, ext := range []string{".crt", ".key"} {
		put(t, s.at(to+ext), read(t, s.at(from+ext)))
	}
}

func TestCAKeyForAllIsReportedOf(t *testing.T) {
	s := made(t)
	if err := os.Chmod(s.at("ca.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	if w := ObserveMachine(s, now).Warnings; len(w) != 1 ||
		!strings.Contains(w[0], "everybody on this machine can read "+s.at("ca.key")) {
		t.Errorf("warnings %q", w)
	}
}

// The CA of the existing etcdadm has serial number 0, RSA, and other key
// usages. It serves on.
func TestCAOfTheExistingEtcdadm(t *testing.T) {
	s := machine(t)
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cert := selfSigned(t, "etcd", rsaKey(), func(c *x509.Certificate) {
		c.DNSNames = []string{"etcd"}
		c.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign
	})
	key, err := keyPEM(rsaKey())
	if err != nil {
		t.Fatal(err)
	}
	put(t, s.at("ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: withSerialZero(t, cert.Raw)}))
	put(t, s.at("ca.key"), key)
	if c := certOf(t, s, "ca"); c.SerialNumber.Sign() != 0 {
		t.Fatalf("serial number %s", c.SerialNumber)
	}
	mustIssue(t, s, now, MachinePairs()...)
	roots := x509.NewCertPool()
	roots.AddCert(certOf(t, s, "ca"))
	if _, err := certOf(t, s, "server").Verify(x509.VerifyOptions{
		Roots: roots, DNSName: "10.0.0.1", CurrentTime: now,
	}); err != nil {
		t.Error(err)
	}
}

// withSerialZero signs a certificate of rsaKey again with the serial number 0,
// which crypto/x509 reads and does not write.
func withSerialZero(t *testing.T, der []byte) []byte {
	t.Helper()
	var c struct {
		TBS       asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}
	if _, err := asn1.Unmarshal(der, &c); err != nil {
		t.Fatal(err)
	}
	one, _ := asn1.Marshal(big.NewInt(1))
	zero, _ := asn1.Marshal(big.NewInt(0))
	tbs := []byte(strings.Replace(string(c.TBS.FullBytes), string(one), string(zero), 1))
	sum := sha256.Sum256(tbs)
	signature, err := rsaKey().Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	c.TBS = asn1.RawValue{FullBytes: tbs}
	c.Signature = asn1.BitString{Bytes: signature, BitLength: len(signature) * 8}
	out, err := asn1.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A CA that is not valid yet says from when it will be, with its key and without.
func TestCAThatIsNotValidYet(t *testing.T) {
	s := made(t)
	early := now.Add(-time.Hour)
	for _, what := range []string{"with its key", "without"} {
		if what == "without" {
			remove(t, s.at("ca.key"))
		}
		got := ObserveMachine(s, early).CA
		if got.State != PairBroken || got.ValidFrom.IsZero() || !got.ValidFrom.After(early) || got.ValidFrom.After(now) {
			t.Errorf("%s: %+v", what, got)
		}
		if got := ObserveMachine(s, now.AddDate(20, 0, 0)).CA; got.State != PairExpired || !got.ValidFrom.IsZero() {
			t.Errorf("%s, expired: %+v", what, got)
		}
	}
}

// Without the CA's key, pairs that others issued are held against what etcd
// needs, and what is not there is asked for.
func TestExternalCA(t *testing.T) {
	s := made(t)
	full := contents(t, s.Dir)
	remove(t, s.at("ca.key"))
	for name, c := range map[string]struct {
		change func(*testing.T, *MachineSpec)
		at     time.Time
		why    string // of the server; empty if it is good enough
	}{
		"all there":  {change: func(*testing.T, *MachineSpec) {}},
		"last third": {change: func(*testing.T, *MachineSpec) {}, at: now.Add(300 * 24 * time.Hour)},
		"expired":    {change: func(*testing.T, *MachineSpec) {}, at: now.Add(366 * 24 * time.Hour), why: "expired"},
		"missing": {change: func(t *testing.T, s *MachineSpec) { remove(t, s.at("server.crt")) },
			why: "its key exists, but not"},
		"new name": {change: func(_ *testing.T, s *MachineSpec) { s.ServerSANs = []string{"x"} }, why: "SAN x is missing"},
		"new address": {change: func(_ *testing.T, s *MachineSpec) { s.Address = "10.0.0.2" },
			why: "SAN 10.0.0.2 is missing"},
		"without extra": {change: func(t *testing.T, s *MachineSpec) {
			reissue(t, *s, full, func(r *Request) { r.DNSNames, r.IPs = nil, r.IPs[:2] })
		}},
		"organization": {change: func(t *testing.T, s *MachineSpec) {
			reissue(t, *s, full, func(r *Request) { r.Organization = []string{"ACME"} })
		}},
		"not loopback": {change: func(t *testing.T, s *MachineSpec) {
			reissue(t, *s, full, func(r *Request) { r.IPs = r.IPs[:1] })
		}, why: "SAN 127.0.0.1 is missing"},
		"other CA": {change: func(t *testing.T, s *MachineSpec) {
			put(t, s.at("ca.crt"), newCA(t, "other").PEM())
		}, why: `no CA in ca.crt has issued it ("etcd" did)`},
	} {
		t.Run(name, func(t *testing.T) {
			s := s
			s.Dir = filepath.Join(t.TempDir(), "pki")
			if err := os.MkdirAll(s.Dir, 0o755); err != nil {
				t.Fatal(err)
			}
			for file, text := range full {
				if file != "ca.key" {
					put(t, s.at(file), []byte(text))
				}
			}
			c.change(t, &s)
			at := now
			if !c.at.IsZero() {
				at = c.at
			}
			before := contents(t, s.Dir)
			pki := ObserveMachine(s, at)
			issued, err := IssueMachine(s, at)
			if len(issued) > 0 || !same(before, contents(t, s.Dir)) {
				t.Errorf("issued %q", issued)
			}
			var external *ExternalCAError
			if c.why == "" {
				if err != nil || !pki.Complete() {
					t.Errorf("%v, %+v", err, pki)
				}
				return
			}
			if !errors.As(err, &external) || !strings.Contains(err.Error(), "server: ") ||
				!strings.Contains(err.Error(), c.why) || pki.Complete() {
				t.Errorf("error %v", err)
			}
			if external != nil && !strings.Contains(external.Hint(), "etcdadm certs generate-csr --certs-dir="+s.Dir) {
				t.Errorf("hint %q", external.Hint())
			}
		})
	}
}

// reissue is strange for a machine without the CA's key, which is in files.
func reissue(t *testing.T, s MachineSpec, files map[string]string, change func(*Request)) {
	t.Helper()
	put(t, s.at("ca.key"), []byte(files["ca.key"]))
	strange(t, s, change)
	remove(t, s.at("ca.key"))
}

// An external CA may have an intermediate one, whose certificate follows that
// of the leaf.
func TestExternalCAWithAnIntermediate(t *testing.T) {
	s := made(t)
	root := newCA(t, "root")
	key := ecKey(t, elliptic.P256())
	template := selfSigned(t, "between", key, nil)
	der, err := x509.CreateCertificate(rand.Reader, template, root.Cert, key.Public(), root.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	between := &CA{Cert: cert, Bundle: []*x509.Certificate{cert}, key: key}
	requests, _, err := s.requests()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		leaf := issue(t, between, r.Request)
		text, err := leaf.KeyPEM()
		if err != nil {
			t.Fatal(err)
		}
		put(t, s.at(r.name+".key"), text)
		put(t, s.at(r.name+".crt"), append(leaf.CertPEM(), certPEM(cert)...))
	}
	put(t, s.at("ca.crt"), root.PEM())
	remove(t, s.at("ca.key"))
	for _, l := range ObserveMachine(s, now).Leaves {
		if !l.Usable() {
			t.Errorf("%s: %s %s", l.Name, l.State, l.Why)
		}
	}
}

// etcd's user can read the two keys that etcd needs, and no other.
func TestKeysForAnUnprivilegedUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	s := machine(t)
	s.Owner = &FileOwner{UID: 4711, GID: 4712}
	mustCreate(t, s)
	mustIssue(t, s, now, MachinePairs()...)
	owners := map[string]int{
		"server.key": 4711, "peer.key": 4711, "ca.key": 0, "etcdctl-etcd-client.key": 0, "apiserver-etcd-client.key": 0,
		"server.crt": 0,
	}
	check := func(when string) {
		t.Helper()
		for file, uid := range owners {
			if o := ownerOf(s.at(file)); o == nil || o.UID != uid {
				t.Errorf("%s: %s belongs to %v", when, file, o)
			}
		}
	}
	check("issued")

	if err := os.Chown(s.at("server.key"), 0, 0); err != nil {
		t.Fatal(err)
	}
	before := certOf(t, s, "server")
	if l := leafOf(t, s, "server", now); l.State != PairWrong ||
		!strings.Contains(l.Why, "user 4711, who runs etcd, cannot read") {
		t.Errorf("%+v", l)
	}
	mustIssue(t, s, now, "server")
	check("given back")
	if !certOf(t, s, "server").Equal(before) {
		t.Error("it was issued again for its owner's sake")
	}

	// A renewal that knows nothing of the user keeps him.
	remove(t, s.at("peer.key"))
	if _, err := RenewFiles(MachineSpec{Dir: s.Dir}, nil, now); err != nil {
		t.Fatal(err)
	}
	check("renewed")
	if _, err := RotateCA(MachineSpec{Dir: s.Dir}, StepPrepare, "", now); err != nil {
		t.Fatal(err)
	}
	if _, err := RotateCA(MachineSpec{Dir: s.Dir}, StepIssue, "", now); err != nil {
		t.Fatal(err)
	}
	check("rotated")

	// A group is as good.
	if err := errors.Join(os.Chown(s.at("server.key"), 0, 4712), os.Chmod(s.at("server.key"), 0o640)); err != nil {
		t.Fatal(err)
	}
	mustIssue(t, s, now)
}

// The certificate changes and the key does not: at every write in between, the
// two files of a pair that was good belong together.
func TestIssueKeepsPairsTogetherAtEveryMoment(t *testing.T) {
	s := made(t)
	s.Address = "10.0.0.2"
	moments := 0
	s.write = func(path string, data []byte, perm os.FileMode) error {
		if err := writeFile(path, data, perm); err != nil {
			return err
		}
		moments++
		for _, name := range MachinePairs() {
			if _, state, why := readPair(s.Dir, name); state != "" {
				t.Errorf("after %s: %s", filepath.Base(path), why)
			}
		}
		return nil
	}
	mustIssue(t, s, now, "server", "peer")
	if moments != 2 {
		t.Errorf("%d writes", moments)
	}
}

// Whenever the machine dies, issuing again completes the work; what was good
// stays good.
func TestIssueAfterACrash(t *testing.T) {
	dead := errors.New("power is off")
	for writes := range 8 {
		s := machine(t)
		mustCreate(t, s)
		n := 0
		s.write = func(path string, data []byte, perm os.FileMode) error {
			if n++; n > writes {
				put(t, filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp-1"), data[:len(data)/2])
				return dead
			}
			return writeFile(path, data, perm)
		}
		issued, err := IssueMachine(s, now)
		if !errors.Is(err, dead) || len(issued) != writes/2 {
			t.Fatalf("after %d writes: issued %q, %v", writes, issued, err)
		}
		s.write = nil
		again, err := IssueMachine(s, now)
		if err != nil || len(again) != 4-writes/2 || !ObserveMachine(s, now).Complete() {
			t.Errorf("after %d writes: issued %q again, %v", writes, again, err)
		}
		for name := range contents(t, s.Dir) {
			if strings.Contains(name, ".tmp-") {
				t.Errorf("after %d writes: %s is left", writes, name)
			}
		}
	}
}

// A CA that was killed while it was made leaves nothing behind, least of all a part of a key.
func TestCreateAfterACrash(t *testing.T) {
	dead := errors.New("power is off")
	for writes := range 2 {
		s := machine(t)
		n := 0
		s.write = func(path string, data []byte, perm os.FileMode) error {
			if n++; n > writes {
				put(t, filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp-1"), data[:len(data)/2])
				return dead
			}
			return writeFile(path, data, perm)
		}
		if err := CreateMachineCA(s, now); !errors.Is(err, dead) {
			t.Fatalf("after %d writes: %v", writes, err)
		}
		s.write = nil
		mustCreate(t, s)
		for name := range contents(t, s.Dir) {
			if strings.Contains(name, ".tmp-") {
				t.Errorf("after %d writes: %s is left", writes, name)
			}
		}
	}
}

func TestKeyHashStaysWithTheKey(t *testing.T) {
	key := ecKey(t, elliptic.P256())
	a, b := selfSigned(t, "a", key, nil), selfSigned(t, "b", key, nil)
	if KeyHash(a) != KeyHash(b) || Fingerprint(a) == Fingerprint(b) {
		t.Error("hashes of certificates and keys are mixed up")
	}
}
