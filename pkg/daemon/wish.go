package daemon

import (
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/nodestate"
)

// spec returns the wish: the static one, the store's, or the last one seen
// where the store has none or has not answered. The plan knows that it is
// missing, and founds nothing by memory.
func (d *Daemon) spec() cluster.Spec {
	if d.c.Static != nil {
		return d.withPolicy(*d.c.Static)
	}
	f := d.view.Spec()
	if f == nil {
		if kept := d.state.State().Spec; kept != nil {
			return d.withPolicy(*kept)
		}
		return cluster.Spec{}
	}
	s := cluster.Spec{MemberCount: f.MemberCount, EtcdVersion: f.EtcdVersion}
	d.remember(s)
	return d.withPolicy(s)
}

func (d *Daemon) withPolicy(s cluster.Spec) cluster.Spec {
	s.Policy = d.c.Policy.WithDefaults()
	s.Policy.FixedSpec = d.c.Static != nil
	return s
}

// remember keeps the spec on disk, for a start without the store.
func (d *Daemon) remember(s cluster.Spec) {
	if kept := d.state.State().Spec; kept != nil && kept.MemberCount == s.MemberCount && kept.EtcdVersion == s.EtcdVersion {
		return
	}
	err := d.state.Update(func(st *nodestate.State) error {
		st.Spec = &s
		return nil
	})
	if err != nil {
		d.log.Warn("the spec cannot be kept on disk", "error", err)
	}
}
