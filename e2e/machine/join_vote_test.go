//go:build e2e

package machine

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

// The machine that joins two others is a voter before anybody can read that it is
// healthy: here nobody is, since its etcd refuses all clients as long as its list of
// revoked certificates is missing.
func TestTheVoteComesWithServing(t *testing.T) {
	t.Parallel()
	for _, version := range etcdtest.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			hosts := newHosts(func(name string) *host { return newHost(t, name, version) }, 3)
			a, c := hosts[0], hosts[2]
			found(hosts[:2]...)
			c.copyCA(a)
			join, open := c.beginClosed(a)
			eventually(t, commandTime, "the vote", func() error { return a.sees("c", false) })
			if text, err := c.health(); err == nil {
				t.Errorf("a member that serves nobody answers %s", text)
			}
			open()
			if err := join.cmd.Wait(); err != nil {
				t.Fatalf("%v: %s", err, join.said())
			}
			c.probed("/health", http.StatusOK, "true")
			c.probed("/readyz", http.StatusOK, "ok")
			_, out, _ := strings.Cut(join.said(), "\n{")
			var done struct{ Steps []struct{ Text string } }
			if err := json.Unmarshal([]byte("{"+out), &done); err != nil {
				t.Fatalf("%v: %s", err, join.said())
			}
			if n := strings.Count(fmt.Sprint(done.Steps), "member promote --name=c"); n != 1 {
				t.Errorf("it reports the vote %d times: %+v", n, done.Steps)
			}
		})
	}
}

// The second of two has no vote before it serves: the majority would depend on a member
// of which nobody knows whether it does.
func TestAVoteThatIsNeededWaits(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 2)
	a, b := hosts[0], hosts[1]
	a.ok("init")
	b.copyCA(a)
	join, open := b.beginClosed(a)
	eventually(t, commandTime, "a learner that could serve", func() error { return a.sees("b", true) })
	a.put("between", "y")
	if err := a.sees("b", true); err != nil {
		t.Error(err)
	}
	open()
	if err := join.cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, join.said())
	}
	a.wantVoters("a", "b")
	wantKeys(map[string]string{"between": "y"}, b)
}

// The phases are processes of their own, and nobody knows when health is run: start does
// not leave a learner that answers as healthy.
func TestThePhaseStartLeavesAVoter(t *testing.T) {
	t.Parallel()
	for _, count := range []int{2, 3} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			t.Parallel()
			hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, count)
			a, last := hosts[0], hosts[count-1]
			found(hosts[:count-1]...)
			last.copyCA(a)
			for _, p := range joinPhases[:slices.Index(joinPhases, "start")] {
				last.ok("join", "phase", p, a.clientURL())
			}
			out := last.ok("join", "phase", "start", a.clientURL(), "-o", "json")
			if err := a.sees(last.name, false); err != nil || strings.Count(out, "member promote --name="+last.name) != 1 {
				t.Errorf("after start: %v: %s", err, out)
			}
			if !strings.Contains(last.read(last.path("data")+".etcdadm.json"), `"served":true`) {
				t.Error("after start: the record does not say that the voter has served")
			}
			if out := last.ok("join", "phase", "health", a.clientURL(), "-o", "json"); strings.Contains(out, "promote") {
				t.Errorf("health still has to promote: %s", out)
			}
			last.probed("/readyz", http.StatusOK, "ok")
		})
	}
}

// A member that does not catch up in time does not keep the phase start: health waits for
// it, or says why not.
func TestThePhaseStartEndsWithoutTheVote(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 2)
	a, b := hosts[0], hosts[1]
	a.ok("init")
	b.copyCA(a)
	for _, p := range joinPhases[:slices.Index(joinPhases, "start")] {
		b.ok("join", "phase", p, a.clientURL(), b.closedBy())
	}
	b.ok("join", "phase", "start", a.clientURL(), b.closedBy(), "--start-timeout=2s")
	if err := a.sees("b", true); err != nil && a.sees("", true) != nil {
		t.Errorf("it votes, and serves nobody: %v", err)
	}
	b.fails(1, []string{"--start-timeout"}, "join", "phase", "health", a.clientURL(), "--start-timeout=2s")
}

// A voter that never serves is undone, as a learner is.
func TestAVoterThatNeverServesIsUndone(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 3)
	a, c := hosts[0], hosts[2]
	found(hosts[:2]...)
	c.copyCA(a)
	r := c.fails(1, []string{"the join was undone"}, "join", a.clientURL(), "--start-timeout=60s", c.closedBy())
	if !strings.Contains(r.stderr, "member promote --name=c") {
		t.Errorf("it had no vote: %s", r)
	}
	a.wantVoters("a", "b")
	c.nothing()
}

// A controller asks for /health all the time, and removes another member the moment
// that it is true. Data and quorum stay, the join ends as it should, and the member that
// is not healthy to it is never needed.
func TestAControllerThatActsAtOnce(t *testing.T) {
	t.Parallel()
	for _, version := range etcdtest.Versions {
		for _, count := range []int{2, 3, 4} {
			t.Run(fmt.Sprintf("%s/%d", version, count), func(t *testing.T) {
				t.Parallel()
				hosts := newHosts(func(name string) *host { return newHost(t, name, version) }, count)
				first, rest, last := hosts[0], hosts[1:], hosts[count-1]
				found(hosts[:count-1]...)
				first.put("before", "x")
				last.copyCA(first)
				join := last.begin("join", first.clientURL())
				learner := last.awaitHealth()
				// etcd keeps its last voter: then the controller asks again.
				remove(t, last.client(rest...), first)
				first.kill()
				if err := join.cmd.Wait(); err != nil {
					t.Errorf("%v: %s", err, join.said())
				}
				t.Logf("the first healthy answer was that of a learner: %v", learner)
				var names []string
				for _, h := range rest {
					names = append(names, h.name)
				}
				by := last.client(rest...)
				eventually(t, commandTime, "a leader", func() error {
					ctx, cancel := context.WithTimeout(t.Context(), askTime)
					defer cancel()
					_, err := by.Put(ctx, "after", "y")
					return err
				})
				for _, h := range rest {
					h.wantVoters(names...)
					wantKeys(map[string]string{"before": "x", "after": "y"}, h)
				}
			})
		}
	}
}

// closedBy is the flag of a list of revoked certificates that is not there.
func (h *host) closedBy() string { return "--etcd-flag=client-crl-file=" + h.path("revoked") }

// beginClosed begins a join of a machine whose etcd serves no clients before open.
func (h *host) beginClosed(member *host) (join *running, open func()) {
	h.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		h.t.Fatal(err)
	}
	// Nothing is revoked. etcd does not ask who says so.
	list, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: big.NewInt(1)},
		&x509.Certificate{KeyUsage: x509.KeyUsageCRLSign, SubjectKeyId: []byte{1}}, key)
	if err != nil {
		h.t.Fatal(err)
	}
	join = h.begin("join", member.clientURL(), "-o", "json", h.closedBy())
	return join, func() { h.write(h.path("revoked"), string(list), 0o644) }
}

// awaitHealth asks the member for its health until it is healthy, and returns whether it
// was a learner when it was asked next.
func (h *host) awaitHealth() (learner bool) {
	h.t.Helper()
	eventually(h.t, commandTime, "the health of "+h.name, func() error {
		for _, file := range []string{"etcdctl-etcd-client.crt", "etcdctl-etcd-client.key"} {
			if !exists(h.path("pki", file)) {
				return errors.New("it has no certificates")
			}
		}
		_, err := h.health()
		return err
	})
	ctx, cancel := context.WithTimeout(h.t.Context(), askTime)
	defer cancel()
	r, err := h.client(h).Status(ctx, h.clientURL())
	if err != nil {
		h.t.Fatal(err)
	}
	return r.IsLearner
}

// sees returns nil if the list has the member, with or without a vote.
func (h *host) sees(name string, learner bool) error {
	h.t.Helper()
	list := h.members()
	i := slices.IndexFunc(list, func(m *member) bool { return m.Name == name })
	if i < 0 || list[i].IsLearner != learner {
		return fmt.Errorf("the list is %v", list)
	}
	return nil
}

// health asks the member once.
func (h *host) health() (string, error) {
	resp, err := h.http("etcdctl-etcd-client").Get(h.clientURL() + "/health")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && !strings.Contains(string(text), `"health":"true"`) {
		err = errors.New(string(text))
	}
	return string(text), err
}
