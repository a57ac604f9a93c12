package machine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// printed is a plan in the order in which it is printed.
func printed(p machine.UpgradePlan) string {
	var b strings.Builder
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "%s: %s\n", s.On, s.Line)
	}
	for _, h := range p.Holds {
		fmt.Fprintln(&b, h)
	}
	return b.String()
}

func TestUpgradePlanByHand(t *testing.T) {
	a, self, c := healthy("a", 0xa, "10.0.0.1"), healthy("b", 0xb, "10.0.0.2"), healthy("c", 0xc, "10.0.0.3")
	const au, bu, cu = "https://10.0.0.1:2379", "https://10.0.0.2:2379", "https://10.0.0.3:2379"
	of := func(version, storage string, members ...cluster.Member) machine.Observation {
		o := runs(members...)
		for i := range o.Remote.Members {
			m := &o.Remote.Members[i]
			if m.Version = etcdversion.Must(version); storage != "" {
				m.Storage = etcdversion.Must(storage)
			}
		}
		v := o.Remote.Members[0].Version
		o.Remote.ClusterVersion = etcdversion.Version{Major: v.Major, Minor: v.Minor}
		return o
	}
	alarmed := func(m cluster.Member) cluster.Member { m.Alarms = []string{"NOSPACE"}; return m }
	v2 := cluster.NoHazards()
	v2[2].State = cluster.HazardPresent
	for _, s := range []struct {
		name, to, want, versions string
		obs                      machine.Observation
		hazards                  []cluster.Hazard
	}{
		{name: "followers by name, the leader last", to: "3.6.16", obs: of("3.5.35", "", self, c, a), versions: "[3.6.16]",
			want: `
a: etcdadm join --version=3.6.16 ` + bu + "," + cu + `
c: etcdadm join --version=3.6.16 ` + bu + "," + au + `
b: etcdadm join --version=3.6.16 ` + cu + "," + au + "\n"},
		{name: "one member", to: "3.5.36", obs: of("3.5.35", "", self), versions: "[3.5.36]",
			want: "b: etcdadm join --version=3.5.36 " + bu + "\n"},
		{name: "two minor versions up", to: "3.7.3", obs: of("3.5.35", "", self), versions: "[3.6.16 3.7.3]", want: `
b: etcdadm join --version=3.6.16 ` + bu + `
b: etcdadm join --version=3.7.3 ` + bu + "\n"},
		{name: "down", to: "3.5.35", obs: of("3.6.16", "3.6.0", a, self), versions: "[3.5.35]", want: `
b: /opt/bin/etcdctl.sh downgrade enable 3.5
b: etcdadm join --version=3.5.35 ` + au + `
a: etcdadm join --version=3.5.35 ` + bu + "\n"},
		{name: "half of them have changed", to: "3.6.16", versions: "[3.6.16]", obs: func() machine.Observation {
			o := of("3.5.35", "", a, self, c)
			o.Remote.Members[1].Version = etcdversion.Must("3.6.16")
			return o
		}(), want: `
c: etcdadm join --version=3.6.16 ` + au + "," + bu + `
a: etcdadm join --version=3.6.16 ` + bu + "," + cu + "\n"},
		{name: "nothing to do", to: "3.5.35", obs: of("3.5.35", "", a, self), versions: "[]"},
		{name: "no way", to: "3.4.25", obs: of("3.5.35", "", a, self), versions: "[]",
			want: "hold version-differs: etcd 3.4.25 cannot be reached: members run etcd 3.5.35, and a running etcd cannot be downgraded to 3.4\n"},
		{name: "an alarm", to: "3.6.16", obs: of("3.5.35", "", alarmed(a), self), versions: "[]",
			want: "hold alarm: the change to etcd 3.6.16 waits until the alarm of a is disarmed\n"},
		{name: "this machine's own data", to: "3.6.16", obs: of("3.5.35", "", a, self), versions: "[]", hazards: v2,
			want: "hold version-hazard: the change to etcd 3.6.16 waits: the data of b has what it does not tolerate, v2-content " +
				"present; " + v2[2].Fix(v36) + "\n"},
	} {
		t.Run(s.name, func(t *testing.T) {
			if s.hazards == nil {
				s.hazards = cluster.NoHazards()
			}
			p, err := machine.PlanUpgrade(desired(), s.obs, etcdversion.Must(s.to), s.hazards)
			if err != nil {
				t.Fatal(err)
			}
			if got := printed(p); got != strings.TrimPrefix(s.want, "\n") || fmt.Sprint(p.Versions) != s.versions ||
				p.Done != (s.want == "") {
				t.Errorf("the plan (%s, done %t) is\n%s\nwant (%s)\n%s", p.Versions, p.Done, got, s.versions, s.want)
			}
		})
	}
	var held *machine.Hold
	unknown := func(o machine.Observation, to string) machine.Reason {
		if _, err := machine.PlanUpgrade(desired(), o, etcdversion.Must(to), nil); !errors.As(err, &held) {
			return ""
		}
		return held.Reason
	}
	if r := unknown(of("3.5.35", "", a), "3.9.0"); r != machine.VersionStep {
		t.Errorf("a version that nobody knows: %s", r)
	}
	if r := unknown(machine.Observation{}, "3.6.16"); r != machine.ClusterUnreachable {
		t.Errorf("a cluster that does not answer: %s", r)
	}
}
