package machine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// A port that is taken is named once, with who has it as far as that is known.
func TestPortsThatAreTaken(t *testing.T) {
	for name, tc := range map[string]struct {
		manager string
		ports   []machine.Port
		want    []machine.Finding
	}{
		"two addresses of one port": {"", []machine.Port{{Port: 2379}, {Port: 2379}}, []machine.Finding{{
			ID: "Port-2379", Fatal: true, Text: "port 2379 is in use",
			Next: "ss -ltnp 'sport = :2379' shows which process has it",
		}}},
		"a daemon's": {"/var/lib/etcd-manager", []machine.Port{{Port: 2380}}, []machine.Finding{{
			ID: "Port-2380", Fatal: true, Text: "port 2380 is in use",
			Next: "an etcd-manager with its data in /var/lib/etcd-manager runs the etcd of this machine",
		}}},
		"its own": {"", []machine.Port{{Port: 2379, Ours: true}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			obs := withCA()
			obs.Host.Manager, obs.Host.Ports = tc.manager, tc.ports
			found := machine.Preflight(machine.Goal{Action: machine.Init}, desired(), obs)
			found = slices.DeleteFunc(found, func(f machine.Finding) bool { return !f.Named("Port") })
			if !slices.Equal(found, tc.want) {
				t.Errorf("found %+v, want %+v", found, tc.want)
			}
		})
	}
}

// Without root, what root could read and write is not reported beside it.
func TestWithoutRootOnlyWhatCanBeJudgedIsReported(t *testing.T) {
	obs := fresh()
	obs.Host.Root, obs.Host.ReadOnly, obs.Host.Addresses = false, []string{"/opt/bin", "/etc/etcd"}, nil
	obs.Host.Forbidden = obs.Host.ReadOnly
	obs.Data.State, obs.Data.Problem = cluster.DiskUnreadable, "open /var/lib/etcd: permission denied"
	ids := func() (list string) {
		found := machine.Preflight(machine.Goal{Action: machine.Init}, desired(), obs)
		for _, f := range machine.JudgedByAll(found) {
			list += f.ID + " "
		}
		return list
	}
	if got := ids(); !strings.Contains(got, "IsPrivilegedUser") || !strings.Contains(got, "BindAddress") ||
		strings.Contains(got, "Writable") || strings.Contains(got, "DataDir") {
		t.Errorf("without root: %s", got)
	}
	obs.Host.Forbidden = []string{"/etc/etcd"} // /opt/bin is on a disk that is mounted read-only
	if got := ids(); strings.Count(got, "Writable") != 1 {
		t.Errorf("without root, of a disk that root cannot write either: %s", got)
	}
	obs.Host.Root, obs.Host.Forbidden = true, nil
	if got := ids(); strings.Contains(got, "IsPrivilegedUser") || strings.Count(got, "Writable") != 2 ||
		!strings.Contains(got, "DataDir") {
		t.Errorf("as root: %s", got)
	}
}
