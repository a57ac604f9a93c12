package etcdadm

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// A busy cluster takes long for an operation; its daemons answer, or they do not.
type busy struct {
	answered func()
}

func (b busy) Observe(context.Context) (cluster.Spec, cluster.Observation, error) {
	return cluster.Spec{}, cluster.Observation{}, nil
}

func (b busy) Do(context.Context, plan.Operation) error {
	if b.answered != nil {
		b.answered()
	}
	time.Sleep(20 * time.Second)
	return nil
}

func (b busy) Close() error { return nil }

// An operation says that it waits for the daemons until they have answered, and not while it is
// carried out.
func TestAnOperationThatIsCarriedOutDoesNotWaitForTheDaemons(t *testing.T) {
	for name, answer := range map[string]bool{"they answer": true, "they do not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				root := newTree(func(_ context.Context, o ConnectOptions) (Cluster, error) {
					if !answer {
						return busy{}, nil
					}
					return busy{o.Answered}, nil
				}, findFake)
				var said strings.Builder
				root.SetOut(&said)
				root.SetErr(&said)
				code := cli.Run(t.Context(), root, []string{"quarantine", "lift", "--node=b", "--nodes=a:1", "--insecure"})
				waits := strings.Contains(said.String(), "note: waiting for the daemons at a:1")
				if code != 0 || waits == answer {
					t.Errorf("code %d: %s", code, &said)
				}
			})
		})
	}
}
