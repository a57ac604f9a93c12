package nodeobserve

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// TestMembersAreAskedWithTheCertificateOfTheMember also when the disk takes no new
// one.
func TestMembersAreAskedWithTheCertificateOfTheMember(t *testing.T) {
	dir := t.TempDir()
	ca, err := certs.NewCA(certs.CASpec{CommonName: "peers", Lifetime: time.Hour}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	urls := cluster.URLs{Peer: []string{"https://127.0.0.1:1"}, Client: []string{"https://127.0.0.1:2"}}
	request, err := certs.EtcdPeer("a", urls)
	if err != nil {
		t.Fatal(err)
	}
	request.Lifetime = time.Hour
	files := etcdconf.Files{
		CA: filepath.Join(dir, "ca.crt"), Cert: filepath.Join(dir, "me.crt"), Key: filepath.Join(dir, "me.key"),
	}
	if _, _, err := (certs.Pair{CertFile: files.Cert, KeyFile: files.Key, CAFile: files.CA, Request: request}).Ensure(ca,
		time.Now()); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"etcdserver":"3.6.16"}`)) }))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: ca.Pool(),
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	defer s.Close()

	o := New(Options{Name: "a", TLS: new(fakeTLS)})
	if _, err := o.peer(); err == nil {
		t.Error("it has a certificate before a member was started")
	}
	o.Started(urls.Peer, &etcdconf.TLS{Peer: files, Client: files})
	p, err := o.peer()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if v, err := p.Version(t.Context(), s.URL); err != nil || v != etcdversion.Must("3.6.16") {
		t.Errorf("%s, %v", v, err)
	}
	if err := os.Remove(files.Key); err != nil {
		t.Fatal(err)
	}
	if _, err := o.peer(); err == nil {
		t.Error("there is no key")
	}
}

// fakeTLS gives clients a configuration without key material.
type fakeTLS struct{}

func (fakeTLS) Client() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }

func TestTheLeaderIsAskedLast(t *testing.T) {
	for _, c := range []struct {
		self, leader cluster.NodeName
		want         string
	}{
		{"a", "", "bcde"}, {"c", "", "deab"}, {"e", "", "abcd"}, {"c", "d", "eabd"}, {"a", "e", "bcde"}, {"b", "b", "cdea"},
	} {
		var members []asked
		for _, n := range []cluster.NodeName{"a", "b", "c", "d", "e"} {
			if n != c.self {
				members = append(members, asked{MemberDigest: cluster.MemberDigest{Name: n}})
			}
		}
		got := ""
		for _, m := range askOrder(members, c.self, c.leader) {
			got += string(m.Name)
		}
		if got != c.want {
			t.Errorf("%s asks %s where %q leads, want %s", c.self, got, c.leader, c.want)
		}
	}
}
