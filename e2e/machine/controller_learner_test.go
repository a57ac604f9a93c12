//go:build e2e

package machine

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

// A controller takes a learner for a voter, since etcd answers /health for it, and
// removes every member that it can. The cluster keeps a quorum and what was written,
// because etcd keeps the last voter; when the learner votes, that one can go, too.
func TestAControllerThatTakesALearnerForAVoter(t *testing.T) {
	t.Parallel()
	for _, version := range etcdtest.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			hosts := newHosts(func(name string) *host { return newHost(t, name, version) }, 3)
			a, b, c := hosts[0], hosts[1], hosts[2]
			found(a, b)
			a.put("before", "x")
			c.copyCA(a)
			c.ok("join", "--skip-phases=health", a.clientURL()+","+b.clientURL())
			c.probed("/health", http.StatusOK, "true")
			c.probed("/readyz", http.StatusServiceUnavailable, "non_learner failed")

			remove(t, a.client(a), b)
			b.kill()
			self := a.self().ID
			changes(t, "the refusal to remove the last voter", func(ctx context.Context) error {
				_, err := a.client(a).MemberRemove(ctx, self)
				switch {
				case err == nil:
					t.Fatal("the last voter was removed")
				case errors.Is(err, rpctypes.ErrMemberNotEnoughStarted):
					return nil
				}
				return err
			})
			a.put("between", "y")
			c.ok("join", "phase", "health", a.clientURL())
			remove(t, c.client(c), a)
			a.kill()
			c.wantVoters("c")
			wantKeys(map[string]string{"before": "x", "between": "y"}, c)
			c.probed("/readyz", http.StatusOK, "ok")
		})
	}
}

// self returns the member of the machine.
func (h *host) self() *member {
	h.t.Helper()
	for _, m := range h.members() {
		if m.Name == h.name {
			return m
		}
	}
	h.t.Fatalf("%s is not a member", h.name)
	return nil
}
