package machine_test

import (
	"slices"
	"strings"
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

// A machine without the init system is held before anything is written, unless etcd is not to be started.
func TestAMachineWithoutItsInitSystemIsHeldFirst(t *testing.T) {
	for _, goal := range []machine.Goal{{Action: machine.Init}, {Action: machine.Join}} {
		obs := withCA()
		obs.Remote = answering(healthy("a", 0xa, "10.0.0.1"))
		obs.Host.InitSystem, obs.Service.Detail = false, "it has not started this machine"
		step, why := machine.Next(goal, desired(), obs)
		if step != nil || why == nil || why.Reason != machine.InitSystemMissing || why.Kind() != "held" ||
			!strings.Contains(why.Text, "the machine has no systemd: it has not started this machine") ||
			!strings.Contains(why.Next, "--init-system=kubelet") || !strings.Contains(why.Next, "--init-system=process") {
			t.Errorf("%s: %v, %+v", goal.Action, step, why)
		}
		goal.Skip = []string{"start", "health"}
		if step, why := machine.Next(goal, desired(), obs); step == nil {
			t.Errorf("%s: only files are to be written: %v", goal.Action, why)
		}
	}
}
