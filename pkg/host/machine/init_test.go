package machine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// A scenario is a world and the plan that the planner sees in it.
type scenario struct {
	name string
	goal machine.Goal
	cfg  machine.Config
	obs  machine.Observation
	want string
}

func (s scenario) run(t *testing.T) {
	t.Run(s.name, func(t *testing.T) {
		if got := steps(t, s.goal, s.cfg, s.obs); got != strings.TrimPrefix(s.want, "\n") {
			t.Errorf("the plan is\n%s\nand should be\n%s", got, s.want)
		}
	})
}

// bootstrapped returns a machine on which init has been done: what the plan foresees.
func bootstrapped(t *testing.T, cfg machine.Config) machine.Observation {
	t.Helper()
	obs := fresh()
	goal := machine.Goal{Action: machine.Init}
	for range 50 {
		step, why := machine.Next(goal, cfg, obs)
		if why != nil {
			t.Fatal(why)
		}
		if step == nil {
			return withEnv(t, cfg, obs)
		}
		obs = machine.Predict(cfg, obs, step.Do)
	}
	t.Fatal("init does not end")
	return obs
}

// withEnv fills in what an observation would read from the environment file.
func withEnv(t *testing.T, cfg machine.Config, obs machine.Observation) machine.Observation {
	t.Helper()
	obs.Written = map[string]string{}
	for line := range strings.Lines(obs.Files[cfg.Paths.EnvFile()]) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && strings.HasPrefix(k, "ETCD") {
			obs.Written[k] = v
		}
	}
	return obs
}

func TestInit(t *testing.T) {
	initGoal := machine.Goal{Action: machine.Init}
	kubelet := func(c *machine.Config) { c.Service.InitSystem = machine.Kubelet }
	snap := func(c *machine.Config) { c.Snapshot.File = "/root/etcd.db" }
	change := func(f func(*machine.Observation)) machine.Observation {
		obs := fresh()
		f(&obs)
		return obs
	}
	done := bootstrapped(t, desired())
	for _, s := range []scenario{
		{"an empty machine", initGoal, desired(), fresh(), `
install: install etcd 3.6.16 into /opt/bin
certificates: create a certificate authority in /etc/etcd/pki
certificates: issue certificates in /etc/etcd/pki: server (missing), peer (missing)
configure: record that a cluster is bootstrapped here
configure: write /etc/etcd/etcd.env, /etc/systemd/system/etcd.service
start: make the data directory /var/lib/etcd
start: start etcd
start: record that the member has data
etcdctl: write /etc/etcd/etcdctl.env, /opt/bin/etcdctl.sh
health: wait until etcd serves
`},
		{"init again has nothing to do", initGoal, desired(), done, ""},
		{"a static pod brings its own binaries", initGoal, desired(kubelet), fresh(), `
certificates: create a certificate authority in /etc/etcd/pki
certificates: issue certificates in /etc/etcd/pki: server (missing), peer (missing)
configure: record that a cluster is bootstrapped here
start: make the data directory /var/lib/etcd
start: start etcd
start: record that the member has data
etcdctl: write /etc/etcd/etcdctl.env, /opt/bin/etcdctl.sh
health: wait until etcd serves
`},
		{"a snapshot is restored with the tool of the version, also for a pod", initGoal, desired(kubelet, snap), fresh(), `
install: install etcd 3.6.16 into /opt/bin
certificates: create a certificate authority in /etc/etcd/pki
certificates: issue certificates in /etc/etcd/pki: server (missing), peer (missing)
snapshot: record that a cluster is bootstrapped here
snapshot: restore the snapshot /root/etcd.db into /var/lib/etcd
start: record that the member has data
start: start etcd
etcdctl: write /etc/etcd/etcdctl.env, /opt/bin/etcdctl.sh
health: wait until etcd serves
`},
		{"a member of another cluster stays", initGoal, desired(), change(func(o *machine.Observation) {
			o.Data = machine.Data{State: cluster.DiskData, MemberID: 0xb, ClusterID: 0xc1}
		}), `
hold data-present: /var/lib/etcd holds the data of member b of cluster c1, which a new cluster would not have
`},
		{"what the retired etcdadm bootstrapped here under this name goes on", machine.Goal{
			Action: machine.Init, Phase: "start",
		}, desired(), change(func(o *machine.Observation) {
			o.Data = machine.Data{State: cluster.DiskData, MemberID: 0xb, ClusterID: 0xc1, Ready: true}
			o.Written = map[string]string{"ETCD_NAME": "b", "ETCD_INITIAL_CLUSTER_STATE": "new"}
		}), "start: record that the member has data\nstart: start etcd\n"},
		{"data that cannot be understood stays", machine.Goal{Action: machine.Init, Phase: "configure"}, desired(),
			change(func(o *machine.Observation) {
				o.Data = machine.Data{State: cluster.DiskUnreadable, Problem: "no log file"}
			}), "hold data-unreadable: /var/lib/etcd cannot be read: no log file\n"},
		{"a snapshot is not restored over a member", machine.Goal{Action: machine.Init, Phase: "snapshot"}, desired(snap),
			change(func(o *machine.Observation) {
				o.Data, o.Record = machine.Data{State: cluster.DiskData}, machine.Record{Action: machine.Init, Token: "t"}
			}), "hold snapshot-restored: /var/lib/etcd holds data that does not come from /root/etcd.db\n"},
		{"a CA without its key cannot issue", machine.Goal{Action: machine.Init, Phase: "certificates"}, desired(),
			change(func(o *machine.Observation) {
				o.PKI.CA = machine.CAExternal
			}), "hold external-ca: the certificate authority in /etc/etcd/pki has no key here, but server must be issued " +
				"(missing)\n"},
		{"a CA without its key is enough where all is issued", machine.Goal{Action: machine.Init, Phase: "certificates"},
			desired(), change(func(o *machine.Observation) {
				o.PKI = machine.PKI{CA: machine.CAExternal}
			}), ""},
		{"an etcd-manager is at work", initGoal, desired(),
			change(func(o *machine.Observation) { o.Host.Manager = "/var/lib/etcd-manager" }),
			"hold managed: an etcd-manager with its data in /var/lib/etcd-manager runs the etcd of this machine\n"},
		{"an initial member that lost its data bootstraps no second cluster", machine.Goal{
			Action: machine.Init, Phase: "configure",
		}, desired(), change(func(o *machine.Observation) {
			o.Record = machine.Record{Action: machine.Init, Token: "t", Served: true}
		}), "hold data-lost: a member has run on this machine, but /var/lib/etcd is empty: init would make a second " +
			"cluster beside the rest of its own\n"},
		{"nor does one of the retired etcdadm", initGoal, desired(), change(func(o *machine.Observation) {
			o.Written = map[string]string{
				"ETCD_NAME": "b", "ETCD_INITIAL_CLUSTER_STATE": "new", "ETCD_DATA_DIR": "/var/lib/etcd",
			}
		}), "hold data-lost: a member has run on this machine, but /var/lib/etcd is empty: init would make a second " +
			"cluster beside the rest of its own\n"},
		{"a member whose data is elsewhere stays", initGoal, desired(), change(func(o *machine.Observation) {
			o.Written = map[string]string{"ETCD_DATA_DIR": "/data/etcd"}
		}), "hold data-elsewhere: this machine's etcd has its data in /data/etcd, not in /var/lib/etcd\n"},
		{"an etcd that answers has its data somewhere", initGoal, desired(), change(func(o *machine.Observation) {
			o.Local = &cluster.Report{ID: 1}
		}), "hold data-elsewhere: an etcd answers at https://10.0.0.2:2379, but /var/lib/etcd is empty\n"},
		{"the etcd of a distribution stays", initGoal, desired(), change(func(o *machine.Observation) {
			o.Service = machine.ServiceStatus{
				State: machine.ServiceRunning, Enabled: true, Foreign: "/lib/systemd/system/etcd.service",
			}
		}), "hold service-foreign: an etcd that etcdadm did not set up runs on this machine: the unit " +
			"/lib/systemd/system/etcd.service\n"},
		{"a member without its CA gets no other one", initGoal, desired(), change(func(o *machine.Observation) {
			o.Data, o.Record = machine.Data{State: cluster.DiskData, Ready: true}, machine.Record{
				Action: machine.Init, Token: "t", Served: true,
			}
			o.Binaries = machine.Binary{Etcd: v36, Etcdctl: v36, Etcdutl: v36}
		}), "hold ca-missing: there is no certificate authority in /etc/etcd/pki\n"},
		{"a bootstrap that was cut off before it committed anything begins again", machine.Goal{
			Action: machine.Init, Phase: "start",
		}, desired(), change(func(o *machine.Observation) {
			o.Data, o.Record = machine.Data{State: cluster.DiskData, Uncommitted: true, Ready: true}, machine.Record{
				Action: machine.Init, Token: "t",
			}
			o.Service.State = machine.ServiceStopped
		}), "start: delete the data of an unknown member in /var/lib/etcd\nstart: make the data directory " +
			"/var/lib/etcd\nstart: start etcd\nstart: record that the member has data\n"},
		{"so does one that was started again on what was cut off", machine.Goal{Action: machine.Init, Phase: "start"},
			desired(), change(func(o *machine.Observation) {
				o.Data, o.Record = machine.Data{State: cluster.DiskData, Uncommitted: true, Ready: true}, machine.Record{
					Action: machine.Init, Token: "t",
				}
				o.Service = machine.ServiceStatus{State: machine.ServiceRunning, Enabled: true, Uptime: time.Minute}
			}), "start: stop etcd\nstart: delete the data of an unknown member in /var/lib/etcd\nstart: make the data " +
				"directory /var/lib/etcd\nstart: start etcd\nstart: record that the member has data\n"},
		{"one that has just been started is left alone", machine.Goal{Action: machine.Init, Phase: "start"}, desired(),
			change(func(o *machine.Observation) {
				o.Data, o.Record = machine.Data{State: cluster.DiskData, Uncommitted: true, Ready: true}, machine.Record{
					Action: machine.Init, Token: "t",
				}
				o.Service = machine.ServiceStatus{State: machine.ServiceRunning, Enabled: true, Uptime: 19 * time.Second}
			}), ""},
		{"nor does one that had joined", machine.Goal{Action: machine.Init, Phase: "start"}, desired(),
			change(func(o *machine.Observation) {
				o.Record = machine.Record{Action: machine.Join}
			}), "hold data-lost: a member has run on this machine, but /var/lib/etcd is empty: init would make a second " +
				"cluster beside the rest of its own\n"},
		{"a reset is finished first", machine.Goal{Action: machine.Init, Phase: "start"}, desired(),
			change(func(o *machine.Observation) {
				o.Record = machine.Record{Action: machine.Reset}
			}), "hold reset-unfinished: a reset of this machine was begun but not finished\n"},
		{"init goes no further than a join: one minor version at a time", initGoal,
			desired(func(c *machine.Config) { c.Version = etcdversion.Must("3.7.3") }), change(func(o *machine.Observation) {
				v := etcdversion.Must("3.5.35")
				o.Binaries = machine.Binary{Etcd: v, Etcdctl: v, Etcdutl: v}
				o.Data, o.Record = machine.Data{State: cluster.DiskData, Ready: true}, machine.Record{
					Action: machine.Init, Token: "t",
				}
			}), "hold version-step: etcd 3.7.3 cannot follow the cluster's 3.5.35\n"},
		{"the token of an earlier phase is kept", machine.Goal{Action: machine.Init, Phase: "configure"}, desired(),
			change(func(o *machine.Observation) {
				o.Record = machine.Record{Action: machine.Init, Token: "earlier"}
			}), "configure: write /etc/etcd/etcd.env, /etc/systemd/system/etcd.service\n"},
	} {
		s.run(t)
	}
}

func TestInitAgainChangesWhatDiffers(t *testing.T) {
	goal := machine.Goal{Action: machine.Init}
	done := bootstrapped(t, desired())
	done.Remote = answering(healthy("b", 0xb, "10.0.0.2"))
	quota := desired(func(c *machine.Config) { c.Etcd.QuotaBytes = 8 << 30 })
	if got := steps(t, goal, quota,
		done); got != "configure: write /etc/etcd/etcd.env\nstart: restart etcd\nhealth: wait until etcd serves\n" {
		t.Errorf("another quota: %s", got)
	}
	// A process of another user is stopped before its data changes hands.
	user := desired(func(c *machine.Config) { c.Service.User = "etcd" })
	other := done
	other.Data.Ready, other.Data.Foreign = false, true
	want := "configure: write /etc/systemd/system/etcd.service\nstart: stop etcd\nstart: make the data directory " +
		"/var/lib/etcd\nstart: start etcd\nhealth: wait until etcd serves\n"
	if got := steps(t, goal, user, other); got != want {
		t.Errorf("another user: %s", got)
	}
	// The next observation sees that the process has other settings.
	done.Service.Outdated = true
	if got := steps(t, goal, desired(), done); !strings.HasPrefix(got, "start: restart etcd\n") {
		t.Errorf("other settings: %s", got)
	}
	// While another member is down, a restart would end the quorum.
	down := healthy("c", 0xd, "10.0.0.3")
	down.Healthy = false
	done.Remote = answering(healthy("b", 0xb, "10.0.0.2"), healthy("a", 0xa, "10.0.0.1"), down)
	want = "hold quorum-margin: restarting this machine's member would leave 1 healthy voters of 3\n"
	if got := steps(t, goal, desired(), done); got != want {
		t.Errorf("with a member down: %s", got)
	}
}

func TestInitTokenReachesTheFiles(t *testing.T) {
	obs := fresh()
	obs.Record = machine.Record{Action: machine.Init, Token: "earlier"}
	step, why := machine.Next(machine.Goal{Action: machine.Init, Phase: "configure"}, desired(), obs)
	if why != nil {
		t.Fatal(why)
	}
	env := step.Do.(*machine.WriteFiles).Files[0].Content
	for _, line := range []string{
		"ETCD_INITIAL_CLUSTER_TOKEN=earlier", "ETCD_INITIAL_CLUSTER_STATE=new", "ETCD_NAME=b",
		"ETCD_INITIAL_ADVERTISE_PEER_URLS=https://10.0.0.2:2380",
	} {
		if !strings.Contains("\n"+env, "\n"+line+"\n") {
			t.Errorf("no line %s in\n%s", line, env)
		}
	}
}

func TestIPv6IsBracketed(t *testing.T) {
	six := desired(func(c *machine.Config) { c.Listen.Address = "2001:db8::2" })
	if got := machine.URLs(six); got.Client[0] != "https://[2001:db8::2]:2379" ||
		got.Peer[0] != "https://[2001:db8::2]:2380" {
		t.Errorf("URLs are %v", got)
	}
	step, why := machine.Next(machine.Goal{Action: machine.Init, Phase: "start"}, six, func() machine.Observation {
		o := fresh()
		o.Record = machine.Record{Action: machine.Init, Token: "t"}
		return o
	}())
	if why != nil || step == nil {
		t.Fatal(step, why)
	}
}

// A machine that boots may not have set its clock: nothing is done before it is.
func TestClockThatIsBehind(t *testing.T) {
	obs := fresh()
	obs.PKI = machine.PKI{CA: machine.CABad, Problem: "not valid before noon", ValidFrom: obs.At.Add(time.Hour)}
	for _, phase := range []string{"", "certificates"} {
		step, why := machine.Next(machine.Goal{Action: machine.Init, Phase: phase}, desired(), obs)
		if step != nil || why == nil || why.Reason != machine.CABroken || !why.Wait || why.Others {
			t.Errorf("phase %q: %+v, %+v", phase, step, why)
		}
	}
	obs.PKI.ValidFrom = time.Time{}
	goal := machine.Goal{Action: machine.Init, Phase: "certificates"}
	if _, why := machine.Next(goal, desired(), obs); why == nil || why.Wait {
		t.Errorf("one that will never be valid: %+v", why)
	}
}

func TestVendorVersionIsTheSameRelease(t *testing.T) {
	cfg := desired(func(c *machine.Config) { c.Version = etcdversion.Must("3.5.8-eks-1-26-16") })
	obs := withCA()
	v := etcdversion.Must("3.5.8")
	obs.Binaries = machine.Binary{Etcd: v, Etcdctl: v, Etcdutl: v}
	if got := steps(t, machine.Goal{Action: machine.Init, Phase: "install"}, cfg, obs); got != "" {
		t.Errorf("installed again: %s", got)
	}
	obs.Binaries.Etcdutl = etcdversion.Version{}
	cfg.Version = v
	if got := steps(t, machine.Goal{Action: machine.Init, Phase: "install"}, cfg, obs); got != "" {
		t.Errorf("installed again for want of etcdutl: %s", got)
	}
	cfg.Version = etcdversion.Must("3.5.8-eks-1-26-16")
	obs.Binaries.Etcd = etcdversion.Must("3.5.10")
	if got := steps(t, machine.Goal{Action: machine.Init, Phase: "install"}, cfg, obs); !strings.HasPrefix(got,
		"install: install etcd 3.5.8-eks-1-26-16") {
		t.Errorf("3.5.10 passes for 3.5.8: %s", got)
	}
}
