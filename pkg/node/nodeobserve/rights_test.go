package nodeobserve

import (
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
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
		{"allowed, a minute ago", nil, now.Add(-rightsInterval), true},
		{"denied, just now", denied, now.Add(-time.Second), false},
		{"denied, half a minute ago", denied, now.Add(-30 * time.Second), true},
	} {
		w := &rightsWatch{got: c.got, at: c.at}
		if got := w.due(now); got != c.due {
			t.Errorf("%s: due %v", c.name, got)
		}
	}
}

// A daemon may have keys, and its etcd no TLS: etcd takes it for nobody then.
func TestOverPlainHTTPADaemonHasNoName(t *testing.T) {
	s := nodestate.State{Assigned: &cluster.Assigned{}}
	for url, want := range map[string]bool{"http://a:4001": false, "https://a:4001": true} {
		o := New(Options{Name: "a", URLs: cluster.URLs{Client: []string{url}}, TLS: new(fakeTLS)})
		if got := o.ownTLS(s) != nil; got != want || o.clientTLS() == nil {
			t.Errorf("at %s it has a certificate: %t", url, got)
		}
	}
}
