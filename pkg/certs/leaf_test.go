package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func issue(t *testing.T, ca *CA, r Request) Leaf {
	t.Helper()
	leaf, err := ca.Issue(r, now)
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

func TestIssuedCertificate(t *testing.T) {
	ca := newCA(t, "ca")
	leaf := issue(t, ca, Request{
		CommonName: "n", DNSNames: []string{"n", "n.x"}, IPs: []net.IP{net.IPv6loopback}, Server: true, Client: true,
	})
	c := leaf.Cert
	if err := c.CheckSignatureFrom(ca.Cert); err != nil {
		t.Error(err)
	}
	if !c.NotBefore.Equal(ca.Cert.NotBefore) || !c.NotAfter.Equal(now.Add(2*year)) {
		t.Errorf("valid from %s to %s", c.NotBefore, c.NotAfter)
	}
	if c.KeyUsage != x509.KeyUsageDigitalSignature|x509.KeyUsageKeyEncipherment || c.IsCA ||
		len(c.Subject.Organization) > 0 {
		t.Errorf("usage %b, CA %v, subject %s", c.KeyUsage, c.IsCA, c.Subject)
	}
	critical := false
	for _, e := range c.Extensions {
		critical = critical || e.Id.String() == "2.5.29.15" && e.Critical
	}
	if !critical {
		t.Error("key usage is not critical")
	}
	if c.SerialNumber.Sign() <= 0 || c.SerialNumber.BitLen() > 63 {
		t.Errorf("serial number %s", c.SerialNumber)
	}
	if key, ok := c.PublicKey.(*ecdsa.PublicKey); !ok || key.Params().Name != "P-256" {
		t.Errorf("key is %T", c.PublicKey)
	}
	if other := issue(t, ca, Request{CommonName: "n", Server: true}); other.Cert.SerialNumber.Cmp(c.SerialNumber) == 0 {
		t.Error("two certificates have one serial number")
	}
	key, err := leaf.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(leaf.CertPEM(), key); err != nil {
		t.Errorf("the PEM texts do not belong together: %v", err)
	}
}

func TestIssueWithRSA(t *testing.T) {
	leaf := issue(t, newCA(t, "ca"), Request{CommonName: "n", Client: true, RSA: true})
	if key, ok := leaf.Cert.PublicKey.(*rsa.PublicKey); !ok || key.N.BitLen() != 2048 {
		t.Errorf("key is %T", leaf.Cert.PublicKey)
	}
	if key, err := leaf.KeyPEM(); err != nil || !bytes.Contains(key, []byte("BEGIN RSA PRIVATE KEY")) {
		t.Errorf("%.40q, %v", key, err)
	}
}

func TestIssueNeverOutlivesItsCA(t *testing.T) {
	ca, err := NewCA(CASpec{CommonName: "short", Lifetime: time.Hour}, now)
	if err != nil {
		t.Fatal(err)
	}
	if leaf := issue(t, ca, EtcdClient("x")); !leaf.Cert.NotAfter.Equal(ca.Cert.NotAfter) {
		t.Errorf("ends %s, the CA ends %s", leaf.Cert.NotAfter, ca.Cert.NotAfter)
	}
	short := EtcdClient("x")
	short.Lifetime = time.Minute
	if leaf := issue(t, ca, short); !leaf.Cert.NotAfter.Equal(now.Add(time.Minute)) {
		t.Errorf("ends %s", leaf.Cert.NotAfter)
	}
	var validity *ValidityError
	if _, err := ca.Issue(EtcdClient("x"), now.Add(2*time.Hour)); !errors.As(err, &validity) || !validity.Expired() {
		t.Errorf("an expired CA issued: %v", err)
	}
	if _, err := ca.Issue(EtcdClient("x"), now.Add(-2*time.Hour)); !errors.As(err, &validity) || validity.Expired() {
		t.Errorf("a CA issued before its time: %v", err)
	}
}

func TestIssueRefusesHalfARequest(t *testing.T) {
	ca := newCA(t, "ca")
	for want, r := range map[string]Request{
		"common name is missing": {Server: true},
		"neither for a server":   {CommonName: "x"},
		"lifetime is -1s":        {CommonName: "x", Server: true, Lifetime: -time.Second},
		"issue x: ":              {CommonName: "x", Server: true, DNSNames: []string{"münchen"}},
	} {
		if _, err := ca.Issue(r, now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestProfiles(t *testing.T) {
	urls := cluster.URLs{
		Peer:       []string{"https://10.0.0.1:2380", "https://a.peer:2380", "https://[fd00::1]:2380"},
		Client:     []string{"https://10.0.0.1:4001", "https://a.client:4001"},
		Quarantine: []string{"https://10.0.0.7:3994"},
	}
	must := func(r Request, err error) Request {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for name, c := range map[string]struct {
		got  Request
		want string
	}{
		"daemon, server": {ManagerServer("a"), "etcd-manager-server-a [etcd-manager-server-a] [] server"},
		"daemon, client": {ManagerClient("a"), "etcd-manager-client-a [] [] client"},
		"etcd, client":   {EtcdClient(EtcdClientName("a")), "etcd-manager-a [] [] client"},
		"etcd, peer": {must(EtcdPeer("a", urls, net.ParseIP("10.0.0.9"), net.ParseIP("10.0.0.1"))),
			"a [a a.peer] [10.0.0.9 10.0.0.1 fd00::1 127.0.0.1 ::1] client server"},
		"etcd, server": {must(EtcdServer("a", urls)),
			"a [a a.client a.peer] [10.0.0.1 10.0.0.7 fd00::1 127.0.0.1 ::1] client server"},
		"etcd, on loopback": {must(EtcdServer("a", cluster.URLs{Client: []string{"http://127.0.0.1:4001"}})),
			"a [a] [127.0.0.1 ::1] client server"},
	} {
		got := fmt.Sprint(c.got.CommonName, " ", c.got.DNSNames, " ", c.got.IPs)
		if c.got.Client {
			got += " client"
		}
		if c.got.Server {
			got += " server"
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	for _, bad := range []string{"https://:2380", "10.0.0.1", "https://%zz"} {
		if _, err := EtcdPeer("a", cluster.URLs{Peer: []string{bad}}); err == nil ||
			!strings.Contains(err.Error(), "certificate for a") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func TestPeerOwnerOfANode(t *testing.T) {
	ca := newCA(t, "ca")
	verified := func(cn string) tls.ConnectionState {
		leaf := issue(t, ca, Request{CommonName: cn, Client: true})
		return tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf.Cert, ca.Cert}}}
	}
	for cn, want := range map[string]cluster.NodeName{
		"etcd-manager-client-a": "a", "etcd-manager-server-b": "b", "etcd-manager-client--x_1.y": "-x_1.y",
		"etcd-manager-a": "", "a": "", "etcd-manager-client-": "", "etcd-manager-client-a b": "",
		"etcd-manager-client-../x": "",
	} {
		got, err := PeerOwner(verified(cn))
		if got.Name != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, ErrNoPeer) {
			t.Errorf("%s: got %q, %v", cn, got.Name, err)
		}
	}
	unverified := verified("etcd-manager-client-a")
	unverified.PeerCertificates, unverified.VerifiedChains = unverified.VerifiedChains[0], nil
	if got, err := PeerOwner(unverified); !errors.Is(err, ErrNoPeer) {
		t.Errorf("without verification: got %q, %v", got.Name, err)
	}
}
