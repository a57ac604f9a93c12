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
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func TestWhoLacksRightsAsksMoreOften(t *testing.T) {
	now := time.Now()
	denied := &cluster.NoRoot{User: "etcd-manager-a", On: true}
	for _, c := range []struct {
		name string
		got  *cluster.NoRoot
		at   time.Time
		due  bool
	}{
		{"never asked", nil, time.Time{}, true},
		{"allowed, half a minute ago", nil, now.Add(-30 * time.Second), false},
		{"allowed, a minute ago", nil, now.Add(-rightsPeriod), true},
		{"denied, just now", denied, now.Add(-time.Second), false},
		{"denied, half a minute ago", denied, now.Add(-30 * time.Second), true},
	} {
		w := &rightsWatch{got: c.got, at: c.at}
		if got := w.due(now); got != c.due {
			t.Errorf("%s: due %v", c.name, got)
		}
	}
}

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

// A daemon may have keys, and its etcd no TLS: etcd takes it for nobody then.
func TestOverPlainHTTPADaemonHasNoName(t *testing.T) {
	s := nodestate.State{Assigned: &cluster.Assigned{}}
	for url, want := range map[string]bool{"http://a:4001": false, "https://a:4001": true} {
		l := NewLocal(LocalOptions{Name: "a", URLs: cluster.URLs{Client: []string{url}}, TLS: new(fileTLS)})
		if got := l.ownTLS(s) != nil; got != want || l.clientTLS() == nil {
			t.Errorf("at %s it has a certificate: %t", url, got)
		}
	}
}
