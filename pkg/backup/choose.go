package backup

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

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
// one that is fit, see [cluster.Report.Unfit]. A follower comes before the
// leader, which has enough to do; among equals the lowest id decides. The error is ErrNoMember,
// with the reason for each.
func Choose(reports []cluster.Report) (Choice, error) {
	reports = slices.Clone(reports)
	slices.SortFunc(reports, func(a, b cluster.Report) int { return cmp.Compare(a.ID, b.ID) })
	var chosen *cluster.Report
	var c Choice
	for _, r := range reports {
		if why := r.Unfit(reports); why != "" {
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
		if r.ID != chosen.ID && r.Unfit(reports) == "" {
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
