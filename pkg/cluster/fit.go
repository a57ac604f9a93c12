package cluster

import (
	"fmt"
	"slices"
)

// AlarmCorrupt is etcd's alarm for a member whose data differs from that of the
// others.
const AlarmCorrupt = "CORRUPT"

// Unfit says why no backup is taken from the member that gave r, "" if one may
// be. Among are the reports of all members that answered: what one of them lacks
// shows beside the others.
//
// Fit is a member without a [Report.Fault], in the newest term, that is not behind. The
// daemons know more: they take backups of voters whose [Condition], which is made of several
// observations, is that they serve.
func (r Report) Unfit(among []Report) string {
	var term, applied uint64
	for _, o := range among {
		term, applied = max(term, o.RaftTerm), max(applied, o.Applied)
	}
	switch fault := r.Fault(); {
	case fault != "":
		return fault
	case r.RaftTerm < term:
		return fmt.Sprintf("it is in term %d, others are in %d", r.RaftTerm, term)
	case r.Behind(applied):
		return fmt.Sprintf("it is %d entries behind", applied-r.Applied)
	}
	return ""
}

// Fault says what is wrong with the data of a member, by its own report alone, "" for nothing:
// it is a learner, has raised the alarm for corrupt data, sees no leader, or serves no read
// through the quorum.
func (r Report) Fault() string {
	switch {
	case r.Learner:
		return "it is a learner, whose data may not be complete"
	case slices.Contains(r.Alarms, AlarmCorrupt):
		return "it has raised the alarm " + AlarmCorrupt
	case r.Leader == 0:
		return "it sees no leader: its data may be old"
	case r.Read == ReadLate:
		return "it serves no linearizable read: its disk may hang"
	}
	return ""
}

// Behind reports whether the member trails applied, the highest index that any
// member has applied, too far for a backup.
func (r Report) Behind(applied uint64) bool { return behind(r.Applied, applied) }

// Behind reports the same of a member as it was observed.
func (m Member) Behind(applied uint64) bool { return behind(m.Applied, applied) }

func behind(own, applied uint64) bool { return applied > own && applied-own > MaxBehind }
