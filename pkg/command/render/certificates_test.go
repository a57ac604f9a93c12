package render

import (
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
)

// A node whose certificates have expired, or are not renewed, is reported; a cluster with
// an expired one is not healthy.
func TestStatusReportsOfCertificates(t *testing.T) {
	const day = 24 * time.Hour
	ca, err := certs.NewCA(certs.CASpec{CommonName: "etcd-manager-ca", Lifetime: 10 * 365 * day}, now.Add(-400*day))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		life, age time.Duration
		gone      bool
		want      string
		health    Health
	}{
		"good":               {life: 365 * day, age: day, health: Healthy},
		"soon":               {life: 30 * day, age: 20 * day, want: "the first expires in 10d, 20", health: Healthy},
		"expired":            {life: 30 * day, age: 33 * day, want: "expired 3d ago, 20", health: Degraded},
		"of one that is off": {life: 30 * day, age: 33 * day, gone: true, health: Healthy},
	} {
		t.Run(name, func(t *testing.T) {
			leaf, err := ca.Issue(certs.Request{CommonName: "n1", Client: true, Lifetime: tc.life}, now.Add(-tc.age))
			if err != nil {
				t.Fatal(err)
			}
			r := reconcile.Report{At: now, Spec: cluster.Spec{MemberCount: 1}, Observation: cluster.Observation{
				Members: []cluster.Member{{ID: 1, Name: "n1", Healthy: true}},
				Nodes:   []cluster.Node{{Name: "n1", Reachable: !tc.gone, CertNotAfter: leaf.Cert.NotAfter}},
			}}
			s := NewStatus(&r, now)
			var b strings.Builder
			if err := s.Write(&b, now); err != nil {
				t.Fatal(err)
			}
			if s.Health != tc.health || strings.Contains(b.String(), "CERTIFICATES OF") != (tc.want != "") ||
				!strings.Contains(b.String(), tc.want) {
				t.Errorf("%s %q, want %s and %q:\n%s", s.Health, s.Because, tc.health, tc.want, b.String())
			}
		})
	}
}
