//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// untouched makes sure that no process was stopped.
func untouched(t *testing.T, c *harness.Cluster, before []int) {
	t.Helper()
	if after := processes(c); !slices.Equal(before, after) {
		t.Errorf("the processes were %v, and are %v", before, after)
	}
}

// With authentication and TLS the version changes up and down, once the daemons are
// etcd's users as their hold says.
func TestVersionsWithAuthentication(t *testing.T) {
	t.Parallel()
	o := options(t, quick...)
	o.Unwatched = true
	c := harness.New(t.Context(), t, o)
	c.Bootstrap(3, v35, "a", "b", "c")
	client, err := c.Node("a").Client()
	if err != nil {
		t.Fatal(err)
	}
	authenticate(t, client, "client")
	c.WaitHold(harness.Soon, "access-denied")
	eventually(t, c, "the daemons may ask", func() error {
		r, err := c.Status()
		if err != nil {
			return err
		}
		for _, h := range r.Holds {
			if user := regexp.MustCompile(`user add (\S+) --no-password`).FindStringSubmatch(h.Text); user != nil {
				if err := admit(t.Context(), client, user[1]); err != nil {
					return err
				}
			}
		}
		if len(r.Holds) > 0 {
			return fmt.Errorf("the holds are %v", r.Holds)
		}
		return nil
	})
	w := c.Write()
	w.Watch()
	w.WaitMore(harness.Soon, 10)
	for _, version := range []string{v36, v35} {
		c.SetSpec(3, version)
		runs(t, c, version)
		answers(t, c, version)
		w.WaitMore(harness.Soon, 10)
	}
	if s, err := client.AuthStatus(t.Context()); err != nil || !s.Enabled {
		t.Errorf("authentication is on: %v, %v", s, err)
	}
}

// admit makes a user of a name of certificates, who may do everything.
func admit(ctx context.Context, client *clientv3.Client, name string) error {
	_, err := client.UserAddWithOptions(ctx, name, "", &clientv3.UserAddOptions{NoPassword: true})
	if err != nil && !strings.Contains(err.Error(), "already exists") {
		return err
	}
	_, err = client.UserGrantRole(ctx, name, "root")
	return err
}

// authenticate turns authentication on, and admits one user beside root.
func authenticate(t *testing.T, client *clientv3.Client, name string) {
	t.Helper()
	for _, step := range []func(ctx context.Context) error{
		func(ctx context.Context) error { _, err := client.UserAdd(ctx, "root", "secret"); return err },
		func(ctx context.Context) error { _, err := client.RoleAdd(ctx, "root"); return err },
		func(ctx context.Context) error { _, err := client.UserGrantRole(ctx, "root", "root"); return err },
		func(ctx context.Context) error { return admit(ctx, client, name) },
		func(ctx context.Context) error { _, err := client.AuthEnable(ctx); return err },
	} {
		if err := step(t.Context()); err != nil && !strings.Contains(err.Error(), "already exists") {
			t.Fatal(err)
		}
	}
}

// A database without space raises an alarm: nothing is changed before that is over.
func TestAnAlarmHoldsTheVersion(t *testing.T) {
	t.Parallel()
	o := options(t, quick...)
	o.Env = []string{"ETCD_QUOTA_BACKEND_BYTES=4194304"}
	c := harness.New(t.Context(), t, o)
	c.Bootstrap(3, v35, "a", "b", "c")
	client, err := c.Node("a").Client()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, c, "the database is full", func() error {
		for {
			_, err := client.Put(t.Context(), "big", strings.Repeat("x", 1<<20))
			if err != nil && strings.Contains(err.Error(), "space exceeded") {
				return nil
			}
			if err != nil {
				return err
			}
		}
	})
	c.SetSpec(3, v36)
	before := processes(c)
	c.WaitHold(harness.Soon, "alarm")
	untouched(t, c, before)
	makeRoom(t, c, client)
	runs(t, c, v36)
	answers(t, c, v36)
	c.Write().WaitMore(harness.Soon, 10)
}

// makeRoom does what etcd's documentation says about a database without space.
func makeRoom(t *testing.T, c *harness.Cluster, client *clientv3.Client) {
	t.Helper()
	eventually(t, c, "there is space", func() error {
		r, err := client.Get(t.Context(), "big")
		if err != nil {
			return err
		}
		if _, err := client.Compact(t.Context(), r.Header.Revision, clientv3.WithCompactPhysical()); err != nil &&
			!strings.Contains(err.Error(), "compacted") {
			return err
		}
		for _, n := range c.Nodes() {
			if _, err := client.Defragment(t.Context(), n.ClientURL()); err != nil {
				return err
			}
		}
		_, err = client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
		return err
	})
}

// Keys of the v2 store hold the change to 3.6, also from a patch that is new enough, until
// they are deleted and behind a raft snapshot.
func TestKeysOfTheV2StoreHoldTheVersion(t *testing.T) {
	t.Parallel()
	o := options(t, quick...)
	o.Env = []string{"ETCD_ENABLE_V2=true", "ETCD_SNAPSHOT_COUNT=50"}
	c := harness.New(t.Context(), t, o)
	c.Bootstrap(1, v35, "a")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	v2(t, c, http.MethodPut, "/apps/one")
	w.WaitMore(harness.Soon, 100)
	before := processes(c)
	c.SetSpec(1, v36)
	if text := c.WaitHold(harness.Soon, "version-hazard"); !strings.Contains(text, "v2-") {
		t.Errorf("the hold does not say what is there: %s", text)
	}
	untouched(t, c, before)
	v2(t, c, http.MethodDelete, "/apps?recursive=true")
	// The setting that let them in is unknown to 3.6, and has to go, too.
	eventually(t, c, "nothing but the setting is in the way", func() error {
		r, err := c.Status()
		if err != nil || len(r.Holds) != 1 || r.Holds[0].Reason != plan.VersionSettings {
			return fmt.Errorf("the holds are %v, %w", r.Holds, err)
		}
		return nil
	})
	c.Env = []string{"ETCD_SNAPSHOT_COUNT=50"}
	a := c.Node("a")
	a.Stop()
	a.Start()
	runs(t, c, v36)
	answers(t, c, v36)
	w.WaitMore(harness.Soon, 10)
}

// v2 sends a request to the v2 store of the first member.
func v2(t *testing.T, c *harness.Cluster, method, path string) {
	t.Helper()
	var body io.Reader
	if method == http.MethodPut {
		body = strings.NewReader("value=x")
	}
	r, err := http.NewRequestWithContext(t.Context(), method, c.Nodes()[0].ClientURL()+"/v2/keys"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	client := http.Client{Transport: &http.Transport{TLSClientConfig: c.PKI.ClientTLS()}}
	defer client.CloseIdleConnections()
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		t.Fatalf("%s %s: %s", method, path, answer.Status)
	}
}

// A directory that is called after a version, and holds another one, is no binary of it.
func TestAWrongBinaryHoldsTheVersion(t *testing.T) {
	t.Parallel()
	o := options(t, quick...)
	dir := only(t, o.EtcdDirs, v35)
	if err := os.Symlink(filepath.Join(dir, "etcd-v"+v35), filepath.Join(dir, "etcd-v"+v36)); err != nil {
		t.Fatal(err)
	}
	all := o.EtcdDirs
	o.EtcdDirs = dir
	c := harness.New(t.Context(), t, o)
	c.Bootstrap(1, v35, "a")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	before := processes(c)
	c.SetSpec(1, v36)
	if text := c.WaitHold(harness.Soon, "binary-missing"); !strings.Contains(text, v36) {
		t.Errorf("it holds with %q", text)
	}
	untouched(t, c, before)
	right, err := harness.EtcdBinary(all, v36, "etcd")
	if err == nil {
		err = os.Remove(filepath.Join(dir, "etcd-v"+v36))
	}
	if err == nil {
		err = os.Symlink(filepath.Dir(right), filepath.Join(dir, "etcd-v"+v36))
	}
	if err != nil {
		t.Fatal(err)
	}
	runs(t, c, v36)
	answers(t, c, v36)
	w.WaitMore(harness.Soon, 10)
}
