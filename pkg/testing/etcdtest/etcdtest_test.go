package etcdtest

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
)

func TestAMemberServesUntilItIsKilled(t *testing.T) {
	Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		m := New(t, "a")
		m.Start(t, bin)
		c := Dial(t, m)
		AwaitRead(t, c)
		if _, err := c.Put(t.Context(), "k", "v"); err != nil {
			t.Fatal(err)
		}
		if err := m.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		m.Kill()
		m.Kill()
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := c.Get(short, "k"); err == nil {
			t.Error("it serves though it was killed")
		}
		m.Start(t, bin)
		AwaitRead(t, c)
		if r, err := c.Get(t.Context(), "k"); err != nil || r.Count != 1 {
			t.Errorf("after its second start: %v, %v", r, err)
		}
	})
}

// The versions that are tested are among those that the images are made of.
func TestVersionsAreThoseOfTheImages(t *testing.T) {
	for _, version := range append([]string{V3521, V36}, Versions...) {
		if _, err := os.Stat("../../../images/etcd/" + version + "/go.mod"); err != nil {
			t.Error(err)
		}
	}
}

func TestMembersOfOneCluster(t *testing.T) {
	bin := Binaries(t, V36)
	a, b := New(t, "a"), New(t, "b")
	initial := Initial(a, b)
	if want := "a=" + a.PeerURL + ",b=" + b.PeerURL; initial != want {
		t.Errorf("%s, want %s", initial, want)
	}
	for _, m := range []*Member{a, b} {
		m.Start(t, bin, "--initial-cluster="+initial)
	}
	c := Dial(t, a, b)
	AwaitRead(t, c)
	if r, err := c.MemberList(t.Context()); err != nil || len(r.Members) != 2 {
		t.Errorf("%v, %v", r, err)
	}
}

func TestSecureMembersHaveURLsThatSaySo(t *testing.T) {
	m := New(t, "a")
	m.SecureClients(Pair{Cert: "c", Key: "k", CA: "ca"})
	m.SecurePeers(Pair{Cert: "pc", Key: "pk", CA: "pca"})
	if !strings.HasPrefix(m.ClientURL, "https://127") || !strings.HasPrefix(m.PeerURL, "https://127") {
		t.Errorf("%s, %s", m.ClientURL, m.PeerURL)
	}
	want := "--unsafe-no-fsync --client-cert-auth --trusted-ca-file=ca --cert-file=c --key-file=k" +
		" --peer-client-cert-auth --peer-trusted-ca-file=pca --peer-cert-file=pc --peer-key-file=pk"
	if got := strings.Join(m.Flags, " "); got != want {
		t.Errorf("%s", got)
	}
}
