package machines

import (
	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/internal/machineflags"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/host/operate"
)

// UpgradePlan plans the way of this machine's cluster to another version of etcd, where no
// daemon is asked.
type UpgradePlan struct{ t *task }

// AddUpgradePlan gives a command the flags of UpgradePlan.
func AddUpgradePlan(cmd *cobra.Command) *UpgradePlan {
	return &UpgradePlan{&task{cmd: cmd, goal: machine.Goal{Action: machine.Reset},
		flags: machineflags.Add(cmd, machineflags.Paths), shows: true}}
}

// Observe observes the machine and its cluster. There is none where no member is here.
func (u *UpgradePlan) Observe(cmd *cobra.Command) (*UpgradeObservation, error) {
	m, obs, err := u.t.see(func(m *operate.Machine) (machine.Observation, error) {
		return m.Observe(cmd.Context(), u.t.goal)
	})
	if err != nil || unused(obs) {
		return nil, err
	}
	return &UpgradeObservation{machine: m, obs: obs}, nil
}

// An UpgradeObservation is an observation of a machine and its cluster.
type UpgradeObservation struct {
	machine *operate.Machine
	obs     machine.Observation
}

// Members are the members of the cluster.
func (o *UpgradeObservation) Members() []cluster.Member { return o.obs.Remote.Members }

// Here is the version of the binaries on this machine, and whose member it has.
func (o *UpgradeObservation) Here() (cluster.NodeName, etcdversion.Version) {
	return o.machine.Config().Name, o.obs.Binaries.Etcd
}

// Plan returns the steps to a version.
func (o *UpgradeObservation) Plan(to etcdversion.Version) (machine.UpgradePlan, error) {
	return machine.PlanUpgrade(o.machine.Config(), o.obs, to, o.machine.Hazards())
}
