package machine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// desired returns a complete spec for machine b.
func desired(change ...func(*machine.Config)) machine.Config {
	c := machine.Defaults()
	c.Name, c.Listen.Address = "b", "10.0.0.2"
	for _, f := range change {
		f(&c)
	}
	return c
}

// fresh returns an empty machine.
func fresh() machine.Observation {
	return machine.Observation{
		At: time.Unix(1000, 0), Nonce: "tok", Host: machine.Host{Root: true, InitSystem: true},
		PKI: machine.PKI{CA: machine.CAAbsent, Wrong: []machine.WrongPair{
			{Name: "server", Why: "missing"}, {Name: "peer", Why: "missing"},
		}},
		Data:    machine.Data{State: cluster.DiskEmpty},
		Service: machine.ServiceStatus{State: machine.ServiceAbsent},
	}
}

// withCA returns an empty machine to which the CA was copied.
func withCA() machine.Observation {
	obs := fresh()
	obs.PKI.CA = machine.CAReady
	return obs
}

var v36 = etcdversion.Must("3.6.16")

// healthy returns a member that does well.
func healthy(name string, id cluster.MemberID, host string) cluster.Member {
	return cluster.Member{
		ID: id, Name: cluster.NodeName(name), Healthy: true,
		PeerURLs: []string{"https://" + host + ":2380"}, ClientURLs: []string{"https://" + host + ":2379"},
	}
}

// answering returns a cluster of the members, led by the first.
func answering(members ...cluster.Member) machine.Remote {
	return machine.Remote{Answered: true, ClusterID: 0xc1, Leader: members[0].ID, Members: members, Lowest: v36,
		Highest: v36}
}

// steps returns the plan, a line for each step, and the hold behind it.
func steps(t *testing.T, goal machine.Goal, cfg machine.Config, obs machine.Observation) string {
	t.Helper()
	steps, why, err := machine.Plan(goal, cfg, obs)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "%s: %s\n", s.Phase, s.Text())
	}
	if why != nil {
		fmt.Fprintf(&b, "hold %s: %s\n", why.Reason, why.Text)
	}
	return b.String()
}
