package operate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
)

// peerFiles writes what etcd takes its peers with.
func peerFiles(t *testing.T, conf *tls.Config, ca *x509.Certificate, url string) machine.PeerEnd {
	t.Helper()
	dir := t.TempDir()
	end := machine.PeerEnd{URLs: []string{url}, CA: filepath.Join(dir, "ca"), Cert: filepath.Join(dir, "crt"),
		Key: filepath.Join(dir, "key")}
	key, err := x509.MarshalPKCS8PrivateKey(conf.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{
		end.CA: {Type: "CERTIFICATE", Bytes: ca.Raw}, end.Key: {Type: "PRIVATE KEY", Bytes: key},
		end.Cert: {Type: "CERTIFICATE", Bytes: conf.Certificates[0].Certificate[0]},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return end
}

// A member that connects is known by the ID that it gives, and gets no answer; who has a certificate of
// another authority is not taken for it. The port is etcd's afterwards.
func TestMembersAreMetAtThePeerPort(t *testing.T) {
	conf, ca := newPeersOf(t)
	strangers, _ := newPeersOf(t)
	at := testport.Address(t)
	p, err := listenPeers(t.Context(), peerFiles(t, conf, ca, "https://"+at))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	voters := []cluster.Member{{ID: 0xa}, {ID: 0xb}}
	say := func(conf *tls.Config, id string) error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+at+"/raft/stream/msgapp/1", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Server-From", id)
		resp, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}}).Do(r)
		if err == nil {
			_ = resp.Body.Close()
			t.Errorf("it is answered with %s", resp.Status)
		}
		return err
	}
	if !p.nobody() {
		t.Error("somebody has come")
	}
	if !listening(t.Context(), []string{"https://" + at}) {
		t.Error("nobody listens")
	}
	_ = say(conf, "b")
	strange := strangers.Clone()
	strange.RootCAs = conf.RootCAs
	if err := say(strange, "a"); err == nil {
		t.Error("a stranger is taken")
	}
	ended, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if m := p.await(ended, voters, func([]cluster.Member) {}); len(m) != 1 || m[0].ID != 0xa {
		t.Errorf("missing are %+v", m)
	}
	if !strings.Contains(p.problem(), "TLS handshake error") {
		t.Errorf("the stranger's handshake is %q", p.problem())
	}
	go func() { _ = say(conf, "a") }()
	if m := p.await(t.Context(), voters, func([]cluster.Member) {}); len(m) > 0 {
		t.Errorf("missing are %+v", m)
	}
	if _, err := listenPeers(t.Context(), peerFiles(t, conf, ca, "https://"+at)); err == nil {
		t.Error("the port is not taken")
	}
	p.close()
	again, err := listenPeers(t.Context(), peerFiles(t, conf, ca, "https://"+at))
	if err != nil {
		t.Fatalf("the port is not free afterwards: %v", err)
	}
	again.close()
}

// What a member's etcd says: it has a number for whom it has reached once; before 3.4 for nobody.
func TestWhatAMemberSaysOfALearner(t *testing.T) {
	v36, old := cluster.Member{Version: etcdversion.Must("3.6.16")}, cluster.Member{Version: etcdversion.Must("3.3.27")}
	for what, tc := range map[string]struct {
		active map[cluster.MemberID]bool
		err    error
		from   cluster.Member
		want   machine.Reach
	}{
		"it does":             {map[cluster.MemberID]bool{1: true}, nil, v36, machine.Reached},
		"no more":             {map[cluster.MemberID]bool{1: false}, nil, v36, machine.NotReached},
		"it never has":        {map[cluster.MemberID]bool{2: true}, nil, v36, machine.NotReached},
		"nobody":              {nil, nil, v36, machine.NotReached},
		"it does not answer":  {nil, errors.New("x"), v36, machine.ReachUnknown},
		"it has no number":    {nil, nil, old, machine.ReachUnknown},
		"its version unknown": {nil, nil, cluster.Member{}, machine.ReachUnknown},
	} {
		if got := reach(tc.active, tc.err, tc.from, 1); got != tc.want {
			t.Errorf("%s: %q, want %q", what, got, tc.want)
		}
	}
}

// Voters that do not say whether they reach the peer port are named, once.
func TestVotersThatDoNotSayAreNamedOnce(t *testing.T) {
	var said []string
	m := &Machine{o: Options{Warned: func(id, text string) { said = append(said, id+": "+text) }}}
	m.warnReachUnknown(nil)
	for range 2 {
		m.warnReachUnknown([]cluster.Member{{Name: "a"}, {Name: "b"}})
	}
	if want := []string{"PeerPorts: it is not known whether this machine's peer port is reached by a, b"}; !slices.Equal(said, want) {
		t.Errorf("it says %q", said)
	}
}
