package machine_test

import (
	"slices"
	"testing"

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
