package machine

import (
	"fmt"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// stepsUp holds a member whose data would be run by the next minor version for the
// first time. What counts is what is in the data, and not from which patch it is.
// A machine that joins has none yet: what arrives is checked before its vote.
func (w *world) stepsUp(want, low etcdversion.Version) *Hold {
	if w.obs.Data.State != cluster.DiskData || w.goal.AcceptVersionRisk != "" || w.runs(want) {
		return nil
	}
	if self, ok := w.self(); ok && (self.Learner || !started(self)) {
		return nil
	}
	found := w.hazards(want, low)
	if len(found) == 0 {
		return nil
	}
	return hazardous(found, want, low)
}

// runs says whether the member runs a version's minor version, or a later one,
// already.
func (w *world) runs(v etcdversion.Version) bool {
	return w.obs.Local != nil && !w.obs.Local.Version.IsZero() && w.obs.Local.Version.AtLeast(v.Major, v.Minor)
}

// hazards returns what keeps the data from a version: what is there, and, where the
// patch before is too old to vouch for it, what nobody can tell.
func (w *world) hazards(want, low etcdversion.Version) []cluster.Hazard {
	below := !low.IsZero() && low.Compare(want.UpgradeFloor()) < 0
	var found []cluster.Hazard
	for _, h := range cluster.HazardsIn(w.obs.Data.Hazards, want) {
		if below || h.State == cluster.HazardPresent {
			found = append(found, h)
		}
	}
	return found
}

func hazardous(found []cluster.Hazard, want, low etcdversion.Version) *Hold {
	var texts []string
	for _, h := range found {
		texts = append(texts, h.String())
	}
	return hold(VersionHazard, found[0].Cure(want)+"; or --accept-version-risk=REASON",
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
func (w *world) mayVote() *Hold {
	want, low := w.cfg.Version.Release(), w.obs.Remote.Lowest
	if low.IsZero() || want.Minor <= low.Minor || w.goal.AcceptVersionRisk != "" {
		return nil
	}
	found := w.hazards(want, low)
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
func (w *world) belowFloor() []Finding {
	want, low := w.cfg.Version.Release(), w.before()
	floor := want.UpgradeFloor()
	builds := w.goal.Action == Join || w.goal.Action == Init
	if !builds || low.IsZero() || want.Minor != low.Minor+1 || low.Compare(floor) >= 0 {
		return nil
	}
	checked := "the data that the member gets from the others is checked before it becomes a voter"
	switch {
	case w.goal.AcceptVersionRisk != "":
		checked = fmt.Sprintf("the risk is accepted: %s", w.goal.AcceptVersionRisk)
	case w.obs.Data.State == cluster.DiskData && len(w.hazards(want, low)) > 0:
		return nil // the hold says more
	case w.obs.Data.State == cluster.DiskData:
		checked = "this member's data does not have the problem that this prevents"
	}
	return warning("", "etcd advises %s before %s, but a member runs %s: %s", floor, want, low, checked)
}
