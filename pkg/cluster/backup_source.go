package cluster

import (
	"fmt"
	"slices"
)

// AlarmCorrupt is etcd's alarm for a member whose data differs from that of the
// others.
const AlarmCorrupt = "CORRUPT"

// Unfit says why no backup is taken from the member that gave r, "" if one may be. Among are
// the reports of all members that answered, of which r may be one: what a member lacks shows
// beside the others. Without any, it is judged by r alone, as "snapshot save" does.
//
// A member is fit that is no learner, has no [Report.Fault], and is not behind. The planner takes
// backups by the same facts: what fault finds makes a [Condition] that does not serve. The daemons
// know of disks, clocks and the observation before as well, and rely on a member less often.
func (r Report) Unfit(among []Report) string {
	if r.Learner {
		return "it is a learner, whose data may not be complete"
	}
	if why := r.Fault(among); why != "" {
		return why
	}
	applied := r.Applied
	for _, o := range among {
		applied = max(applied, o.Applied)
	}
	if r.Behind(applied) {
		return fmt.Sprintf("it is %d entries behind", applied-r.Applied)
	}
	return ""
}

// Fault says why the member that gave r cannot be relied on, "" if nothing shows: its data is
// corrupt, it is cut off from the others, or it serves no reads. Among are as in [Report.Unfit].
func (r Report) Fault(among []Report) string {
	best := r
	for _, o := range among {
		if o.BetterInformed(best) {
			best = o
		}
	}
	_, why := r.fault(best.Leader, best.RaftTerm)
	return why
}

// fault is what is wrong with the member that gave r, as the condition that it is in and in
// words: it has raised the alarm for corrupt data, sees no leader or another one than leader,
// is in an earlier term, or serves no read through the quorum. It is [Serving], and "", for
// nothing. Leader and term are those of the best informed report, see [Report.BetterInformed].
func (r Report) fault(leader MemberID, term uint64) (Condition, string) {
	switch {
	case slices.Contains(r.Alarms, AlarmCorrupt):
		return Corrupt, "its data differs from that of the others: etcd has raised the alarm " + AlarmCorrupt
	case r.Leader == 0:
		return Apart, "it sees no leader"
	case r.Leader != leader:
		return Apart, fmt.Sprintf("it follows %s, the others %s", r.Leader, leader)
	case r.Read == ReadLate:
		return Late, "it answers, but serves no linearizable read"
	case r.RaftTerm < term && !r.Learner:
		// The term is that of the last entry that it has applied. A learner may be far behind.
		return Late, fmt.Sprintf("it has applied nothing of term %d yet, as others have", term)
	}
	return Serving, ""
}

// BetterInformed reports whether r knows more of the cluster than o: it has a leader, which a
// member that is cut off may lack in a term of its own; then by term, and by what it has applied.
func (r Report) BetterInformed(o Report) bool {
	switch {
	case (r.Leader != 0) != (o.Leader != 0):
		return r.Leader != 0
	case r.RaftTerm != o.RaftTerm:
		return r.RaftTerm > o.RaftTerm
	case r.Applied != o.Applied:
		return r.Applied > o.Applied
	}
	return r.ID < o.ID
}

// Behind reports whether the member trails applied, the highest index that any
// member has applied, too far for a backup.
func (r Report) Behind(applied uint64) bool { return behind(r.Applied, applied) }

// Behind reports the same of a member as it was observed.
func (m Member) Behind(applied uint64) bool { return behind(m.Applied, applied) }

func behind(own, applied uint64) bool { return applied > own && applied-own > MaxBehind }
