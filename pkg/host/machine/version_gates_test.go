package machine_test

import (
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// at returns a member that runs a version.
func at(m cluster.Member, version string) cluster.Member {
	m.Version = etcdversion.Must(version)
	return m
}

// runs returns machine b, whose member serves, in a cluster that the first leads; all run
// 3.5.35, but for those that say otherwise.
func runs(members ...cluster.Member) machine.Observation {
	o := ready(members...)
	v := etcdversion.Must("3.5.35")
	for i := range o.Remote.Members {
		m := &o.Remote.Members[i]
		if m.Version.IsZero() {
			m.Version = v
		}
		m.Applied = 1000
	}
	o.Remote.Lowest, o.Remote.Highest, o.Remote.ClusterVersion = v, v, etcdversion.Must("3.5.0")
	o.Binaries = machine.Binary{Etcd: v, Etcdctl: v, Etcdutl: v}
	o.Data = machine.Data{State: cluster.DiskData, MemberID: 0xb, ClusterID: 0xc1, Ready: true}
	o.Data.Hazards = cluster.NoHazards()
	o.Local = report("3.5.35", "", "3.5.0", "3.5.0")
	o.Local.Storage = etcdversion.Version{}
	o.Service = machine.ServiceStatus{State: machine.ServiceRunning, Enabled: true}
	o.Record = machine.Record{Action: machine.Join, Served: true}
	o.Written = map[string]string{
		"ETCD_NAME": "b", "ETCD_INITIAL_CLUSTER": "b=https://10.0.0.2:2380", "ETCD_INITIAL_CLUSTER_STATE": "existing",
		"ETCD_INITIAL_CLUSTER_TOKEN": "tok",
	}
	return o
}

// What holds a change of the version in the daemons' plan holds it by hand.
func TestGatesOfAChangeOfTheVersion(t *testing.T) {
	join := machine.Goal{Action: machine.Join}
	a, self, c := healthy("a", 0xa, "10.0.0.1"), healthy("b", 0xb, "10.0.0.2"), healthy("c", 0xc, "10.0.0.3")
	with := func(obs machine.Observation, f func(*machine.Observation)) machine.Observation {
		f(&obs)
		return obs
	}
	alarmed := func(m cluster.Member) cluster.Member { m.Alarms = []string{"NOSPACE"}; return m }
	late := func(m cluster.Member) cluster.Member { m.Condition = cluster.Late; return m }
	const change = "the change to etcd 3.6.16 waits"
	const goes = "install: install etcd 3.6.16 into /opt/bin\n"
	for _, s := range []struct {
		name string
		obs  machine.Observation
		want string
	}{
		{"a follower of members that are well", runs(a, self, c), goes},
		{"a member that does not serve reads", runs(a, self, late(c)), "hold quorum-margin: " + change + " until c serves\n"},
		{"an alarm", runs(a, self, alarmed(c)), "hold alarm: " + change + " until the alarm of c is disarmed\n"},
		{"a learner", runs(a, self, learner(c)), "hold learner-pending: " + change + " until c is a voter\n"},
		{"a learner that has not started", runs(a, self, unstarted(0xd, "10.0.0.4", true)),
			"hold learner-pending: " + change + " until d (https://10.0.0.4:2380) is a voter\n"},
		{"a member that is behind", with(runs(a, self, c), func(o *machine.Observation) {
			o.Remote.Members[0].Applied = 9000
		}), "hold quorum-margin: " + change + " until b has caught up\n"},
		{"a full disk", with(runs(a, self, c), func(o *machine.Observation) { o.Host.FreeBytes = 1 << 20 }),
			"hold disk-full: " + change + ": b has 1 MiB free and needs 192 MiB\n"},
		{"data that differs", with(runs(a, self, c), func(o *machine.Observation) {
			o.Remote.Compared = &machine.Comparison{
				Revision: 7, Like: []cluster.NodeName{"a", "b"}, Unlike: []cluster.NodeName{"c"},
			}
		}), "hold data-differs: at revision 7 the data of c is not that of a and b, and after a change of the version " +
			"nobody could know\n"},
		{"data that nobody can compare", with(runs(a, self, c), func(o *machine.Observation) {
			o.Remote.Compared = &machine.Comparison{Problem: "c: no answer"}
		}), "hold not-compared: the members' data could not be compared before the change of the version: c: no answer\n"},
		// A change that has begun is finished: digests of two versions would prove nothing.
		{"the second member of a change", with(runs(at(a, "3.6.16"), self, c), func(o *machine.Observation) {
			o.Remote.Compared = &machine.Comparison{Revision: 7, Unlike: []cluster.NodeName{"c"}}
		}), goes},
		{"a cluster version that is still to rise", with(runs(a, self, c), func(o *machine.Observation) {
			o.Remote.ClusterVersion = etcdversion.Must("3.4.0")
		}), "hold not-yet: the cluster version is still 3.4, and etcd 3.6.16 does not follow it\n"},
		{"a cluster of one", runs(self), goes},
		{"a cluster of two", runs(a, self), goes},
		// What does not serve is no loss, and may need the version.
		{"its own member does not serve", with(runs(a, self, alarmed(c)), func(o *machine.Observation) {
			o.Local, o.Remote.Members[1].Healthy = nil, false
		}), goes},
		{"its own member has no leader", with(runs(a, self, alarmed(c)), func(o *machine.Observation) {
			o.Local.Leader, o.Remote.Members[1].Healthy = 0, false
		}), goes},
	} {
		t.Run(s.name, func(t *testing.T) {
			got := steps(t, join, desired(), s.obs)
			if s.want == goes {
				restarts := strings.Contains(got, "start: restart etcd\n")
				if !strings.HasPrefix(got, goes) || !restarts || strings.Contains(got, "hold") {
					t.Errorf("it does not go on:\n%s", got)
				}
				return
			}
			if got != s.want {
				t.Errorf("the plan is\n%s\nwant\n%s", got, s.want)
			}
		})
	}
	// Where nobody can compare, as with authentication, an operator can go on.
	unknown := runs(a, self, c)
	unknown.Remote.Compared = &machine.Comparison{Problem: "c: permission denied"}
	accepts := machine.Goal{Action: machine.Join, AcceptVersionRisk: "compared by hand"}
	if got := steps(t, accepts, desired(), unknown); !strings.HasPrefix(got, goes) {
		t.Errorf("with the risk accepted: %s", got)
	}
	// The same version, and other settings: an alarm is no reason.
	same := desired(func(c *machine.Config) { c.Version = etcdversion.Must("3.5.35") })
	if got := steps(t, join, same, runs(a, self, alarmed(c))); strings.Contains(got, "hold") {
		t.Errorf("a restart with other settings: %s", got)
	}
}

// The leader's machine hands the lead over right before the restart, and warns where it is
// not the last. One that has nobody to hand it to restarts.
func TestALeaderHandsOverBeforeItChangesItsVersion(t *testing.T) {
	join := machine.Goal{Action: machine.Join}
	a, self := healthy("a", 0xa, "10.0.0.1"), healthy("b", 0xb, "10.0.0.2")
	if got := steps(t, join, desired(), runs(self, a)); !strings.Contains(got,
		"start: etcdadm member move-leader --to=a\nstart: restart etcd\n") {
		t.Errorf("the plan is\n%s", got)
	}
	for name, s := range map[string]struct {
		obs  machine.Observation
		want string
	}{
		"first":   {runs(self, a), "EtcdBackup LeaderLast"},
		"last":    {runs(self, at(a, "3.6.16")), "EtcdBackup"},
		"follows": {runs(a, self), "EtcdBackup"},
		"alone":   {runs(self), "EtcdBackup"},
	} {
		var ids []string
		for _, f := range machine.Preflight(join, desired(), s.obs) {
			if f.ID == "EtcdBackup" || f.ID == "LeaderLast" {
				ids = append(ids, f.ID)
			}
			if f.Fatal && f.ID == "EtcdBackup" {
				t.Errorf("%s: a backup that is not known refuses", name)
			}
		}
		if got := strings.Join(ids, " "); got != s.want {
			t.Errorf("%s: warned of %q, want %q", name, got, s.want)
		}
	}
	got := steps(t, join, desired(), runs(self))
	if strings.Contains(got, "move-leader") || !strings.Contains(got, "restart etcd") {
		t.Errorf("a cluster of one: %s", got)
	}
}

// A comparison is asked for where a change of the version would begin, and nothing else
// holds it: each member reads its whole database for it.
func TestDataIsComparedBeforeTheFirstMemberChanges(t *testing.T) {
	join := machine.Goal{Action: machine.Join}
	a, self, c := healthy("a", 0xa, "10.0.0.1"), healthy("b", 0xb, "10.0.0.2"), healthy("c", 0xc, "10.0.0.3")
	same := desired(func(c *machine.Config) { c.Version = etcdversion.Must("3.5.35") })
	down := desired(func(c *machine.Config) { c.Version = etcdversion.Must("3.4.25") })
	for name, s := range map[string]struct {
		goal machine.Goal
		cfg  machine.Config
		obs  machine.Observation
		want bool
	}{
		"the first":         {join, desired(), runs(a, self, c), true},
		"by init":           {machine.Goal{Action: machine.Init}, desired(), runs(a, self, c), true},
		"the second":        {join, desired(), runs(at(a, "3.6.16"), self, c), false},
		"the same version":  {join, same, runs(a, self, c), false},
		"one that cannot":   {join, down, runs(a, self, c), false},
		"a learner is held": {join, desired(), runs(a, self, learner(c)), false},
		"alone":             {join, desired(), runs(self), false},
		"who only looks":    {machine.Goal{Action: machine.Reset}, desired(), runs(a, self, c), false},
	} {
		if got := machine.Compares(s.goal, s.cfg, s.obs); got != s.want {
			t.Errorf("%s: compares %t", name, got)
		}
	}
}

// Before 3.7 the log is freed of what 3.5 has written, as soon as nobody writes such entries
// any more; where the member does not serve, that is refused as before.
func TestARaftSnapshotComesBefore37(t *testing.T) {
	join := machine.Goal{Action: machine.Join}
	a, self := healthy("a", 0xa, "10.0.0.1"), healthy("b", 0xb, "10.0.0.2")
	newer := desired(func(c *machine.Config) { c.Version = etcdversion.Must("3.7.3") })
	old := func(seen string) machine.Observation {
		o := runs(at(a, "3.6.16"), at(self, "3.6.16"))
		o.Local = report("3.6.16", "", seen, seen)
		o.Remote.Lowest, o.Remote.Highest, o.Remote.ClusterVersion = v36, v36, etcdversion.Must(seen)
		o.Binaries = machine.Binary{Etcd: v36, Etcdctl: v36, Etcdutl: v36}
		o.Data.Hazards = cluster.NoHazards()
		for i := range o.Data.Hazards {
			if h := &o.Data.Hazards[i]; h.Kind == cluster.HazardOldLog {
				h.State = cluster.HazardPresent
			}
		}
		return o
	}
	got := steps(t, join, newer, old("3.6.0"))
	if !strings.HasPrefix(got, "install: have etcd take a raft snapshot: its log has entries that the next minor version "+
		"cannot read\ninstall: install etcd 3.7.3 into /opt/bin\n") || !strings.Contains(got, "start: restart etcd\n") {
		t.Errorf("the plan is\n%s", got)
	}
	down := old("3.6.0")
	down.Local, down.Service.State = nil, machine.ServiceStopped
	mixed := old("3.5.0")
	mixed.Remote.Members[0].Version, mixed.Remote.Lowest = etcdversion.Must("3.5.35"), etcdversion.Must("3.5.35")
	for reason, obs := range map[string]machine.Observation{
		"not-yet": old("3.5.0"), "version-step": mixed, "version-hazard": down,
	} {
		if got := steps(t, join, newer, obs); !strings.HasPrefix(got, "hold "+reason+": ") {
			t.Errorf("%s: %s", reason, got)
		}
	}
	alarmed := old("3.6.0")
	alarmed.Remote.Members[0].Alarms = []string{"NOSPACE"}
	if got := steps(t, join, newer, alarmed); !strings.HasPrefix(got, "hold alarm: ") {
		t.Errorf("with an alarm: %s", got)
	}
}

// What etcd's leader does by itself within seconds is waited for: a script goes on behind it.
func TestWhatEtcdDoesByItselfIsWaitedFor(t *testing.T) {
	join := machine.Goal{Action: machine.Join}
	a, self := at(healthy("a", 0xa, "10.0.0.1"), "3.6.16"), at(healthy("b", 0xb, "10.0.0.2"), "3.6.16")
	down := desired(func(c *machine.Config) { c.Version = etcdversion.Must("3.5.35") })
	on36 := func(downgrade string) machine.Observation {
		o := runs(a, self)
		o.Local = report("3.6.16", downgrade, "3.6.0", "3.6.0")
		o.Remote.Lowest, o.Remote.Highest, o.Remote.Downgrade = v36, v36, o.Local.Downgrade
		o.Binaries = machine.Binary{Etcd: v36, Etcdctl: v36, Etcdutl: v36}
		return o
	}
	for _, s := range []struct {
		name   string
		cfg    machine.Config
		obs    machine.Observation
		reason machine.Reason
		wait   bool
	}{
		{"a downgrade that nobody has enabled", down, on36(""), machine.VersionStep, false},
		{"one that etcd prepares", down, on36("3.5.0"), machine.VersionStep, true},
		{"one that all have gone", desired(), on36("3.6.0"), machine.NotYet, true},
		{"one that others have to go", desired(), on36("3.5.0"), "", false},
	} {
		_, why, err := machine.Plan(join, s.cfg, s.obs)
		if err != nil {
			t.Fatal(err)
		}
		if why == nil {
			why = &machine.Hold{}
		}
		if why.Reason != s.reason || why.Wait != s.wait {
			t.Errorf("%s: %+v", s.name, why)
		}
	}
}
