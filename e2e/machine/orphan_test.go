//go:build e2e

package machine

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// A machine that died while it joined has left a learner, and etcd has one at a
// time. Who joins next takes it out, and not before the time for that is over.
func TestAnOrphanDoesNotBlockTheCluster(t *testing.T) {
	t.Parallel()
	a, b := strange(t)
	addLearner(t, a.client(a), "https://127.0.0.1:1")
	b.fails(3, []string{"learner-pending"}, "join", "--membership-timeout=10s", a.clientURL())
	if n := len(a.members()); n != 2 {
		t.Fatalf("there are %d members", n)
	}
	b.ok("join", "--orphan-timeout=2s", a.clientURL())
	b.wantVoters("a", "b")
	wantKeys(map[string]string{"before": "anything"}, b)
}

// A learner that ran and whose machine is gone is an orphan too.
func TestAnOrphanThatHasRun(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 3)
	a, b, c := hosts[0], hosts[1], hosts[2]
	a.ok("init")
	for _, h := range hosts[1:] {
		h.copyCA(a)
	}
	b.ok("join", "--skip-phases=health", a.clientURL())
	b.probed("/readyz", http.StatusServiceUnavailable, "non_learner")
	b.kill()
	c.ok("join", "--orphan-timeout=2s", a.clientURL())
	c.wantVoters("a", "c")
}

// A learner whose etcd is there, and that the leader hears nothing of, is one too.
func TestAnOrphanThatTheLeaderDoesNotHear(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 3)
	a, b, c := hosts[0], hosts[1], hosts[2]
	a.ok("init")
	for _, h := range hosts[1:] {
		h.copyCA(a)
	}
	b.ok("join", "--skip-phases=health", a.clientURL())
	b.probed("/readyz", http.StatusServiceUnavailable, "non_learner")
	pid := b.etcd()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	c.ok("join", "--orphan-timeout=3s", a.clientURL())
	c.wantVoters("a", "c")
}

// A machine that has ended before its learner had a vote, as one does whose phases are
// run one by one, leaves it to the next that joins.
func TestALearnerOfAnotherMachineGetsItsVote(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			hosts := newHosts(func(name string) *host { return newHost(t, name, version) }, 3)
			a, b, c := hosts[0], hosts[1], hosts[2]
			a.ok("init")
			for _, h := range hosts[1:] {
				h.copyCA(a)
			}
			b.ok("join", "--skip-phases=health", a.clientURL())
			// etcd itself answers /health for a learner; what a pod is asked does not.
			b.probed("/readyz", http.StatusServiceUnavailable, "non_learner")
			c.ok("join", a.clientURL())
			c.wantVoters("a", "b", "c")
			b.probed("/readyz", http.StatusOK, "ok")
			b.probed("/health", http.StatusOK, "true")
			// What was left over has nothing more to do.
			b.ok("join", "phase", "health", a.clientURL())
		})
	}
}

// probed waits until the member answers at a path of its client URL with that code.
func (h *host) probed(path string, code int, words string) {
	h.t.Helper()
	client := http.Client{Timeout: askTime, Transport: &http.Transport{TLSClientConfig: h.tls("etcdctl-etcd-client")}}
	defer client.CloseIdleConnections()
	eventually(h.t, commandTime, path, func() error {
		resp, err := client.Get(h.clientURL() + path)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err == nil && (resp.StatusCode != code || !strings.Contains(string(text), words)) {
			err = fmt.Errorf("%d: %s", resp.StatusCode, text)
		}
		return err
	})
}
