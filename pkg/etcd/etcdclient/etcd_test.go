package etcdclient

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// open returns a client of a member.
func open(t *testing.T, m *etcdtest.Member) *Client {
	t.Helper()
	c, err := Open(Options{Endpoints: []string{m.ClientURL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// serving waits for a member that follows a leader, and returns its report.
func serving(t *testing.T, c *Client) cluster.Report {
	t.Helper()
	var r cluster.Report
	testwait.For(t, "a leader", func(ctx context.Context) (err error) {
		if r, err = c.Report(ctx); err == nil && r.Leader == 0 {
			err = fmt.Errorf("no leader")
		}
		return err
	})
	return r
}

// initialMember starts a cluster of one.
func initialMember(t *testing.T, bin etcdbin.Binaries, flags ...string) (*etcdtest.Member, *Client) {
	t.Helper()
	a := etcdtest.New(t, "a")
	a.Start(t, bin, flags...)
	c := open(t, a)
	serving(t, c)
	return a, c
}

func short(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
