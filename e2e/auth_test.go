//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// Somebody turns authentication on. The cluster serves, and denies its daemons:
// that is said, and nothing of a lost quorum or of restoring.
func TestAuthenticationIsTurnedOn(t *testing.T) {
	o := options(t)
	o.Insecure, o.Unwatched = true, true
	c := harness.New(t.Context(), t, o)
	c.Found(1, v36, "a")
	client, err := c.Node("a").Client()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []func(ctx context.Context) error{
		func(ctx context.Context) error { _, err := client.UserAdd(ctx, "root", "secret"); return err },
		func(ctx context.Context) error { _, err := client.RoleAdd(ctx, "root"); return err },
		func(ctx context.Context) error { _, err := client.UserGrantRole(ctx, "root", "root"); return err },
		func(ctx context.Context) error { _, err := client.AuthEnable(ctx); return err },
	} {
		if err := step(t.Context()); err != nil && !strings.Contains(err.Error(), "already exists") {
			t.Fatal(err)
		}
	}
	if text := c.WaitHold(harness.Soon, "access-denied"); !strings.Contains(text, "authentication is on") {
		t.Errorf("the hold says: %s", text)
	}
	r, err := c.Status()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range r.Holds {
		if h.Reason == "quorum-lost" {
			t.Errorf("of a cluster that serves it is said: %s", h)
		}
	}
	root, err := clientv3.New(clientv3.Config{
		Endpoints: []string{c.Node("a").ClientURL()}, Username: "root", Password: "secret",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := root.AuthDisable(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Eventually(harness.Soon, "no hold", func(context.Context) error {
		r, err := c.Status()
		if err == nil && len(r.Holds) > 0 {
			err = fmt.Errorf("the holds are %v", r.Holds)
		}
		return err
	})
}
