package cluster

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A HazardKind is something in a member's data that a later minor version of etcd
// cannot run with.
type HazardKind string

// The hazards.
const (
	// HazardV2Content: keys of the v2 store, which etcd 3.6 refuses or loses.
	HazardV2Content HazardKind = "v2-content"
	// HazardMembers: the database reports other members than the log does. Up to
	// 3.5 the log counts, from 3.6 on the database: members that were removed come
	// back (etcd issue 20967).
	HazardMembers HazardKind = "members"
	// HazardV2Log: requests of the v2 store in the log that 3.6 cannot carry out.
	HazardV2Log HazardKind = "v2-log"
	// HazardOldLog: requests of the v2 store in the log, 3.5's own among them, which
	// 3.7 cannot read.
	HazardOldLog HazardKind = "old-log"
)

// A HazardState says whether a hazard is there.
type HazardState string

// The states. A hazard for which the data has not been checked is unknown; one for which it is
// being checked for the first time is pending.
const (
	HazardAbsent  HazardState = "absent"
	HazardPresent HazardState = "present"
	HazardUnknown HazardState = "unknown"
	HazardPending HazardState = "pending"
)

// A Hazard is what was found of one kind in a member's data.
type Hazard struct {
	Kind  HazardKind  `json:"kind"`
	State HazardState `json:"state"`
	// What says what is there, or why that is unknown.
	What string `json:"what,omitempty"`
	// Deleted says that the log behind the last raft snapshot deletes all that is there of
	// [HazardV2Content].
	Deleted bool `json:"deleted,omitempty"`
}

// BySnapshot reports whether a raft snapshot takes the hazard away.
func (h Hazard) BySnapshot() bool {
	return h.State == HazardPresent && (h.Kind == HazardV2Log || h.Kind == HazardOldLog || h.Deleted)
}

// HazardsBefore returns the kinds that a member may not have when it changes to a
// version from the minor version before.
func HazardsBefore(to etcdversion.Version) []HazardKind {
	switch {
	case to.Major == 3 && to.Minor == 6:
		return []HazardKind{HazardV2Content, HazardMembers, HazardV2Log}
	case to.Major == 3 && to.Minor == 7:
		return []HazardKind{HazardMembers, HazardOldLog}
	}
	return nil
}

// NoHazards is what is found in data that has none.
func NoHazards() []Hazard {
	return []Hazard{
		{Kind: HazardMembers, State: HazardAbsent}, {Kind: HazardOldLog, State: HazardAbsent},
		{Kind: HazardV2Content, State: HazardAbsent}, {Kind: HazardV2Log, State: HazardAbsent},
	}
}

// HazardOf returns what a list says of a kind.
func HazardOf(list []Hazard, kind HazardKind) Hazard {
	for _, h := range list {
		if h.Kind == kind {
			return h
		}
	}
	return Hazard{Kind: kind, State: HazardUnknown, What: "it has not been checked"}
}

// HazardsIn returns the hazards that keep a member from changing to a version:
// those of its data that are not proved absent.
func HazardsIn(list []Hazard, to etcdversion.Version) []Hazard {
	var found []Hazard
	for _, kind := range HazardsBefore(to) {
		if h := HazardOf(list, kind); h.State != HazardAbsent {
			found = append(found, h)
		}
	}
	return found
}

// HazardsFrom returns what keeps a member that runs one version from changing to
// another of the next minor version: what is there, and, where its patch is below
// the floor, what is not proved absent. What a raft snapshot takes away is not among
// them, nor is [HazardOldLog] where its state is unknown: a step of its own comes first.
func HazardsFrom(list []Hazard, from, to etcdversion.Version) []Hazard {
	if from.Minor+1 != to.Minor {
		return nil
	}
	return slices.DeleteFunc(HazardsWithoutSnapshot(list, from, to), func(h Hazard) bool {
		return h.Kind == HazardOldLog || h.BySnapshot()
	})
}

// HazardsBySnapshot returns what in a member's data a version does not stand, and a raft
// snapshot takes away.
func HazardsBySnapshot(list []Hazard, to etcdversion.Version) []Hazard {
	return slices.DeleteFunc(HazardsIn(list, to), func(h Hazard) bool { return !h.BySnapshot() })
}

// HazardsWithoutSnapshot returns the same where nobody forces a raft snapshot. A version that is
// not known, zero, is none below the floor.
func HazardsWithoutSnapshot(list []Hazard, from, to etcdversion.Version) []Hazard {
	below := !from.IsZero() && from.Compare(to.UpgradeFloor()) < 0
	var found []Hazard
	for _, h := range HazardsIn(list, to) {
		if below || h.State == HazardPresent {
			found = append(found, h)
		}
	}
	return found
}

// HazardsAhead returns what a list says that matters before the next minor version
// after the one that the member runs: what is there, and what is unknown.
// [HazardOldLog] is not among them.
func HazardsAhead(list []Hazard, runs etcdversion.Version) []Hazard {
	if len(list) == 0 {
		return nil
	}
	found := HazardsIn(list, etcdversion.Version{Major: runs.Major, Minor: runs.Minor + 1})
	return slices.DeleteFunc(found, func(h Hazard) bool { return h.Kind == HazardOldLog || h.State == HazardPending })
}

// Fix says what a person can do about the hazard before a change to a version. Where
// daemons run the members, they force raft snapshots.
func (h Hazard) Fix(to etcdversion.Version) string {
	floor := to.UpgradeFloor().String()
	switch {
	case h.State == HazardUnknown || h.State == HazardPending:
		return "check the member's data: etcdadm upgrade check; or run " + floor + " or a later patch first"
	case h.BySnapshot():
		return "have the member take a raft snapshot: etcdadm member force-snapshot"
	case h.Kind == HazardV2Content:
		return deleteKeys + "; a raft snapshot is forced then"
	case h.Kind == HazardMembers && to.Minor == 6:
		return "run " + floor + " or a later patch on this member first: it repairs the list when it starts"
	}
	return "remove this member from the cluster, and let it join again with an empty data directory"
}

// FixByHand is [Hazard.Fix] where it may be that no daemon runs the member.
func (h Hazard) FixByHand(to etcdversion.Version) string {
	if h.BySnapshot() {
		return "have the member take a raft snapshot: etcdadm join or init with --version does, while etcd of the version " +
			"before serves; where a daemon runs it, etcdadm member force-snapshot"
	}
	return h.Fix(to)
}

const deleteKeys = "move or delete those keys with etcdctl of 3.5 (ETCDCTL_API=2 etcdctl rm --recursive)"

func (h Hazard) String() string {
	if h.What == "" {
		return string(h.Kind) + " " + string(h.State)
	}
	return string(h.Kind) + " " + string(h.State) + ": " + h.What
}
