package machine_test

import (
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// kept is a machine with the data of a member that does not run, which says that it is of
// a version.
func kept(version, installed string) machine.Observation {
	obs := withCA() // there are certificates to issue, too
	obs.Remote = machine.Remote{Problem: "connection refused"}
	obs.Data = machine.Data{State: cluster.DiskData, MemberID: 0xb, ClusterID: 0xc1, Ready: true}
	obs.Record = machine.Record{Action: machine.Init, Served: true}
	if version != "" {
		obs.Data.Version = etcdversion.Must(version)
	}
	if v := installed; v != "" {
		p := etcdversion.Must(v)
		obs.Binaries = machine.Binary{Etcd: p, Etcdctl: p, Etcdutl: p}
	}
	return obs
}

// A machine that has lost its binaries, or has got others, goes by what the data says that
// it is of: nothing older is installed or started, and nothing else done before that is said.
func TestTheDataSaysWhichVersionRunsIt(t *testing.T) {
	for _, c := range []struct {
		data, installed, want string
		held                  string
	}{
		{"3.6.0", "", "3.4.25", "etcd 3.4.25 is older than the data in /var/lib/etcd, which is of cluster version 3.6"},
		{"3.6.0", "3.4.25", "3.4.25", "etcd 3.4.25 is older than the data in /var/lib/etcd, which is of cluster version 3.6"},
		{"3.6.0", "", "3.5.35", "etcd 3.5.35 is older than the data in /var/lib/etcd, which is of cluster version 3.6"},
		{"3.7.0", "", "3.6.16", "etcd 3.6.16 is older than the data in /var/lib/etcd, which is of cluster version 3.7"},
		{"3.5.0", "", "3.4.25", "etcd 3.4.25 is older than the data in /var/lib/etcd, which is of cluster version 3.5"},
		{"3.6.0", "", "3.6.16", ""},
		{"3.6.0", "3.4.25", "3.6.16", ""}, // what is wrong there is put right
		{"3.6.0", "3.6.16", "3.6.16", ""},
		{"3.6.0", "", "3.7.3", ""},
		{"3.5.0", "", "3.7.3", "etcd 3.7.3 cannot follow 3.5, the version of the data in /var/lib/etcd"},
		{"3.5.0", "", "3.5.35", ""}, // also after a downgrade from 3.6
		{"3.5.0", "3.5.35", "3.5.35", ""},
		{"3.5.0", "3.5.35", "3.6.16", ""},
		{"", "", "3.4.25", ""}, // an etcd that never had a cluster, or a snapshot that was just restored
	} {
		for _, init := range []machine.InitSystem{machine.Systemd, machine.Kubelet} {
			for _, goal := range []machine.Goal{
				{Action: machine.Init}, {Action: machine.Join}, {Action: machine.Init, Phase: "install"},
				{Action: machine.Init, Phase: "start"},
			} {
				cfg := desired(func(f *machine.Config) {
					f.Version, f.Service.InitSystem = etcdversion.Must(c.want), init
				})
				obs := kept(c.data, c.installed)
				obs.Record.Action = goal.Action
				obs.Written = map[string]string{"ETCD_INITIAL_CLUSTER": "b=https://10.0.0.2:2380"}
				held := c.held
				if goal.Phase == "start" && init != machine.Kubelet {
					// It starts what is installed, whatever is asked for.
					held = ""
					if c.data == "3.6.0" && c.installed == "3.4.25" {
						held = "etcd 3.4.25 is older than the data in /var/lib/etcd, which is of cluster version 3.6"
					}
				}
				step, why := machine.Next(goal, cfg, obs)
				switch {
				case held == "" && why != nil && why.Reason == machine.VersionStep:
					t.Errorf("%+v, %s %+v: %v", c, init, goal, why)
				case held != "" && (why == nil || why.Reason != machine.VersionStep || why.Text != held ||
					!strings.Contains(why.Next, "--version") || why.Wait):
					t.Errorf("%+v, %s %+v: %v, %+v", c, init, goal, step, why)
				}
			}
		}
	}
}

// The hint names what can be typed: the version of the data, and the way down.
func TestTheWayDownFromTheData(t *testing.T) {
	for want, hint := range map[string]string{
		"3.5.35": "--version=3.6.16; to downgrade, start that, and then: /opt/bin/etcdctl.sh downgrade enable 3.5",
		"3.4.25": "--version=3.6.16; to downgrade, start that, and then: /opt/bin/etcdctl.sh downgrade enable 3.5; from 3.5 to " +
			"an earlier one, only a snapshot that is restored leads: etcdadm init --snapshot",
	} {
		cfg := desired(func(f *machine.Config) { f.Version = etcdversion.Must(want) })
		_, why := machine.Next(machine.Goal{Action: machine.Init}, cfg, kept("3.6.0", ""))
		if why == nil || why.Next != hint {
			t.Errorf("%s: %+v", want, why)
		}
	}
}

// Data that does not say what it is of is started with what checks that itself. 3.4 does
// not: somebody has to say that it is right.
func TestDataOfAnUnknownVersion(t *testing.T) {
	obs := kept("", "")
	obs.Data.VersionProblem = "its first page is invalid"
	for _, c := range []struct {
		want, installed, risk string
		held                  bool
	}{
		{"3.4.25", "", "", true}, {"3.4.25", "", "seen by hand", false},
		{"3.4.25", "3.4.25", "", false}, {"3.5.35", "", "", false},
	} {
		obs.Binaries = kept("", c.installed).Binaries
		cfg := desired(func(f *machine.Config) { f.Version = etcdversion.Must(c.want) })
		_, why := machine.Next(machine.Goal{Action: machine.Init, AcceptVersionRisk: c.risk}, cfg, obs)
		if held := why != nil && why.Reason == machine.VersionStep; held != c.held {
			t.Errorf("%+v: %v", c, why)
		}
	}
}

// Data that is not started does not count, and neither does what a running etcd has not
// written yet.
func TestDataThatSaysNothingAboutTheVersion(t *testing.T) {
	cfg := desired(func(f *machine.Config) { f.Version = etcdversion.Must("3.5.35") })
	a, c := healthy("a", 0xa, "10.0.0.1"), healthy("c", 0xc, "10.0.0.3")
	old := etcdversion.Must("3.5.35")
	foreign := kept("3.6.0", "")
	foreign.Remote = answering(a, c)
	foreign.Remote.Lowest, foreign.Remote.Highest, foreign.Record = old, old, machine.Record{}
	step, why := machine.Next(machine.Goal{Action: machine.Join, SetAsideData: true}, cfg, foreign)
	if why != nil || step == nil {
		t.Errorf("data to be set aside: %v, %v", step, why)
	}
	runs := kept("3.6.0", "") // it was deleted under the etcd that runs
	runs.Local = report("3.6.16", "3.5.0", "3.5.0", "3.5.0")
	runs.Service = machine.ServiceStatus{State: machine.ServiceRunning, Enabled: true}
	if _, why := machine.Next(machine.Goal{Action: machine.Init, Phase: "install"}, cfg, runs); why != nil {
		t.Errorf("data that etcd has just prepared: %v", why)
	}
}

// An etcd that has just been started on a snapshot of a later version may not have written
// its own yet, and data may be set aside as soon as the cluster answers.
func TestWhatTheDataSaysForAMoment(t *testing.T) {
	cfg := desired(func(f *machine.Config) { f.Version = etcdversion.Must("3.5.35") })
	obs := kept("3.6.0", "3.5.35")
	if _, why := machine.Next(machine.Goal{Action: machine.Init}, cfg, obs); why == nil || why.Momentary {
		t.Errorf("nothing runs: %+v", why)
	}
	obs.Service = machine.ServiceStatus{State: machine.ServiceRunning, Enabled: true}
	_, why := machine.Next(machine.Goal{Action: machine.Init}, cfg, obs)
	if why == nil || why.Reason != machine.VersionStep || !why.Momentary {
		t.Errorf("its etcd starts: %+v", why)
	}
	join := machine.Goal{Action: machine.Join, SetAsideData: true}
	if _, why := machine.Next(join, cfg, kept("3.6.0", "")); why != nil && why.Reason == machine.VersionStep {
		t.Errorf("nobody answers yet: %+v", why)
	}
}

// A machine that joins with a version that no member runs says so, and one with a version that etcd does
// not take beside theirs is held.
func TestJoiningWithAnotherVersion(t *testing.T) {
	a, c := healthy("a", 0xa, "10.0.0.1"), healthy("c", 0xc, "10.0.0.3")
	for name, tc := range map[string]struct {
		wants, a, c string
		warns, next string
		held        string
	}{
		"theirs": {wants: "3.6.16", a: "3.6.16", c: "3.6.16"},
		"the next minor version": {wants: "3.7.3", a: "3.6.16", c: "3.6.16",
			warns: "the members run etcd 3.6.16, and this machine's will run 3.7.3",
			next: "--version=3.6.16 joins with theirs; 3.7.3 is right where all members are to run it: " +
				"etcdadm upgrade plan --to=3.7.3"},
		"a newer patch": {wants: "3.6.16", a: "3.6.11", c: "3.6.12",
			warns: "the members run etcd 3.6.11 and 3.6.12, and this machine's will run 3.6.16",
			next: "--version=3.6.12 joins with theirs; 3.6.16 is right where all members are to run it: " +
				"etcdadm upgrade plan --to=3.6.16"},
		"an earlier patch": {wants: "3.6.11", a: "3.6.16", c: "3.6.16",
			warns: "the members run etcd 3.6.16, and this machine's will run 3.6.11",
			next:  "--version=3.6.16 joins with theirs"},
		"in the middle of a replacement": {wants: "3.7.3", a: "3.6.16", c: "3.7.3"},
		"two minor versions": {wants: "3.7.3", a: "3.5.35", c: "3.5.35",
			held: "etcd 3.7.3 cannot follow the cluster's 3.5.35"},
		"an earlier minor version": {wants: "3.5.35", a: "3.6.16", c: "3.6.16",
			held: "etcd 3.5.35 is older than the cluster's 3.6.16"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := desired(func(f *machine.Config) { f.Version = etcdversion.Must(tc.wants) })
			obs := ready(at(a, tc.a), at(c, tc.c))
			obs.Remote.Lowest, obs.Remote.Highest = etcdversion.Must(tc.a), etcdversion.Must(tc.c)
			goal := machine.Goal{Action: machine.Join}
			var warns, next string
			for _, f := range machine.Preflight(goal, cfg, obs) {
				if f.ID == "EtcdVersion" {
					if warns, next = f.Text, f.Next; f.Fatal {
						t.Error("a replacement of all machines would stop here")
					}
				}
			}
			if warns != tc.warns || next != tc.next {
				t.Errorf("it warns %q (%q), want %q (%q)", warns, next, tc.warns, tc.next)
			}
			var held string
			if _, why := machine.Next(goal, cfg, obs); why != nil {
				held = why.Text
			}
			if held != tc.held {
				t.Errorf("held: %q, want %q", held, tc.held)
			}
			// A member has its own warning: what it changes is its own data.
			obs = ready(at(a, tc.a), at(c, tc.c), at(healthy("b", 0xb, "10.0.0.2"), tc.a))
			for _, f := range machine.Preflight(goal, cfg, obs) {
				if f.ID == "EtcdVersion" {
					t.Errorf("of a member: %+v", f)
				}
			}
		})
	}
}
