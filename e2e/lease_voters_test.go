package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// A voter that was promoted behind the daemons' backs is not recorded as a
// lease voter, and one of the two that are is lost for good: etcd serves, and nobody
// can coordinate. The hold says what to do, and that ends it.
func TestLeaseVotersThatAreLostAreRecovered(t *testing.T) {
	t.Parallel()
	c := start(t, "--replace-grace=30s")
	c.Bootstrap(2, v36, "a", "b")
	env := byHand(t, c)
	token, err := shell(t, env, `etcdadm observe -o json | sed -n 's/^  "token": "\(.*\)",$/\1/p'`)
	if err != nil {
		t.Fatal(err)
	}
	c.Start("c")
	env = byHand(t, c)
	c.Eventually(harness.Soon, "c is known", func(context.Context) error {
		_, err := shell(t, env, "etcdadm observe -o json | grep -q '\"name\": \"c\"'")
		return err
	})
	if _, err := c.Ctl("pause", "--reason=by hand"); err != nil {
		t.Fatal(err)
	}
	url := func(name string) string { return fmt.Sprintf("https://%s:%d", c.Node(name).Address, harness.PeerPort) }
	for _, line := range []string{
		"etcdadm backup take --node=a --reason=request",
		"etcdadm member add-learner --node=c --expect-voters=2 --peer-url=" + url("c"),
		"etcdadm member start --node=c --mode=join --version=" + v36 + " --token=" + strings.TrimSpace(token) +
			" --peer=a=" + url("a") + " --peer=b=" + url("b") + " --peer=c=" + url("c"),
	} {
		if _, err := shell(t, env, line); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := shell(t, env, "etcdadm member promote --name=c --expect-voters=2"); err == nil ||
		!strings.Contains(err.Error(), "lease-voters") {
		t.Errorf("a promotion before it is recorded: %v", err)
	}
	promote(t, c, "c")
	c.Node("b").LoseDisk()
	c.SetSpec(3, v36)
	if _, err := c.Ctl("resume"); err != nil {
		t.Fatal(err)
	}
	c.Start("d")
	// A spare that has only just begun to observe may not have heard from a and c yet.
	c.Eventually(harness.Soon, "the hold says what to do", func(context.Context) error {
		text := c.WaitHold(harness.Soon, "lease-voters-lost")
		if !strings.Contains(text, "etcd-manager-ctl --backup-store=STORE recover-lease-voters --lost=b") {
			return errors.New(text)
		}
		return nil
	})
	if _, err := c.Ctl("recover-lease-voters", "--lost=b", "--wait", "--reason=flood"); err != nil {
		t.Fatal(err)
	}
	c.WaitNames(harness.Soon, "a", "c", "d")
}

// promote gives a learner its vote without the daemons and their lease voters.
func promote(t *testing.T, c *harness.Cluster, name string) {
	t.Helper()
	client, err := c.Node("a").Client()
	if err != nil {
		t.Fatal(err)
	}
	c.Eventually(harness.Soon, name+" is promoted", func(ctx context.Context) error {
		list, err := c.Members(ctx)
		if err != nil {
			return err
		}
		for _, m := range list {
			if m.Name == name && m.IsLearner {
				// etcd never answers a change of its members that it drops.
				ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
				defer cancel()
				_, err := client.MemberPromote(ctx, m.ID)
				return err
			} else if m.Name == name {
				return nil
			}
		}
		return fmt.Errorf("there is no member %s", name)
	})
}
