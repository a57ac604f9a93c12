package operate

import (
	"context"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// overtaken holds a phase of its own that waits for an etcd which cannot start any more.
// It returns an error, or nil.
func (m *Machine) overtaken(ctx context.Context, goal machine.Goal) error {
	if goal.Action != machine.Join || goal.Phase == "" {
		return nil
	}
	obs, err := m.Observe(ctx, goal)
	if err != nil {
		return nil
	}
	if why := machine.Overtaken(goal, m.cfg, obs); why != nil {
		return why
	}
	return nil
}
