package machines

import (
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/host/operate"
)

// The status names a reason and a next step whatever is wrong.
func TestWhyItDoesNotServe(t *testing.T) {
	cfg := machine.Defaults()
	cfg.Name, cfg.Listen.Address, cfg.Service.InitSystem = "node1", "127.0.0.1", machine.Process
	cfg.Paths.Data = t.TempDir()
	m, err := operate.New(t.Context(), operate.Options{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	running := machine.ServiceStatus{State: machine.ServiceRunning}
	garbage := machine.PKI{CA: machine.CAReady, Wrong: []machine.WrongPair{{Name: "server", Why: "no private key"}}}
	for name, tc := range map[string]struct {
		obs                 machine.Observation
		state, reason, next string
	}{
		"certificates cannot be read": {
			machine.Observation{Service: running, PKI: garbage},
			"wrong", "server: no private key", cfg.Paths.ProcessLog(),
		},
		"the authority cannot be read": {
			machine.Observation{Service: running, PKI: machine.PKI{CA: machine.CABad, Problem: "ca.crt is no certificate"}},
			string(machine.CABad), "ca.crt is no certificate", "etcd.log",
		},
		"others answer": {
			machine.Observation{Service: running, PKI: machine.PKI{CA: machine.CAReady}},
			string(machine.CAReady), "no answer at its client URL", "etcd.log",
		},
		"it was stopped": {
			machine.Observation{Service: machine.ServiceStatus{State: machine.ServiceStopped},
				Data: machine.Data{State: cluster.DiskData}, Record: machine.Record{Action: machine.Join}},
			"", "its service is stopped", "made the member again",
		},
		"nothing was ever here": {
			machine.Observation{Service: machine.ServiceStatus{State: machine.ServiceAbsent},
				Data: machine.Data{State: cluster.DiskEmpty}},
			"", "its service is absent", "create a cluster with etcdadm init",
		},
		"a daemon that does not run": {
			machine.Observation{Service: machine.ServiceStatus{State: machine.ServiceAbsent},
				Data: machine.Data{State: cluster.DiskEmpty}, Host: machine.Host{Manager: "/var/lib/etcd-manager"}},
			"", "its service is absent", "start it: the unit or the static pod of etcd-manager, or etcdadm auto",
		},
		"nothing was ever here, and systemd has not started the machine": {
			machine.Observation{Service: machine.ServiceStatus{State: machine.ServiceUnknown},
				Data: machine.Data{State: cluster.DiskEmpty}},
			"", "its service is unknown", "create a cluster with etcdadm init",
		},
		"systemd does not answer": {
			machine.Observation{Service: machine.ServiceStatus{State: machine.ServiceUnknown},
				Data: machine.Data{State: cluster.DiskData}},
			"", "its service is unknown", "etcd.log",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := certificatesState(tc.obs); got != tc.state {
				t.Errorf("certificates are %q", got)
			}
			if got := why(tc.obs); !strings.Contains(got, tc.reason) {
				t.Errorf("the reason is %q", got)
			}
			if got := next(m, tc.obs); !strings.Contains(got, tc.next) {
				t.Errorf("the next step is %q", got)
			}
		})
	}
}

// A machine without a member is not advised to renew what only a member has.
func TestWhoIssuesCertificates(t *testing.T) {
	missing := machine.PKI{CA: machine.CAReady, Wrong: []machine.WrongPair{
		{Name: "server", Why: "neither certificate nor key is there"},
	}}
	left := machine.Observation{Service: machine.ServiceStatus{State: machine.ServiceAbsent}, PKI: missing,
		Data: machine.Data{State: cluster.DiskEmpty}}
	if got := certificates(left); !strings.Contains(got, "init and join issue") {
		t.Errorf("after leave: %s", got)
	}
	member := left
	member.Data.State, member.Record.Action = cluster.DiskData, machine.Join
	if got := certificates(member); !strings.Contains(got, "certs renew all") {
		t.Errorf("of a member: %s", got)
	}
}

// A machine whose etcd is in the image of a static pod has no binaries; the status reports the
// version that the members say they run.
func TestTheVersionOfAStaticPod(t *testing.T) {
	old, next := etcdversion.Must("3.5.35"), etcdversion.Must("3.6.16")
	for name, tc := range map[string]struct {
		binary machine.Binary
		remote machine.Remote
		want   string
	}{
		"all the same":    {remote: machine.Remote{Lowest: next, Highest: next}, want: "the members run 3.6.16\n"},
		"in an upgrade":   {remote: machine.Remote{Lowest: old, Highest: next}, want: "the members run 3.5.35 to 3.6.16\n"},
		"nobody says":     {want: "etcd          -\n"},
		"it has binaries": {machine.Binary{Etcd: old}, machine.Remote{Lowest: old, Highest: next}, "3.5.35\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			obs := machine.Observation{Binaries: tc.binary, Remote: tc.remote}
			if err := writeStatus(&b, machine.Defaults(), obs); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(b.String()) {
				if strings.HasPrefix(line, "etcd ") {
					if !strings.HasSuffix(line, tc.want) {
						t.Errorf("got %q, want %q", line, tc.want)
					}
					return
				}
			}
			t.Errorf("no row of etcd in\n%s", b.String())
		})
	}
}

// Where the data is a daemon's, the status says where it is.
func TestTheDataOfADaemonThatDoesNotRun(t *testing.T) {
	for manager, want := range map[string]string{
		"": "no member", "/var/lib/etcd-manager": "the member of an etcd-manager is in /var/lib/etcd-manager",
	} {
		obs := machine.Observation{Data: machine.Data{State: cluster.DiskEmpty}, Host: machine.Host{Manager: manager}}
		if got := data(obs); got != want {
			t.Errorf("%q: %s", manager, got)
		}
	}
}

// The members are shown with what each runs and how large its database is, and a line says where the
// versions differ.
func TestTheMembersOfTheStatus(t *testing.T) {
	old, next := etcdversion.Must("3.6.16"), etcdversion.Must("3.7.3")
	member := func(name cluster.NodeName, v etcdversion.Version, size int64) cluster.Member {
		return cluster.Member{ID: 0x57cc6f6e5bc7f359, Name: name, Version: v, DBSize: size, Healthy: true,
			PeerURLs: []string{"https://10.0.0.1:2380"}, ClientURLs: []string{"https://10.0.0.1:2379"}}
	}
	down := cluster.Member{ID: 0xf2fb619c7862c050, PeerURLs: []string{"https://10.0.0.2:2380"}}
	const heading = "MEMBER  ID                ROLE   HEALTHY  PEER URL               CLIENT URL             " +
		"VERSION  DB SIZE\n"
	for name, tc := range map[string]struct {
		members []cluster.Member
		want    string
	}{
		"one version": {[]cluster.Member{member("a", old, 20<<10), down}, heading +
			"a       57cc6f6e5bc7f359  voter  true     https://10.0.0.1:2380  https://10.0.0.1:2379  3.6.16   20.0 KiB\n" +
			"-       f2fb619c7862c050  voter  false    https://10.0.0.2:2380  -                      -        -\n"},
		"two versions": {[]cluster.Member{
			member("a", next, 3<<20), member("b", old, 3<<20), member("c", old, 3<<20),
		}, heading +
			"a       57cc6f6e5bc7f359  voter  true     https://10.0.0.1:2380  https://10.0.0.1:2379  3.7.3    3.0 MiB\n" +
			"b       57cc6f6e5bc7f359  voter  true     https://10.0.0.1:2380  https://10.0.0.1:2379  3.6.16   3.0 MiB\n" +
			"c       57cc6f6e5bc7f359  voter  true     https://10.0.0.1:2380  https://10.0.0.1:2379  3.6.16   3.0 MiB\n" +
			"note: the members run different versions of etcd: 3.6.16 (b, c), 3.7.3 (a); what leads to one version: " +
			"etcdadm upgrade plan --to=3.7.3\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := writeMembers(&b, machine.Remote{Members: tc.members}); err != nil {
				t.Fatal(err)
			}
			if b.String() != tc.want {
				t.Errorf("got\n%s\nwant\n%s", b.String(), tc.want)
			}
		})
	}
}
