package machine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// stepsUp holds a member whose data would be run by the next minor version for the
// first time. What counts is what is in the data, and not from which patch it is.
// A machine that joins has none yet: what arrives is checked before its vote.
func (p *planner) stepsUp(want, low etcdversion.Version) *Hold {
	if p.obs.Data.State != cluster.DiskData || p.runs(want) {
		return nil
	}
	if self, ok := p.self(); ok && (self.Learner || !started(self)) {
		return nil
	}
	found := p.hazards(want, low)
	if p.goal.AcceptVersionRisk != "" {
		// No word makes etcd start on what a raft snapshot has to take away.
		found = slices.DeleteFunc(found, func(h cluster.Hazard) bool { return !h.BySnapshot() })
	}
	if p.forces() {
		found = slices.DeleteFunc(found, cluster.Hazard.BySnapshot)
	}
	if len(found) == 0 {
		return nil
	}
	if _, changes := p.changing(); changes {
		// The last change is just being finished, and the log is freed after it.
		if why := p.ruled(); why != nil && why.Reason == NotYet {
			return why
		}
	}
	return hazardous(found, want, low)
}

// forces says that a raft snapshot comes first: it takes away what the version cannot run
// with, and nobody writes such entries any more.
func (p *planner) forces() bool {
	want := p.cfg.Version.Release()
	if _, changes := p.changing(); !changes {
		return false
	}
	runs, seen := p.obs.Local.Version, p.obs.Remote.ClusterVersion
	settled := seen.Major == runs.Major && seen.Minor == runs.Minor
	return settled && runs.Major == want.Major && runs.Minor == want.Minor-1 &&
		len(cluster.HazardsBySnapshot(p.obs.Data.Hazards, want)) > 0
}

// runs says whether the member runs a version's minor version, or a later one,
// already.
func (p *planner) runs(v etcdversion.Version) bool {
	return p.obs.Local != nil && !p.obs.Local.Version.IsZero() && p.obs.Local.Version.AtLeast(v.Major, v.Minor)
}

// hazards returns what keeps the data from a version: what is there, and, where the
// patch before is too old to vouch for it, what is unknown.
func (p *planner) hazards(want, low etcdversion.Version) []cluster.Hazard {
	return cluster.HazardsWithoutSnapshot(p.obs.Data.Hazards, low, want)
}

func hazardous(found []cluster.Hazard, want, low etcdversion.Version) *Hold {
	var texts []string
	for _, h := range found {
		texts = append(texts, h.String())
	}
	do := found[0].FixByHand(want)
	if slices.ContainsFunc(found, func(h cluster.Hazard) bool { return !h.BySnapshot() }) {
		do += "; or --accept-version-risk=REASON"
	}
	return hold(VersionHazard, do,
		"etcd %s cannot follow %s on this data: %s", want, orUnknown(low), strings.Join(texts, "; "))
}

func orUnknown(v etcdversion.Version) string {
	if v.IsZero() {
		return "an unknown version"
	}
	return v.String()
}

// mayVote holds a learner of a newer minor version than the others': its data came
// from one of them, with whatever that had.
func (p *planner) mayVote() *Hold {
	want, low := p.cfg.Version.Release(), p.obs.Remote.Lowest
	if low.IsZero() || want.Minor <= low.Minor || p.goal.AcceptVersionRisk != "" {
		return nil
	}
	found := p.hazards(want, low)
	if len(found) == 0 {
		return nil
	}
	h := hazardous(found, want, low)
	// While a snapshot of the leader arrives, its parts do not fit together.
	h.Momentary = true
	for _, f := range found {
		h.Momentary = h.Momentary && f.State == cluster.HazardUnknown
	}
	return h
}

// belowFloor is a warning where the data was checked instead of the number.
func (p *planner) belowFloor() []Finding {
	want, low := p.cfg.Version.Release(), p.before()
	floor := want.UpgradeFloor()
	builds := p.goal.Action == Join || p.goal.Action == Init
	if !builds || low.IsZero() || want.Minor != low.Minor+1 || low.Compare(floor) >= 0 {
		return nil
	}
	checked := "the data that the member gets from the others is checked before it becomes a voter"
	switch {
	case p.goal.AcceptVersionRisk != "":
		checked = fmt.Sprintf("the risk is accepted: %s", p.goal.AcceptVersionRisk)
	case p.obs.Data.State == cluster.DiskData && len(p.hazards(want, low)) > 0:
		return nil // the hold says more
	case p.obs.Data.State == cluster.DiskData:
		checked = "this member's data does not have the problem that this prevents"
	}
	return warning("", "etcd advises %s before %s, but a member runs %s: %s", floor, want, low, checked)
}

// Reaches returns why this machine's member cannot go to a version at all, whatever is in
// its data, nil if it can. Where nobody knows what has written the data, it can go to a
// version that the data was checked for.
func Reaches(cfg Config, obs Observation, want etcdversion.Version, checked bool) *Hold {
	if !etcdconf.FlagsKnown(want) {
		return hold(VersionStep, "choose a version that this etcdadm knows, such as --to="+DefaultVersion.String(),
			"what etcd %s does not tolerate is unknown", want)
	}
	p := &planner{goal: Goal{Action: Join}, cfg: cfg, obs: obs}
	p.cfg.Version = want
	if obs.Data.State != cluster.DiskData || p.dataElsewhere() != nil {
		p.obs.Local, p.obs.Binaries = nil, Binary{} // they are of other data, or of none
	}
	if p.obs.Local != nil && p.obs.Remote.Lowest.IsZero() {
		p.obs.Remote.Lowest = p.obs.Local.Version
	}
	if p.obs.Local == nil && p.before().IsZero() && p.obs.Data.Version.IsZero() {
		if checked {
			return nil
		}
		return hold(VersionStep, "start etcd, or choose a version that the data is checked for, such as --to="+DefaultVersion.String(),
			"which etcd has written %s is unknown, and so is whether etcd %s can follow", cfg.Paths.Data, want)
	}
	if h := p.mayRun(); h == nil || h.Reason != VersionHazard {
		return h
	}
	return nil
}
