package backup

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// MaxBehind is by how many raft entries a member may trail the one that has
// applied most. The reports are of slightly different times, so some difference
// is no sign of anything; a thousand entries are a second of a busy cluster.
const MaxBehind = cluster.MaxBehind

// corrupt is etcd's alarm for a member whose data differs from that of the
// others.
const corrupt = "CORRUPT"

// A Choice is the member to take a backup from.
type Choice struct {
	Report cluster.Report
	// Why says why this one, in a few words.
	Why string
	// Passed says why each of the others was not chosen, in the order of their
	// ids.
	Passed []Passed
}

// A Passed is a member that was not chosen.
type Passed struct {
	ID  cluster.MemberID
	Why string
}

// ErrNoMember says that no member is fit to take a backup from.
var ErrNoMember = errors.New("no member is fit to take a backup from")

// Choose chooses the member to take a backup from among those that answered:
// one that sees a leader in the newest term, serves reads through the quorum, is
// no learner, has no alarm for corrupt data and is not behind. A follower comes before the leader, which has
// enough to do; among equals the lowest id decides. The error is ErrNoMember,
// with the reason for each.
func Choose(reports []cluster.Report) (Choice, error) {
	reports = slices.Clone(reports)
	slices.SortFunc(reports, func(a, b cluster.Report) int { return cmp.Compare(a.ID, b.ID) })
	var term, applied uint64
	for _, r := range reports {
		term, applied = max(term, r.RaftTerm), max(applied, r.Applied)
	}
	var chosen *cluster.Report
	var c Choice
	for _, r := range reports {
		if why := unfit(r, term, applied); why != "" {
			c.Passed = append(c.Passed, Passed{r.ID, why})
			continue
		}
		if chosen == nil || leads(*chosen) && !leads(r) {
			chosen = &r
		}
	}
	if chosen == nil {
		return Choice{}, fmt.Errorf("%w%s", ErrNoMember, reasons(c.Passed))
	}
	c.Report, c.Why = *chosen, "a follower, up to date"
	if leads(*chosen) {
		c.Why = "the leader: no follower is fit"
		if len(reports) == 1 {
			c.Why = "the only member that answers"
		}
	}
	for _, r := range reports {
		if r.ID != chosen.ID && unfit(r, term, applied) == "" {
			why := "one follower is enough"
			if leads(r) {
				why = "it leads, and a follower is fit"
			}
			c.Passed = append(c.Passed, Passed{r.ID, why})
		}
	}
	slices.SortFunc(c.Passed, func(a, b Passed) int { return cmp.Compare(a.ID, b.ID) })
	return c, nil
}

func leads(r cluster.Report) bool { return r.Leader == r.ID }

// unfit says why no backup is taken from a member, empty if one may be.
func unfit(r cluster.Report, term, applied uint64) string {
	switch {
	case r.Learner:
		return "it is a learner"
	case slices.Contains(r.Alarms, corrupt):
		return "it has the alarm " + corrupt
	case r.Leader == 0:
		return "it sees no leader"
	case r.Read == cluster.ReadLate:
		return "it serves no read through the quorum: its disk may hang"
	case r.RaftTerm < term:
		return fmt.Sprintf("it is in term %d, others are in %d", r.RaftTerm, term)
	case applied-r.Applied > MaxBehind:
		return fmt.Sprintf("it is %d entries behind", applied-r.Applied)
	}
	return ""
}

func reasons(passed []Passed) string {
	if len(passed) == 0 {
		return ": none answers"
	}
	texts := make([]string, len(passed))
	for i, p := range passed {
		texts[i] = fmt.Sprintf("%s: %s", p.ID, p.Why)
	}
	return ": " + strings.Join(texts, "; ")
}
