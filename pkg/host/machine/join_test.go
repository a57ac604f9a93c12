package machine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// ready returns a machine with CA, certificates and binaries, and the cluster.
func ready(members ...cluster.Member) machine.Observation {
	obs := withCA()
	obs.PKI.Wrong = nil
	obs.Binaries = machine.Binary{Etcd: v36, Etcdctl: v36, Etcdutl: v36}
	obs.Remote = answering(members...)
	return obs
}

func unstarted(id cluster.MemberID, host string, learner bool) cluster.Member {
	return cluster.Member{ID: id, PeerURLs: []string{"https://" + host + ":2380"}, Learner: learner}
}

func learner(m cluster.Member) cluster.Member {
	m.Learner = true
	return m
}

func sick(m cluster.Member) cluster.Member {
	m.Healthy = false
	return m
}

// reports has this machine's etcd report a downgrade, the cluster version, and the version of
// its data.
func reports(downgrade, cluster, storage string) func(*machine.Observation) {
	return func(o *machine.Observation) {
		o.Local = report("3.6.16", downgrade, cluster, storage)
	}
}

func report(version, downgrade, seen, storage string) *cluster.Report {
	r := &cluster.Report{ID: 0xb, ClusterID: 0xc1, Leader: 0xa, Version: etcdversion.Must(version),
		Cluster: etcdversion.Must(seen), Storage: etcdversion.Must(storage)}
	if downgrade != "" {
		r.Downgrade = etcdversion.Must(downgrade)
	}
	return r
}

const joinRest = `configure: record that the member joins
configure: write /etc/etcd/etcd.env, /etc/systemd/system/etcd.service
start: make the data directory /var/lib/etcd
start: start etcd
start: record that the member has data
etcdctl: write /etc/etcd/etcdctl.env, /opt/bin/etcdctl.sh
health: wait until etcd serves
`

func TestJoin(t *testing.T) {
	join := machine.Goal{Action: machine.Join}
	a, c, d := healthy("a", 0xa, "10.0.0.1"), healthy("c", 0xc, "10.0.0.3"), healthy("d", 0xd, "10.0.0.4")
	self := healthy("b", 0xb, "10.0.0.2")
	with := func(obs machine.Observation, f func(*machine.Observation)) machine.Observation {
		f(&obs)
		return obs
	}
	data := func(member cluster.MemberID, id cluster.ClusterID) func(*machine.Observation) {
		return func(o *machine.Observation) {
			o.Data = machine.Data{State: cluster.DiskData, MemberID: member, ClusterID: id, Ready: true}
		}
	}
	at := func(v string) func(*machine.Config) {
		return func(c *machine.Config) { c.Version = etcdversion.Must(v) }
	}
	binaries := func(v string) func(*machine.Observation) {
		return func(o *machine.Observation) {
			p := etcdversion.Must(v)
			o.Binaries = machine.Binary{Etcd: p, Etcdctl: p, Etcdutl: p}
		}
	}
	for _, s := range []scenario{
		{"one machine has what it needs before the cluster is changed", join, desired(), func() machine.Observation {
			o := withCA()
			o.Remote = answering(a)
			return o
		}(), `
certificates: issue certificates in /etc/etcd/pki: server (missing), peer (missing)
install: install etcd 3.6.16 into /opt/bin
membership: etcdadm member add-learner --node=b --peer-url=https://10.0.0.2:2380 --expect-voters=1
` + joinRest + "health: etcdadm member promote --name=b --expect-voters=1\n"},
		{"no CA is ever made", join, desired(), fresh(),
			"hold ca-missing: there is no certificate authority in /etc/etcd/pki\n"},
		{"a version that cannot be, before anything is made", join, desired(at("3.5.35")), with(withCA(),
			func(o *machine.Observation) { o.Remote = answering(a) }), "hold version-step: etcd 3.5.35 is older than the cluster's 3.6.16\n"},
		{"a name that is taken, before anything is made", join, desired(), with(withCA(), func(o *machine.Observation) {
			o.Remote = answering(a, healthy("b", 0x9, "10.0.0.9"))
		}), "hold name-taken: the cluster already has a member b at https://10.0.0.9:2380\n"},
		{"the cluster does not answer", join, desired(),
			with(ready(a), func(o *machine.Observation) { o.Remote = machine.Remote{Problem: "connection refused"} }),
			"hold cluster-unreachable: the cluster does not answer: connection refused\n"},
		{"a learner of an interrupted join goes on", join, desired(), ready(a, unstarted(0xb, "10.0.0.2", true)),
			joinRest + "health: etcdadm member promote --name=b --expect-voters=1\n"},
		{"a voter that an older tool added starts too", join, desired(), ready(a, unstarted(0xb, "10.0.0.2", false)),
			joinRest},
		{"etcd takes no new member during a downgrade", join, desired(), with(ready(a), func(o *machine.Observation) {
			o.Remote.Downgrade = etcdversion.Must("3.5.0")
		}), "hold not-yet: a downgrade to etcd 3.5 is enabled, and etcd takes no new member meanwhile\n"},
		{"two machines at once take turns", join, desired(), ready(a, unstarted(0xc, "10.0.0.3", true)),
			"hold learner-pending: another member is joining: c (https://10.0.0.3:2380)\n"},
		{"a learner that serves gets its vote", join, desired(), with(ready(a, learner(c)), func(o *machine.Observation) {
			o.Remote.Learner = machine.Learner{ID: c.ID, Ready: 10 * time.Second}
		}), `
membership: etcdadm member promote --name=c --expect-voters=1
membership: etcdadm member add-learner --node=b --peer-url=https://10.0.0.2:2380 --expect-voters=2
` + joinRest + "health: etcdadm member promote --name=b --expect-voters=2\n"},
		{"its own machine comes first", join, desired(), with(ready(a, learner(c)), func(o *machine.Observation) {
			o.Remote.Learner = machine.Learner{ID: c.ID, Ready: 9 * time.Second}
		}), "hold learner-pending: another member is joining: c\n"},
		{"a learner that never comes is taken out", join, desired(),
			with(ready(a, unstarted(0xc, "10.0.0.3", true)), func(o *machine.Observation) {
				o.Remote.Learner = machine.Learner{ID: 0xc, Absent: 30 * time.Minute}
			}), `
membership: etcdadm member remove --id=c --expect-voters=1
membership: etcdadm member add-learner --node=b --peer-url=https://10.0.0.2:2380 --expect-voters=1
` + joinRest + "health: etcdadm member promote --name=b --expect-voters=1\n"},
		{"not before", join, desired(),
			with(ready(a, unstarted(0xc, "10.0.0.3", true)), func(o *machine.Observation) {
				o.Remote.Learner = machine.Learner{ID: 0xc, Absent: 30*time.Minute - 1}
			}), "hold learner-pending: another member is joining: c (https://10.0.0.3:2380)\n"},
		{"another learner is another one", join, desired(),
			with(ready(a, unstarted(0xc, "10.0.0.3", true)), func(o *machine.Observation) {
				o.Remote.Learner = machine.Learner{ID: 0xd, Absent: time.Hour}
			}), "hold learner-pending: another member is joining: c (https://10.0.0.3:2380)\n"},
		{"a learner that runs and is heard may be copying", join, desired(),
			with(ready(a, sick(learner(c))), func(o *machine.Observation) {
				o.Remote.Learner = machine.Learner{ID: c.ID, Behind: 90*time.Second + 1}
			}), "hold learner-pending: another member is joining: c, whose etcd runs but has not caught up for 1m30s; if " +
				"its own join has ended, continue it on its machine: etcdadm join https://10.0.0.1:2379; or remove the member, on a " +
				"voter's machine: etcdadm remove c\n"},
		{"one of which the leader hears nothing is taken out", join, desired(),
			with(ready(a, sick(learner(c))), func(o *machine.Observation) {
				o.Remote.Learner = machine.Learner{ID: c.ID, Behind: 31 * time.Minute, Unheard: 30 * time.Minute}
			}), `
membership: etcdadm member remove --id=c --expect-name=c --expect-voters=1
membership: etcdadm member add-learner --node=b --peer-url=https://10.0.0.2:2380 --expect-voters=1
` + joinRest + "health: etcdadm member promote --name=b --expect-voters=1\n"},
		{"so is one that takes no snapshot", join, desired(),
			with(ready(a, sick(learner(c))), func(o *machine.Observation) {
				o.Remote.Learner = machine.Learner{ID: c.ID, Behind: 31 * time.Minute, Refused: 30 * time.Minute}
			}), `
membership: etcdadm member remove --id=c --expect-name=c --expect-voters=1
membership: etcdadm member add-learner --node=b --peer-url=https://10.0.0.2:2380 --expect-voters=1
` + joinRest + "health: etcdadm member promote --name=b --expect-voters=1\n"},
		{"and not before", join, desired(),
			with(ready(a, sick(learner(c))), func(o *machine.Observation) {
				o.Remote.Learner = machine.Learner{ID: c.ID, Behind: time.Hour, Unheard: 30*time.Minute - 1}
			}), "hold learner-pending: another member is joining: c, whose etcd runs but has sent the leader nothing for " +
				"29m59s; if its own join has ended, continue it on its machine: etcdadm join https://10.0.0.1:2379; or remove " +
				"the member, on a voter's machine: etcdadm remove c\n"},
		{"one that has just begun is left alone", join, desired(),
			with(ready(a, sick(learner(c))), func(o *machine.Observation) {
				o.Remote.Learner = machine.Learner{ID: c.ID, Behind: 59 * time.Second}
			}), "hold learner-pending: another member is joining: c\n"},
		{"a voter is never taken out", join, desired(),
			with(ready(a, healthy("d", 0xd, "10.0.0.4"), unstarted(0xc, "10.0.0.3", false)), func(o *machine.Observation) {
				o.Remote.Learner = machine.Learner{ID: 0xc, Absent: time.Hour}
			}), `
membership: etcdadm member add-learner --node=b --peer-url=https://10.0.0.2:2380 --expect-voters=3
` + joinRest + "health: etcdadm member promote --name=b --expect-voters=3\n"},
		{"the name is taken", join, desired(), ready(a, healthy("b", 0xb, "10.0.0.9")),
			"hold name-taken: the cluster already has a member b at https://10.0.0.9:2380\n"},
		{"nothing is issued or installed before that is said", join, desired(),
			with(withCA(), func(o *machine.Observation) { o.Remote = answering(a, healthy("b", 0xb, "10.0.0.9")) }),
			"hold name-taken: the cluster already has a member b at https://10.0.0.9:2380\n"},
		{"nor for a version that cannot be", join, desired(at("3.7.3")),
			with(withCA(), func(o *machine.Observation) {
				o.Remote = answering(a)
				o.Remote.Lowest = etcdversion.Must("3.5.35")
			}), "hold version-step: etcd 3.7.3 cannot follow the cluster's 3.5.35\n"},
		{"a cluster without quorum is not joined", join, desired(), ready(a, sick(c)),
			"hold quorum-margin: 1 of 2 voters are healthy\n"},
		{"a member that lost its data is not started empty", join, desired(), ready(a, c, sick(self)),
			"hold data-lost: member b has run on this machine, but /var/lib/etcd is empty\n"},
		{"it is removed and added again when asked to", machine.Goal{Action: machine.Join, ReplaceMember: true}, desired(),
			ready(a, c, sick(self)), `
membership: etcdadm member remove --id=b --expect-name=b --expect-voters=3
membership: etcdadm member add-learner --node=b --peer-url=https://10.0.0.2:2380 --expect-voters=2
` + joinRest + "health: etcdadm member promote --name=b --expect-voters=2\n"},
		{"a healthy member at this address is another machine", machine.Goal{Action: machine.Join, ReplaceMember: true},
			desired(), ready(a, c, self),
			"hold member-healthy: member b, which has this machine's peer URL, is healthy\n"},
		{"the quorum cannot spare it", machine.Goal{Action: machine.Join, ReplaceMember: true}, desired(),
			ready(a, sick(c), sick(self)),
			"hold quorum-margin: removing b would leave 1 healthy voters of 2\n"},
		{"data of another cluster stays", join, desired(), with(ready(a), data(0xb, 0xc2)),
			"hold data-foreign: /var/lib/etcd holds data of cluster c2, but the endpoints belong to cluster c1\n"},
		{"data of a removed member stays", join, desired(), with(ready(a, c, d), data(0xb, 0xc1)),
			"hold data-foreign: /var/lib/etcd holds data of member b, which was removed from the cluster\n"},
		{"it moves aside when asked to", machine.Goal{Action: machine.Join, SetAsideData: true}, desired(),
			with(with(ready(a, c, d), data(0xb, 0xc1)), func(o *machine.Observation) {
				o.Service = machine.ServiceStatus{State: machine.ServiceCrashing, Enabled: true}
			}), `
stop: stop etcd
membership: move the data of member b in /var/lib/etcd aside
membership: etcdadm member add-learner --node=b --peer-url=https://10.0.0.2:2380 --expect-voters=3
` + joinRest + "health: etcdadm member promote --name=b --expect-voters=3\n"},
		{"one minor version up, from the floor", join, desired(at("3.7.3")), with(ready(a, c, d), binaries("3.7.3")), `
membership: etcdadm member add-learner --node=b --peer-url=https://10.0.0.2:2380 --expect-voters=3
` + joinRest + "health: etcdadm member promote --name=b --expect-voters=3\n"},
		{"from below the floor, to be checked before the vote", join, desired(), with(ready(a), below), `
membership: etcdadm member add-learner --node=b --peer-url=https://10.0.0.2:2380 --expect-voters=1
` + joinRest + "health: etcdadm member promote --name=b --expect-voters=1\n"},
		{"not two minor versions up", join, desired(at("3.7.3")),
			with(with(ready(a), binaries("3.7.3")), func(o *machine.Observation) {
				o.Remote.Lowest = etcdversion.Must("3.5.35")
			}),
			"hold version-step: etcd 3.7.3 cannot follow the cluster's 3.5.35\n"},
		{"nothing is installed that the data cannot run with", join, desired(at("3.5.35")),
			with(ready(a, c, self), data(0xb, 0xc1)),
			"hold version-step: etcd 3.5.35 is older than the cluster's 3.6.16\n"},
		{"not down", join, desired(at("3.5.35")), with(ready(a), binaries("3.5.35")),
			"hold version-step: etcd 3.5.35 is older than the cluster's 3.6.16\n"},
		{"not down while etcd prepares the data for it", join, desired(at("3.5.35")),
			with(with(ready(a, c, self), data(0xb, 0xc1)), reports("3.5.0", "3.5.0", "3.6.0")),
			"hold version-step: etcd 3.5.35 is older than the cluster's 3.6.16\n"},
		{"not down where the downgrade was cancelled", join, desired(at("3.5.35")),
			with(with(ready(a, c, self), data(0xb, 0xc1)), reports("", "3.5.0", "3.5.0")),
			"hold version-step: etcd 3.5.35 is older than the cluster's 3.6.16\n"},
		{"not down although older binaries are there", join, desired(at("3.5.35")),
			with(with(with(ready(a, c, self), data(0xb, 0xc1)), binaries("3.5.35")), reports("", "3.6.0", "3.6.0")),
			"hold version-step: etcd 3.5.35 is older than the cluster's 3.6.16\n"},
		{"down where etcd has prepared the data", machine.Goal{Action: machine.Join, Phase: "install"}, desired(at("3.5.35")),
			with(with(ready(a, c, self), data(0xb, 0xc1)), reports("3.5.0", "3.5.0", "3.5.0")),
			"install: install etcd 3.5.35 into /opt/bin\n"},
		{"the old version while an upgrade is under way", join, desired(at("3.5.35")),
			with(with(ready(a), binaries("3.5.35")), func(o *machine.Observation) {
				o.Remote.Lowest = etcdversion.Must("3.5.35")
			}), `
membership: etcdadm member add-learner --node=b --peer-url=https://10.0.0.2:2380 --expect-voters=1
` + joinRest + "health: etcdadm member promote --name=b --expect-voters=1\n"},
		{"a join that was being undone is undone first", join, desired(),
			with(ready(a, unstarted(0xb, "10.0.0.2", true)), func(o *machine.Observation) {
				o.Record = machine.Record{Action: machine.Join, Undoing: true}
				o.Data = machine.Data{State: cluster.DiskData, MemberID: 0xb, ClusterID: 0xc1, Ready: true}
				o.Service = machine.ServiceStatus{State: machine.ServiceCrashing, Enabled: true}
			}), `
remove-member: etcdadm member remove --id=b --expect-voters=1
stop: stop etcd
data: delete the data of member b in /var/lib/etcd
record: forget the member
membership: etcdadm member add-learner --node=b --peer-url=https://10.0.0.2:2380 --expect-voters=1
` + joinRest + "health: etcdadm member promote --name=b --expect-voters=1\n"},
		{"a first start that was cut off begins again", join, desired(),
			with(ready(a, unstarted(0xb, "10.0.0.2", true)), func(o *machine.Observation) {
				o.Record = machine.Record{Action: machine.Join}
				o.Data = machine.Data{State: cluster.DiskUnreadable, Problem: "no log file", Uncommitted: true, Ready: true}
			}), `
membership: delete the data of an unknown member in /var/lib/etcd
configure: write /etc/etcd/etcd.env, /etc/systemd/system/etcd.service
start: make the data directory /var/lib/etcd
start: start etcd
start: record that the member has data
etcdctl: write /etc/etcd/etcdctl.env, /opt/bin/etcdctl.sh
health: wait until etcd serves
health: etcdadm member promote --name=b --expect-voters=1
`},
		{"an unstarted voter beside it is no reason to wait", machine.Goal{Action: machine.Join, Phase: "certificates"},
			desired(), func() machine.Observation {
				o := withCA()
				o.Remote = machine.Remote{Problem: "nobody was asked"}
				return o
			}(), "certificates: issue certificates in /etc/etcd/pki: server (missing), peer (missing)\n"},
		{"phase stop stops whatever runs", machine.Goal{Action: machine.Join, Phase: "stop"}, desired(),
			with(ready(a), func(o *machine.Observation) {
				o.Service = machine.ServiceStatus{State: machine.ServiceRunning, Enabled: true}
			}), "stop: stop etcd\n"},
		{"phase start without membership", machine.Goal{Action: machine.Join, Phase: "start"}, desired(),
			with(ready(a), func(o *machine.Observation) {
				o.Record.Action = machine.Join
			}), "hold not-configured: the cluster has no member with the peer URL https://10.0.0.2:2380\n"},
	} {
		s.run(t)
	}
}

func TestJoinAgainUpgrades(t *testing.T) {
	cfg := desired()
	a, c, self := healthy("a", 0xa, "10.0.0.1"), healthy("c", 0xc, "10.0.0.3"), healthy("b", 0xb, "10.0.0.2")
	obs := ready(a, c, self)
	old := etcdversion.Must("3.5.35")
	obs.Binaries = machine.Binary{Etcd: old, Etcdctl: old, Etcdutl: old}
	obs.Remote.Lowest = old
	obs.Data = machine.Data{State: cluster.DiskData, MemberID: 0xb, ClusterID: 0xc1, Ready: true}
	obs.Service = machine.ServiceStatus{State: machine.ServiceRunning, Enabled: true}
	obs.Local = &cluster.Report{ID: 0xb, Leader: 0xa}
	obs.Written = map[string]string{
		"ETCD_INITIAL_CLUSTER": "a=https://10.0.0.1:2380,b=https://10.0.0.2:2380", "ETCD_INITIAL_CLUSTER_STATE": "existing",
		"ETCD_INITIAL_CLUSTER_TOKEN": "c1",
	}
	scenario{"upgrade", machine.Goal{Action: machine.Join}, cfg, obs, `
install: install etcd 3.6.16 into /opt/bin
configure: write /etc/etcd/etcd.env, /etc/systemd/system/etcd.service
start: record that the member has data
start: restart etcd
etcdctl: write /etc/etcd/etcdctl.env, /opt/bin/etcdctl.sh
health: wait until etcd serves
`}.run(t)
	// With another member down the restart would end the quorum: nothing moves.
	obs.Remote = answering(a, sick(c), self)
	obs.Remote.Lowest = old
	got := steps(t, machine.Goal{Action: machine.Join, Phase: "start"}, cfg, func() machine.Observation {
		o := obs
		o.Service.Outdated, o.Record.Served = true, true
		return o
	}())
	if want := "hold quorum-margin: restarting this machine's member would leave 1 healthy voters of 3\n"; got != want {
		t.Errorf("with a member down: %s", got)
	}
}

func TestHoldsThatClear(t *testing.T) {
	a := healthy("a", 0xa, "10.0.0.1")
	join := machine.Goal{Action: machine.Join}
	unreachable := ready(a)
	unreachable.Remote = machine.Remote{Problem: "timeout"}
	for _, w := range []struct {
		obs  machine.Observation
		want bool
	}{{ready(a, unstarted(0xc, "10.0.0.3", true)), true}, {unreachable, true}, {
		ready(a, healthy("b", 1, "10.0.0.9")), false,
	}} {
		_, why := machine.Next(join, desired(), w.obs)
		if why == nil || why.Wait != w.want || why.Hint() == "" {
			t.Errorf("%v: waiting is %v", why, !w.want)
		}
	}
}

// Too few healthy voters by one observation may be an election: the hold says so,
// wherever it comes from.
func TestTooFewHealthyVotersMayBeMomentary(t *testing.T) {
	a, self, c := healthy("a", 0xa, "10.0.0.1"), healthy("b", 0xb, "10.0.0.2"), healthy("c", 0xc, "10.0.0.3")
	reset := machine.Goal{Action: machine.Reset}
	leads, restarts := running(sick(a), self), running(a, self, sick(c))
	leads.Remote.Leader = 0xb
	restarts.Record.Served, restarts.Service.Outdated = true, true
	lost := ready(sick(a), sick(self))
	for name, s := range map[string]scenario{
		"leave":       {goal: reset, obs: running(sick(a), self)},
		"leader":      {goal: reset, obs: leads},
		"remove":      {goal: machine.Goal{Action: machine.Remove, TargetID: 0xc}, obs: running(sick(a), self, sick(c))},
		"replacement": {goal: machine.Goal{Action: machine.Join, ReplaceMember: true}, obs: lost},
		"addition":    {goal: machine.Goal{Action: machine.Join}, obs: ready(a, sick(c))},
		"restart":     {goal: machine.Goal{Action: machine.Join, Phase: "start"}, obs: restarts},
	} {
		_, why := machine.Next(s.goal, desired(), s.obs)
		if why == nil || why.Reason != machine.QuorumMargin || !why.Momentary || why.Hint() == "" {
			t.Errorf("%s: %+v", name, why)
		}
	}
}

// Where endpoints of two clusters were seen, nothing is changed at all.
func TestEndpointsOfTwoClustersAreRefused(t *testing.T) {
	two := fresh()
	two.Remote = machine.Remote{Problem: "the endpoints belong to different clusters: x, y", Differ: true}
	mine := running(healthy("a", 0xa, "10.0.0.1"), healthy("b", 0xb, "10.0.0.2"))
	mine.Record.Served, mine.Written = true, map[string]string{"ETCD_INITIAL_CLUSTER": "b=https://10.0.0.2:2380"}
	mine.Remote = two.Remote
	for name, s := range map[string]scenario{
		"join":   {goal: machine.Goal{Action: machine.Join}, obs: two},
		"again":  {goal: machine.Goal{Action: machine.Join}, obs: mine},
		"reset":  {goal: machine.Goal{Action: machine.Reset}, obs: mine},
		"remove": {goal: machine.Goal{Action: machine.Remove, TargetID: 0xc}, obs: mine},
	} {
		step, why := machine.Next(s.goal, desired(), s.obs)
		if step != nil || why == nil || why.Reason != machine.EndpointsDiffer || why.Wait || why.Momentary {
			t.Errorf("%s: %v, %+v", name, step, why)
		}
	}
	two.PKI.CA = machine.CAReady
	if !strings.Contains(fmt.Sprint(machine.Preflight(machine.Goal{Action: machine.Join}, desired(), two)),
		"{Cluster true the endpoints belong to different clusters") {
		t.Error("the checks before it do not fail")
	}
}

// A machine that was killed between its first start and its vote would go on by itself.
func TestALearnerThatWasKilledWouldGetItsVote(t *testing.T) {
	obs := withCA()
	obs.Remote = answering(healthy("a", 1, "10.0.0.1"), cluster.Member{ID: 2, Name: "b", Learner: true,
		PeerURLs: []string{"https://10.0.0.2:2380"}, ClientURLs: []string{"https://10.0.0.2:2379"}, Condition: cluster.Stuck})
	obs.Data = machine.Data{State: cluster.DiskData, Ready: true, MemberID: 2, ClusterID: 0xc1}
	obs.Record = machine.Record{Action: machine.Join, Served: true}
	if got := steps(t, machine.Goal{Action: machine.Join}, desired(), obs); strings.Contains(got, "hold") ||
		!strings.Contains(got, "health: etcdadm member promote --name=b --expect-voters=1") {
		t.Errorf("it would %s", got)
	}
}

// A release that anybody in between can answer is warned of.
func TestPlainHTTPIsWarnedOf(t *testing.T) {
	for url, want := range map[string]bool{
		"http://mirror.example.com/etcd": true, "https://mirror.example.com/etcd": false, "http://127.0.0.1:8080": false,
		"": false,
	} {
		cfg := desired(func(c *machine.Config) { c.Binaries.ReleaseURL, c.Binaries.AllowHTTP = url, true })
		found := machine.Preflight(machine.Goal{Action: machine.Init}, cfg, withCA())
		if slices.ContainsFunc(found, func(f machine.Finding) bool {
			return f.ID == "ReleaseURL" && !f.Fatal && strings.Contains(f.Text, "only the digest proves what it is")
		}) != want {
			t.Errorf("%q: %v", url, found)
		}
	}
}

func TestTheLoopbackIsTheMachinesOwn(t *testing.T) {
	obs := withCA()
	obs.Host.Addresses = []string{"10.0.0.1", "127.0.0.1"}
	for address, own := range map[string]bool{
		"10.0.0.1": true, "127.0.0.1": true, "127.0.0.7": true, "10.0.0.2": false, "::1": false,
	} {
		cfg := desired(func(c *machine.Config) { c.Listen.Address = address })
		found := fmt.Sprint(machine.Preflight(machine.Goal{Action: machine.Init}, cfg, obs))
		if strings.Contains(found, "BindAddress") == own {
			t.Errorf("%s: %s", address, found)
		}
	}
}
