package machine

import "testing"

// A member that serves stays as it is where the endpoints of a join do not answer, and
// where the quorum needs it.
func TestAMemberThatServesIsLeftAlone(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 3)
	a, b, c := hosts[0], hosts[1], hosts[2]
	found(hosts...)
	_, pid := b.onStatusFile()
	env := b.read(b.path("etc", "etcd.env"))
	same := func(what string) {
		t.Helper()
		if _, now := b.onStatusFile(); now != pid || b.read(b.path("etc", "etcd.env")) != env {
			t.Errorf("%s: etcd is process %d, it was %d; its variables are\n%s", what, now, pid,
				b.read(b.path("etc", "etcd.env")))
		}
	}
	c.kill()
	join := func(endpoint string, more ...string) []string {
		return append([]string{"join", endpoint, "--retry=false", "--etcd-flag=max-txn-ops=200"}, more...)
	}
	nowhere := "https://127.0.0.1:1"
	b.fails(1, []string{"the cluster does not answer"}, join(nowhere)...)
	same("endpoints that do not answer")
	b.fails(5, []string{"would leave 1 healthy voters of 3"}, join(a.clientURL())...)
	same("a member is down")
	b.fails(3, []string{"the name of this machine's member is b"}, join(a.clientURL(), "--name=wrong")...)
	same("another name")
}

// Certificates that are good are not replaced by those of another cluster's authority.
func TestRenewalWithAnotherAuthority(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 2)
	a, other := hosts[0], hosts[1]
	a.ok("init")
	other.ok("init", "phase", "certificates")
	own := a.read(a.path("pki", "server.crt"))
	a.copyCA(other)
	a.fails(1, []string{"no CA in", "server", "--force"}, "certs", "renew", "all")
	if a.read(a.path("pki", "server.crt")) != own {
		t.Error("the certificate is another one")
	}
	a.ok("certs", "renew", "all", "--force")
	if a.read(a.path("pki", "server.crt")) == own {
		t.Error("--force does not renew")
	}
}
