package certs

import (
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"slices"
	"testing"
	"time"
)

// Certificates that somebody else made of the machine's CA are used, whatever
// they say beyond what etcd needs.
func TestCertificatesOfOthersAreUsed(t *testing.T) {
	for name, change := range map[string]func(*Request){
		"common name":     func(r *Request) { r.CommonName = "etcd.example.com" },
		"organization":    func(r *Request) { r.Organization = []string{MastersGroup, "ACME"} },
		"retired etcdadm": func(r *Request) { r.DNSNames, r.IPs = []string{"a"}, r.IPs[:2] },
		"addresses alone": func(r *Request) { r.DNSNames, r.IPs = nil, r.IPs[:2] },
		"short life":      func(r *Request) { r.Lifetime = 30 * 24 * time.Hour },
		"more names":      func(r *Request) { r.DNSNames = append(r.DNSNames, "lb.example.com") },
	} {
		t.Run(name, func(t *testing.T) {
			s := made(t)
			strange(t, s, change)
			before := contents(t, s.Dir)
			if check := ObserveMachine(s, now); !check.Complete() || len(check.Warnings) > 0 {
				t.Errorf("%+v", check)
			}
			mustIssue(t, s, now)
			if !same(before, contents(t, s.Dir)) {
				t.Error("files changed")
			}
		})
	}
}

// What is issued in place of somebody's certificate has his names, and his
// subject if he had it of a CA that is trusted.
func TestNamesOfThePresentCertificateStay(t *testing.T) {
	s := made(t)
	theirs := func(r *Request) {
		r.CommonName, r.Organization = "etcd.example.com", []string{"ACME"}
		r.DNSNames, r.IPs = append(r.DNSNames, "lb.example.com"), append(r.IPs, net.IP{10, 9, 9, 9})
	}
	has := func(t *testing.T, s MachineSpec, subject string, hosts ...string) {
		t.Helper()
		cert := certOf(t, s, "server")
		if cert.Subject.String() != subject {
			t.Errorf("subject %s", cert.Subject)
		}
		for _, host := range append(hosts, "lb.example.com", "10.9.9.9", "10.0.0.1", "localhost") {
			if err := cert.VerifyHostname(host); err != nil {
				t.Error(err)
			}
		}
	}
	strange(t, s, theirs)
	s.ServerSANs = []string{"new.example.com"}
	mustIssue(t, s, now, "server")
	has(t, s, "CN=etcd.example.com,O=ACME", "new.example.com")

	mustIssue(t, s, now.Add(366*24*time.Hour), MachinePairs()...) // expired
	has(t, s, "CN=etcd.example.com,O=ACME", "new.example.com")

	other := made(t) // a CA in place of the one that issued it
	for _, ext := range []string{".crt", ".key"} {
		put(t, s.at("ca"+ext), read(t, other.at("ca"+ext)))
	}
	mustIssue(t, s, now, MachinePairs()...)
	has(t, s, "CN=a", "new.example.com")
}

func TestCAIsRSA(t *testing.T) {
	s := machine(t)
	if CAIsRSA(s.Dir) {
		t.Error("without a CA")
	}
	mustCreate(t, s)
	if CAIsRSA(s.Dir) {
		t.Error("an ECDSA one")
	}
	s = machine(t)
	s.RSA = true
	mustCreate(t, s)
	if !CAIsRSA(s.Dir) {
		t.Error("not an RSA one")
	}
}

// The set that kubeadm makes, whose client certificates have a common name of
// their own, is used as it is.
func TestCertificatesOfKubeadm(t *testing.T) {
	s := machine(t)
	s.RSA = true
	mustCreate(t, s)
	mustIssue(t, s, now, MachinePairs()...)
	ca, err := LoadCA(s.Dir, MachineCA, now)
	if err != nil {
		t.Fatal(err)
	}
	for pair, cn := range map[string]string{EtcdctlPair: "kube-etcd-healthcheck-client",
		APIServerPair: "kube-apiserver-etcd-client"} {
		leaf := issue(t, ca, Request{CommonName: cn, Client: true, RSA: true, Lifetime: 365 * 24 * time.Hour})
		key, err := leaf.KeyPEM()
		err = errors.Join(err, os.WriteFile(s.at(pair+".key"), key, 0o600))
		if err != nil {
			t.Fatal(err)
		}
		put(t, s.at(pair+".crt"), leaf.CertPEM())
	}
	mustIssue(t, s, now)
	c := certOf(t, s, APIServerPair)
	if _, ok := c.PublicKey.(*rsa.PublicKey); !ok || c.Subject.CommonName != "kube-apiserver-etcd-client" ||
		!slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
		t.Errorf("%s", c.Subject)
	}
}
