package operate

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/hazards"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/node/apply"
)

// A dataCheck is what was found in a member's data, as long as its files are the same.
type dataCheck struct {
	files string
	found []cluster.Hazard
}

// hazards checks the data for what the wanted version cannot run with, where
// that version is not what runs it already. A learner is checked in any case: its
// data came from another member.
func (m *Machine) hazards(goal machine.Goal, obs machine.Observation) []cluster.Hazard {
	want := m.cfg.Version.Release()
	builds := goal.Action == machine.Join || goal.Action == machine.Init
	if !builds || obs.Data.State != cluster.DiskData || len(cluster.HazardsBefore(want)) == 0 {
		return nil
	}
	if l := obs.Local; l != nil && !l.Learner && !l.Version.IsZero() && l.Version.AtLeast(want.Major, want.Minor) {
		return nil
	}
	files := hazards.Files(m.dataDirs())
	if files == m.checked.files {
		return m.checked.found
	}
	found := hazards.Examine(m.dataDirs())
	unknown := func(h cluster.Hazard) bool { return h.State == cluster.HazardUnknown }
	if !slices.ContainsFunc(found, unknown) {
		m.checked = dataCheck{files, found}
	}
	return found
}

// adopt takes the version of the cluster that the machine joins, where nobody has
// said another: the newest patch of the oldest minor version, which all members
// stand. It reports whether the version is still open.
func (m *Machine) adopt(goal machine.Goal, obs machine.Observation) bool {
	if !m.versionOpen || goal.Action != machine.Join {
		return false
	}
	low := obs.Remote.Lowest
	if low.IsZero() {
		return true
	}
	m.cfg.Version, m.versionOpen = low, false
	for _, o := range obs.Remote.Members {
		v := o.Version
		if v.Major == low.Major && v.Minor == low.Minor && v.Compare(m.cfg.Version) > 0 {
			m.cfg.Version = v
		}
	}
	return false
}

// Hazards checks the data of the machine's member.
func (m *Machine) Hazards() []cluster.Hazard { return hazards.Examine(m.dataDirs()) }

// forceSnapshot has the machine's etcd take a raft snapshot, in the time that a daemon has
// for it.
func (m *Machine) forceSnapshot(ctx context.Context) error {
	c, err := m.connect(machine.URLs(m.cfg).Client[:1])
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, apply.Deadline(&plan.MemberForceSnapshot{}))
	defer cancel()
	f := apply.Forcing{
		To: m.cfg.Version.Release(), Examine: m.Hazards,
		Files: func() string { return hazards.Files(m.dataDirs()) },
	}
	_, err = apply.ForceSnapshot(ctx, f.Left, c.Propose)
	return err
}

// dataDirs are where the member has its data.
func (m *Machine) dataDirs() datadir.Dir {
	return datadir.Dir{Data: m.cfg.Paths.Data, WAL: walDir(m.cfg)}
}

// walDir is where the log is, empty for the usual place.
func walDir(cfg machine.Config) string {
	vars, err := variables(cfg)
	if dir := vars["ETCD_WAL_DIR"]; err == nil && filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return ""
}
