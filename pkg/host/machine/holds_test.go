package machine_test

import (
	"slices"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// Everything that would hold the command back is reported, each once, and nothing that only
// follows from it.
func TestAllHoldsAreReported(t *testing.T) {
	a, other := healthy("a", 0xa, "10.0.0.1"), healthy("b", 0xc, "10.0.0.3")
	older := func(c *machine.Config) { c.Version = etcdversion.Must("3.5.35") }
	badCA := func(o *machine.Observation) { o.PKI.CA, o.PKI.Problem = machine.CABad, "it is none" }
	for name, tt := range map[string]struct {
		action machine.Action
		cfg    machine.Config
		obs    machine.Observation
		change func(*machine.Observation)
		want   []machine.Reason
	}{
		"a join that goes through": {action: machine.Join, cfg: desired(), obs: ready(a)},
		"a version, a name and an authority": {
			action: machine.Join, cfg: desired(older), obs: ready(a, other), change: badCA,
			want: []machine.Reason{machine.VersionStep, machine.NameTaken, machine.CABroken},
		},
		"one that waits, and a name": {
			action: machine.Join, cfg: desired(), obs: ready(a, other, unstarted(0xd, "10.0.0.4", true)),
			want: []machine.Reason{machine.NameTaken},
		},
		"no authority and nobody to ask": {
			action: machine.Join, cfg: desired(), obs: fresh(), want: []machine.Reason{machine.CAMissing},
		},
		"an init on data of others, with a bad authority": {
			action: machine.Init, cfg: desired(), obs: ready(a), change: func(o *machine.Observation) {
				badCA(o)
				o.Remote, o.Data = machine.Remote{}, machine.Data{State: cluster.DiskData, MemberID: 0xd, ClusterID: 0xc2}
			},
			want: []machine.Reason{machine.DataPresent, machine.CABroken},
		},
		"a daemon's machine": {
			action: machine.Init, cfg: desired(), obs: fresh(), change: func(o *machine.Observation) {
				badCA(o)
				o.Host.Manager = "/var/lib/etcd-manager"
			},
			want: []machine.Reason{machine.Managed},
		},
	} {
		t.Run(name, func(t *testing.T) {
			obs := tt.obs
			if tt.change != nil {
				tt.change(&obs)
			}
			goal := machine.Goal{Action: tt.action}
			holds, err := machine.Holds(goal, tt.cfg, obs)
			var got []machine.Reason
			for _, h := range holds {
				got = append(got, h.Reason)
			}
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("holds are %v, want %v (%v)", holds, tt.want, err)
			}
			if _, first, _ := machine.Plan(goal, tt.cfg, obs); (first == nil) != (len(got) == 0) ||
				first != nil && first.Reason != got[0] {
				t.Errorf("the plan holds for %v, and the first hold is not that: %v", first, got)
			}
		})
	}
}
