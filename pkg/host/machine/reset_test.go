package machine_test

import (
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// running returns machine b with a member that runs, in a cluster.
func running(members ...cluster.Member) machine.Observation {
	obs := ready(members...)
	obs.Data = machine.Data{State: cluster.DiskData, MemberID: 0xb, ClusterID: 0xc1, Ready: true}
	obs.Service = machine.ServiceStatus{State: machine.ServiceRunning, Enabled: true}
	obs.Record = machine.Record{Action: machine.Join}
	obs.Files = map[string]string{"/etc/etcd/etcd.env": "", "/etc/systemd/system/etcd.service": ""}
	obs.PKI.Paths = []string{"/etc/etcd/pki/peer.crt", "/etc/etcd/pki/peer.key"}
	obs.PKI.CAPaths = []string{"/etc/etcd/pki/ca.crt", "/etc/etcd/pki/ca.key"}
	obs.Binaries.Paths = []string{"/opt/bin/etcd", "/opt/bin/etcdctl"}
	return obs
}

const others = "remove-member: record the other members\n"

const left = "remove-member: record that nothing is left to do in the cluster\n"

const lastLeft = "remove-member: record that the last member of the cluster leaves\n"

const resetRest = `stop: stop etcd
data: move the data of member b in /var/lib/etcd aside
files: delete /etc/etcd/etcd.env, /etc/etcd/pki/peer.crt, /etc/etcd/pki/peer.key, /etc/systemd/system/etcd.service
binaries: delete /opt/bin/etcd, /opt/bin/etcdctl
record: forget the member
`

func TestReset(t *testing.T) {
	reset := machine.Goal{Action: machine.Reset}
	a, self, c := healthy("a", 0xa, "10.0.0.1"), healthy("b", 0xb, "10.0.0.2"), healthy("c", 0xc, "10.0.0.3")
	lead := func(o machine.Observation) machine.Observation {
		o.Remote.Leader = 0xb
		return o
	}
	moved := self
	moved.PeerURLs = []string{"https://10.9.9.9:2380"}
	stopped := running(a, sick(self), c)
	stopped.Service = machine.ServiceStatus{State: machine.ServiceCrashing, Enabled: true}
	elsewhere := running(a, self, c)
	elsewhere.Written = map[string]string{"ETCD_DATA_DIR": "/data/etcd"}
	unreachable := running(a)
	unreachable.Remote = machine.Remote{Problem: "connection refused"}
	discard := machine.Goal{Action: machine.Reset, DiscardData: true}
	forced := discard
	forced.Force = true
	discardRest := strings.Replace(resetRest, "move the data of member b in /var/lib/etcd aside",
		"delete the data of member b in /var/lib/etcd", 1)
	learner := healthy("a", 0xa, "10.0.0.1")
	learner.Learner = true
	removed, begun := running(a), running(self)
	begun.Record = machine.Record{Action: machine.Reset, Last: true}
	alone := unreachable
	alone.Left = true
	for _, s := range []scenario{
		{"it has left, and so have all others", reset, desired(), alone, left + resetRest},
		{"one of three", reset, desired(), running(a, self, c),
			others + "remove-member: etcdadm member remove --id=b --expect-name=b --expect-voters=3\n" + left + resetRest},
		{"the leader hands over first", reset, desired(), lead(running(a, self, c)),
			others + "remove-member: etcdadm member move-leader --to=a\nremove-member: etcdadm member remove --id=b " +
				"--expect-name=b --expect-voters=3\n" + left + resetRest},
		{"the last one stays in the list, and its data is moved", reset, desired(), running(self), lastLeft + resetRest},
		{"whoever was removed before is not the last one", reset, desired(), removed, left + resetRest},
		{"the data of the last one is not deleted", discard, desired(), running(self),
			"hold last-member: member b is the last of its cluster: /var/lib/etcd has all that the cluster holds\n"},
		{"also beside a learner", discard, desired(), running(self, learner),
			"hold last-member: member b is the last of its cluster: /var/lib/etcd has all that the cluster holds\n"},
		{"also by a second reset", discard, desired(), begun,
			"hold last-member: member b is the last of its cluster: /var/lib/etcd has all that the cluster holds\n"},
		{"which may be forced, too", forced, desired(), begun, discardRest},
		{"and may move it", reset, desired(), begun, resetRest},
		{"unless forced", forced, desired(), running(self), lastLeft + discardRest},
		{"the data of another one is", discard, desired(), removed, left + discardRest},
		{"found by its data, whatever address it had", reset, desired(), running(a, moved, c),
			others + "remove-member: etcdadm member remove --id=b --expect-name=b --expect-voters=3\n" + left + resetRest},
		{"a member that crashes is removed and stopped", reset, desired(), stopped,
			others + "remove-member: etcdadm member remove --id=b --expect-name=b --expect-voters=3\n" + left + resetRest},
		{"another directory than that of its etcd is left alone", reset, desired(), elsewhere,
			"hold data-elsewhere: this machine's etcd has its data in /data/etcd, not in /var/lib/etcd\n"},
		{"a member that the quorum needs stays", reset, desired(), running(a, self, sick(c)),
			"hold quorum-margin: removing b would leave 1 healthy voters of 2\n"},
		{"a leader that the quorum needs stays", reset, desired(), lead(running(a, self, sick(c))),
			"hold quorum-margin: removing b would leave 1 healthy voters of 2\n"},
		{"a cluster that does not answer", reset, desired(), unreachable,
			"hold cluster-unreachable: the cluster does not answer: connection refused\n"},
		{"and is not asked", machine.Goal{Action: machine.Reset, SkipRemoveMember: true}, desired(), unreachable, resetRest},
		{"data goes only when asked to", machine.Goal{
			Action: machine.Reset, SkipRemoveMember: true, DiscardData: true, RemoveCA: true,
		}, desired(), unreachable, `
stop: stop etcd
data: delete the data of member b in /var/lib/etcd
files: delete /etc/etcd/etcd.env, /etc/etcd/pki/ca.crt, /etc/etcd/pki/ca.key, /etc/etcd/pki/peer.crt, /etc/etcd/pki/peer.key, /etc/systemd/system/etcd.service
binaries: delete /opt/bin/etcd, /opt/bin/etcdctl
record: forget the member
`},
		{"a join is undone", machine.Undo, desired(), running(a, self, c), `
remove-member: record that the join is undone
remove-member: etcdadm member remove --id=b --expect-name=b --expect-voters=3
stop: stop etcd
data: delete the data of member b in /var/lib/etcd
record: forget the member
`},
		{"another cluster is not asked about it", reset, desired(), func() machine.Observation {
			o := running(a, self, c)
			o.Remote.ClusterID = 0xc2
			return o
		}(), "hold data-foreign: /var/lib/etcd holds data of cluster c1, but the endpoints belong to cluster c2\n"},
		{"data that an etcd may be writing stays", machine.Goal{Action: machine.Reset, SkipRemoveMember: true}, desired(),
			func() machine.Observation {
				o := running(self)
				o.Service, o.Local = machine.ServiceStatus{State: machine.ServiceAbsent}, &cluster.Report{ID: 0xb}
				return o
			}(), "hold still-running: an etcd still answers at https://10.0.0.2:2379\n"},
		{"a deletion that was begun is finished", reset, desired(), func() machine.Observation {
			o := fresh()
			o.Data.Discarded = true
			return o
		}(), "data: delete the data of an unknown member in /var/lib/etcd\n"},
		{"an init system that does not answer is asked", machine.Goal{Action: machine.Reset, SkipRemoveMember: true},
			desired(), func() machine.Observation {
				o := fresh()
				o.Service = machine.ServiceStatus{State: machine.ServiceUnknown}
				return o
			}(), "stop: stop etcd\n"},
		{"and that is the end of it", machine.Undo, desired(), func() machine.Observation {
			o := running(a, c)
			o.Data, o.Service, o.Record = machine.Data{State: cluster.DiskEmpty}, machine.ServiceStatus{
				State: machine.ServiceStopped,
			}, machine.Record{}
			o.Written = map[string]string{"ETCD_NAME": "b"}
			return o
		}(), ""},
		{"variables that were written are gone with their file", reset, desired(), func() machine.Observation {
			o := running(a, self, c)
			o.Written = map[string]string{"ETCD_NAME": "b"}
			return o
		}(), others + "remove-member: etcdadm member remove --id=b --expect-name=b --expect-voters=3\n" + left + resetRest},
		{"an empty machine asks nobody", reset, desired(), fresh(), ""},
	} {
		s.run(t)
	}
}

func TestRemove(t *testing.T) {
	remove := func(target string) machine.Goal { return machine.Goal{Action: machine.Remove, Target: target} }
	a, self, c := healthy("a", 0xa, "10.0.0.1"), healthy("b", 0xb, "10.0.0.2"),
		healthy("c", 0x8e9e05c52164694d, "10.0.0.3")
	force := remove("c")
	force.Force = true
	leads := running(a, self, c)
	leads.Remote.Leader = c.ID
	for _, s := range []scenario{
		{"a dead one by name", remove("c"), desired(), running(a, self, sick(c)),
			"remove-member: etcdadm member remove --id=8e9e05c52164694d --expect-name=c --expect-voters=3\n"},
		{"by id", remove("8e9e05c52164694d"), desired(), running(a, self, sick(c)),
			"remove-member: etcdadm member remove --id=8e9e05c52164694d --expect-name=c --expect-voters=3\n"},
		{"by peer URL", remove("https://10.0.0.3:2380"), desired(), running(a, self, sick(c)),
			"remove-member: etcdadm member remove --id=8e9e05c52164694d --expect-name=c --expect-voters=3\n"},
		{"an id that is gone is done", remove("8e9e05c52164694e"), desired(), running(a, self), ""},
		{"a name that is not there is a mistake", remove("x"), desired(), running(a, self),
			"hold member-unknown: the cluster has no member x\n"},
		{"a healthy one stays", remove("c"), desired(), running(a, self, c), "hold member-healthy: member c is healthy\n"},
		{"unless forced, and from the lead first", force, desired(), leads,
			"remove-member: etcdadm member move-leader --to=a\nremove-member: etcdadm member remove --id=8e9e05c52164694d " +
				"--expect-name=c --expect-voters=3\n"},
		{"the quorum needs it", remove("c"), desired(), running(sick(a), self, sick(c)),
			"hold quorum-margin: removing c would leave 1 healthy voters of 2\n"},
	} {
		s.run(t)
	}
}
