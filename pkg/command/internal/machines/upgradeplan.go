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

// Look observes the machine and its cluster. There is none where no member is here.
func (u *UpgradePlan) Look(cmd *cobra.Command) (look *UpgradeLook, err error) {
	m, obs, err := u.t.see(func(m *operate.Machine) (machine.Observation, error) {
		return m.Observe(cmd.Context(), u.t.goal)
	})
	if err != nil || unused(obs) {
		return nil, err
	}
	return &UpgradeLook{machine: m, obs: obs}, nil
}

// An UpgradeLook is what was seen of a machine and its cluster.
type UpgradeLook struct {
	machine *operate.Machine
	obs     machine.Observation
}

// Members are the members of the cluster.
func (l *UpgradeLook) Members() []cluster.Member { return l.obs.Remote.Members }

// Here is the version of the binaries on this machine, and whose member it has.
func (l *UpgradeLook) Here() (cluster.NodeName, etcdversion.Version) {
	return l.machine.Config().Name, l.obs.Binaries.Etcd
}

// Plan returns the steps to a version.
func (l *UpgradeLook) Plan(to etcdversion.Version) (machine.UpgradePlan, error) {
	return machine.PlanUpgrade(l.machine.Config(), l.obs, to, l.machine.Hazards())
}
