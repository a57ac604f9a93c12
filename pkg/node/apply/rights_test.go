package apply

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// An etcd that has just started is not asked why it does not report, but where it denies
// access that is known: the cluster is not taken for one that has lost its quorum.
func TestAYoungEtcdThatDeniesAccess(t *testing.T) {
	t.Parallel()
	began, v := time.Now(), etcdversion.Must("3.6.16")
	h := realHost(t, v, func(o *LocalOptions) { o.Now = func() time.Time { return began } }) // it stays young
	voters := []cluster.InitialMember{{Name: "a", PeerURLs: h.o.URLs.Peer}}
	h.must(&plan.MemberPrepare{Node: "a", Token: "t1", Version: v, Voters: voters},
		&plan.MemberStart{Node: "a", Token: "t1", Mode: plan.StartNew, Version: v, Peers: voters})
	if n, _ := h.reports(); n.Process.NoReport != nil {
		t.Fatalf("it reports, and why not is known: %+v", n.Process.NoReport)
	}
	turnAuthOn(t, h.o.URLs.Client)
	testwait.Until(t, "a report that is denied", func() bool {
		n, r := h.Observe(t.Context())
		why := n.Process.NoReport
		if why != nil && why.Cause != cluster.CauseAuth {
			t.Fatalf("there is no report because of %+v", why)
		}
		return r == nil && why != nil
	})
}

func turnAuthOn(t *testing.T, endpoints []string) {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	defer cancel()
	_, added := c.UserAdd(ctx, "root", "secret")
	_, granted := c.UserGrantRole(ctx, "root", "root")
	_, enabled := c.AuthEnable(ctx)
	if err := errors.Join(added, granted, enabled); err != nil {
		t.Fatal(err)
	}
}
