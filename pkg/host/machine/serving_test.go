package machine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// A member that serves is neither changed nor restarted before it is known that the
// quorum can spare it, and what would be refused later is not written first.
func TestAMemberThatServesIsLeftAlone(t *testing.T) {
	join := machine.Goal{Action: machine.Join}
	a, c := healthy("a", 0xa, "10.0.0.1"), healthy("c", 0xc, "10.0.0.3")
	self := healthy("b", 0xb, "10.0.0.2")
	serving := func(remote machine.Remote) machine.Observation {
		o := ready(a)
		o.Remote = remote
		o.Data = machine.Data{State: cluster.DiskData, MemberID: self.ID, ClusterID: 0xc1, Ready: true}
		o.Local = &cluster.Report{ID: self.ID, Leader: a.ID}
		o.Service = machine.ServiceStatus{State: machine.ServiceRunning, Enabled: true}
		o.Record = machine.Record{Action: machine.Join, Served: true}
		o.Files = map[string]string{desired().Paths.EnvFile(): "ETCD_NAME=b"}
		o.Written = map[string]string{
			"ETCD_NAME": "b", "ETCD_INITIAL_CLUSTER": "b=https://10.0.0.2:2380", "ETCD_INITIAL_CLUSTER_STATE": "existing",
			"ETCD_INITIAL_CLUSTER_TOKEN": "tok",
		}
		return o
	}
	const unreachable = "hold cluster-unreachable: the cluster does not answer: nothing listens\n"
	nobody := machine.Remote{Problem: "nothing listens"}
	const short = "hold quorum-margin: restarting this machine's member would leave 1 healthy voters of 3\n"
	newer := desired(func(c *machine.Config) { c.Version = etcdversion.Must("3.6.17") })
	for _, s := range []struct {
		name string
		cfg  machine.Config
		obs  machine.Observation
		want string
	}{
		{"new files, and endpoints that do not answer", desired(), serving(nobody), unreachable},
		{"new binaries, and endpoints that do not answer", newer, serving(nobody), unreachable},
		{"new files, and a member is down", desired(), serving(answering(a, self, sick(c))), short},
		{"new binaries, and a member is down", newer, serving(answering(a, self, sick(c))), short},
		{"another name", desired(func(c *machine.Config) { c.Name, c.Version = "wrong", etcdversion.Must("3.6.17") }),
			serving(answering(a, self, c)), "hold data-present: the name of this machine's member is b, not wrong\n"},
	} {
		t.Run(s.name, func(t *testing.T) {
			if got := steps(t, join, s.cfg, s.obs); got != s.want {
				t.Errorf("the plan is\n%s\nwant\n%s", got, s.want)
			}
		})
	}
	// What is gone is put back, so that the member comes back from its next crash.
	bare := serving(nobody)
	bare.Files = nil
	if got := steps(t, join, desired(), bare); !strings.HasPrefix(got, "configure: write ") {
		t.Errorf("files that are gone: %s", got)
	}
	// A member that was initialized is asked itself, and has nobody else to ask.
	for _, goal := range []machine.Goal{{Action: machine.Init}, {Action: machine.Init, Phase: "configure"}} {
		alone := serving(nobody)
		alone.Record.Action = machine.Init
		if got := steps(t, goal, desired(), alone); strings.HasPrefix(got, "hold") {
			t.Errorf("%+v: %s", goal, got)
		}
	}
	install := machine.Goal{Action: machine.Join, Phase: "install"}
	if got := steps(t, install, newer, serving(nobody)); got != "install: install etcd 3.6.17 into /opt/bin\n" {
		t.Errorf("install by itself: %s", got)
	}
	stopped := serving(nobody)
	stopped.Local, stopped.Service = nil, machine.ServiceStatus{State: machine.ServiceStopped, Enabled: true}
	if got := steps(t, join, desired(), stopped); got == unreachable {
		t.Error("where all machines went down, none comes back")
	}
	// A join may have been killed between the vote and the record that there is data.
	stopped.Record.Served = false
	if got := steps(t, join, desired(), stopped); got == unreachable {
		t.Error("the second member of two waits for itself")
	}
	stopped.Record.Undoing = true
	if got := steps(t, join, desired(), stopped); got != unreachable {
		t.Errorf("one that undoes its join: %s", got)
	}
	stopped.Record.Undoing, stopped.Data.Uncommitted = false, true
	if got := steps(t, join, desired(), stopped); got != unreachable {
		t.Errorf("one that has committed nothing: %s", got)
	}
}

// Phases by themselves say what is missing, and write nothing before it is there.
func TestPhasesOnAnEmptyMachine(t *testing.T) {
	for phase, want := range map[string]string{
		"start":      "hold cluster-unreachable: the cluster does not answer: no member answers\n",
		"health":     "hold not-configured: no etcd has been started on this machine\n",
		"membership": "hold cluster-unreachable: the cluster does not answer: no member answers\n",
	} {
		goal := machine.Goal{Action: machine.Join, Phase: phase}
		if got := steps(t, goal, desired(), withCA()); got != want {
			t.Errorf("%s: %s, want %s", phase, got, want)
		}
		if phase == "health" {
			continue
		}
		const missing = "hold ca-missing: there is no certificate authority in /etc/etcd/pki\n"
		if got := steps(t, goal, desired(), fresh()); got != missing {
			t.Errorf("%s without an authority: %s", phase, got)
		}
	}
}

// Only its own join checks the data of a learner of a later version.
func TestALearnerOfALaterVersionIsForItsOwnJoin(t *testing.T) {
	a, c := healthy("a", 0xa, "10.0.0.1"), learner(healthy("c", 0xc, "10.0.0.3"))
	obs := ready(a, c)
	obs.Remote.Learner = machine.Learner{ID: c.ID, Ready: time.Hour}
	obs.Remote.Members[1].Version, obs.Remote.Highest = etcdversion.Must("3.7.3"), etcdversion.Must("3.7.3")
	want := "hold learner-pending: another member is joining: c, which runs etcd 3.7.3 and can only be promoted by its " +
		"own join; if that has ended, run it again on its machine: etcdadm join https://10.0.0.1:2379; or remove the member, on a " +
		"voter's machine: etcdadm remove c\n"
	if got := steps(t, machine.Goal{Action: machine.Join}, desired(), obs); got != want {
		t.Errorf("the plan is\n%s", got)
	}
	obs.Remote.Members[1].Version = v36
	if got := steps(t, machine.Goal{Action: machine.Join}, desired(), obs); got == want {
		t.Errorf("one of the same version is not helped: %s", got)
	}
}
