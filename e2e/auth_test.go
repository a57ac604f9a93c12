//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
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
	c.Bootstrap(1, v36, "a")
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
	// That it can be turned on again may be shown: etcd has the user root.
	c.Eventually(harness.Soon, "no hold but that", func(context.Context) error {
		r, err := c.Status()
		for _, h := range r.Holds {
			if err == nil && !strings.Contains(h.Text, "authentication is off, and can be turned on") {
				err = fmt.Errorf("the holds are %v", r.Holds)
			}
		}
		return err
	})
}

// The users for authentication are made, and the daemons are forgotten, or may only read:
// they say so before it is on, and before they are refused anything.
func TestDaemonsWithoutTheRoleRoot(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Unwatched = true
	c := harness.New(t.Context(), t, o)
	c.Bootstrap(1, v36, "a")
	client, err := c.Node("a").Client()
	if err != nil {
		t.Fatal(err)
	}
	do := func(steps ...func(ctx context.Context) error) {
		t.Helper()
		for _, step := range steps {
			if err := step(t.Context()); err != nil && !strings.Contains(err.Error(), "already exists") {
				t.Fatal(err)
			}
		}
	}
	nothing := func() {
		t.Helper()
		c.Eventually(harness.Soon, "no hold", func(context.Context) error {
			r, err := c.Status()
			if err == nil && len(r.Holds) > 0 {
				err = fmt.Errorf("the holds are %v", r.Holds)
			}
			return err
		})
	}
	root := func(user string) func(ctx context.Context) error {
		return func(ctx context.Context) error { _, err := client.UserGrantRole(ctx, user, "root"); return err }
	}
	do(func(ctx context.Context) error { _, err := client.UserAdd(ctx, "root", "secret"); return err },
		func(ctx context.Context) error { _, err := client.RoleAdd(ctx, "root"); return err }, root("root"))
	if text := c.WaitHold(harness.Soon, "access-denied"); !strings.Contains(text, "authentication is off") ||
		!strings.Contains(text, "user add etcd-manager-a") {
		t.Errorf("the hold says: %s", text)
	}
	do(func(ctx context.Context) error { _, err := client.UserAdd(ctx, "etcd-manager-a", "x"); return err },
		root("etcd-manager-a"))
	nothing()
	do(func(ctx context.Context) error { _, err := client.RoleAdd(ctx, "reading"); return err },
		func(ctx context.Context) error {
			_, err := client.RoleGrantPermission(ctx, "reading", "\x00", "\x00", clientv3.PermissionType(clientv3.PermRead))
			return err
		},
		func(ctx context.Context) error { _, err := client.AuthEnable(ctx); return err })
	boss, err := clientv3.New(clientv3.Config{
		Endpoints: []string{c.Node("a").ClientURL()}, Username: "root", Password: "secret", TLS: c.PKI.ClientTLS(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer boss.Close()
	client = boss
	do(func(ctx context.Context) error {
		_, err := boss.UserGrantRole(ctx, "etcd-manager-a", "reading")
		return err
	},
		func(ctx context.Context) error {
			_, err := boss.UserRevokeRole(ctx, "etcd-manager-a", "root")
			return err
		})
	if text := c.WaitHold(harness.Soon, "access-denied"); !strings.Contains(text, "authentication is on") ||
		!strings.Contains(text, "lacks the role root") {
		t.Errorf("the hold says: %s", text)
	}
	do(root("etcd-manager-a"))
	nothing()
	// Backups go on, although authentication is still on.
	if on, err := boss.AuthStatus(t.Context()); err != nil || !on.Enabled {
		t.Fatalf("authentication is %+v, %v", on, err)
	}
	before := backups(t, c)
	if newest := takeBackup(t, c); slices.Contains(before, newest) {
		t.Errorf("the newest backup, %s, is one of %v, which were there before", newest, before)
	}
}
