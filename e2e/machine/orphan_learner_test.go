//go:build e2e

package machine

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A learner lives, sees no leader, and its own join was killed: nobody can promote it,
// and nobody may take it out. Who joins next says what a person can run, and goes on
// when that was done.
func TestALearnerThatSeesNoLeader(t *testing.T) {
	t.Parallel()
	for _, s := range []struct {
		name, says string
		where      func(a, b *host) *host
		voters     []string
	}{
		{"its join goes on", `on its machine: etcdadm (join \S+);`, func(_, b *host) *host { return b },
			[]string{"a", "b", "c"}},
		{"it is given up", `on a voter's machine: etcdadm (remove \w+)`, func(a, _ *host) *host { return a },
			[]string{"a", "c"}},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 3)
			a, b, c := hosts[0], hosts[1], hosts[2]
			a.ok("init")
			for _, h := range hosts[1:] {
				h.copyCA(a)
			}
			b.ok("join", "--skip-phases=health", a.clientURL())
			b.strangerToItsPeers()
			join := c.begin("join", "--membership-timeout=5m", a.clientURL())
			line := regexp.MustCompile(s.says)
			eventually(t, 2*commandTime, "what to run", func() error {
				if !line.MatchString(join.said()) {
					return fmt.Errorf("it says %s", join.said())
				}
				return nil
			})
			s.where(a, b).ok(strings.Fields(line.FindStringSubmatch(join.said())[1])...)
			if err := join.cmd.Wait(); err != nil {
				t.Errorf("%v: %s", err, join.said())
			}
			a.wantVoters(s.voters...)
			if !slices.Contains(s.voters, "b") {
				b.kill()
			}
		})
	}
}

// strangerToItsPeers has the member run with a peer certificate that the others do not
// accept: it lives, and sees no leader.
func (h *host) strangerToItsPeers() {
	h.t.Helper()
	h.ok("join", "phase", "stop", "https://127.0.0.1:1")
	other := newHost(h.t, h.name, h.version)
	other.ok("init", "phase", "certificates")
	for _, end := range []string{"crt", "key"} {
		h.write(h.path("pki", "peer."+end), other.read(other.path("pki", "peer."+end)), 0o600)
	}
	h.ok("join", "phase", "start", "https://127.0.0.1:1")
}
