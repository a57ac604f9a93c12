package backupagent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// Prefer says which member a backup is read from.
type Prefer string

// The preferences.
const (
	// Follower reads from a follower that has what the leader has, from another one
	// each time, and from the leader only where no follower's agent does it.
	Follower Prefer = "follower"
	// Leader reads from the leader, and from a follower only where the leader's
	// agent does not.
	Leader Prefer = "leader"
	// Local has each agent read from its own member, whichever that is. It is for
	// agents that do not share a store.
	Local Prefer = "local"
	// LeaderOnly reads from the leader or not at all, as the existing etcd-backup.
	LeaderOnly Prefer = "leader-only"
)

// A Candidate is a member as the agent sees it.
type Candidate struct {
	cluster.Member
	// Endpoint is where the agent reaches it. Mine says that it is one of those
	// that the agent was configured to use.
	Endpoint string
	Mine     bool
	// Report is what it says of itself, nil if it does not answer.
	Report *cluster.Report
}

// A View is the cluster as the agent sees it.
type View struct {
	Candidates []Candidate
}

// leader returns the leader by what the agent's own members say, zero if they
// know of none.
func (v View) leader() cluster.MemberID {
	for _, s := range v.Candidates {
		if s.Mine && s.Report != nil && s.Report.Leader != 0 {
			return s.Report.Leader
		}
	}
	return 0
}

// unfit reports why no backup should be read from a member, "" if it can.
func (v View) unfit(s Candidate) string {
	if s.Report == nil {
		return "it does not answer"
	}
	var reports []cluster.Report
	for _, o := range v.Candidates {
		if o.Report != nil {
			reports = append(reports, *o.Report)
		}
	}
	r := *s.Report
	r.Learner = r.Learner || s.Learner
	return r.Unfit(reports)
}

// A rank is an agent's place in the order in which agents act.
type rank struct {
	// candidate is the member to read from. Before it come rank other agents, and others
	// members may have agents of their own that could do it.
	candidate        Candidate
	position, others int
}

// rank returns the agent's rank at a backup, of which key is the name. Without
// an error there is one. The order is the same for all agents that see the same.
func (v View) rank(prefer Prefer, key string) (rank, error) {
	order := v.order(prefer, key)
	others := 0
	for _, s := range order {
		if !s.Mine {
			others++
		}
	}
	for i, s := range order {
		if s.Mine {
			return rank{s, v.position(prefer, order, i), others}, nil
		}
	}
	return rank{}, v.noRank(prefer)
}

// order returns the members that a backup can be read from, the best first.
func (v View) order(prefer Prefer, key string) []Candidate {
	leader := v.leader()
	var order []Candidate
	for _, s := range v.Candidates {
		if v.unfit(s) != "" || prefer == LeaderOnly && s.ID != leader || prefer == Local && !s.Mine {
			continue
		}
		order = append(order, s)
	}
	slices.SortFunc(order, func(a, b Candidate) int {
		if a.ID == b.ID {
			return cmp.Compare(a.Endpoint, b.Endpoint)
		}
		if prefer != Local && (a.ID == leader || b.ID == leader) {
			// Exactly one of them is the leader.
			return map[bool]int{true: -1, false: 1}[(a.ID == leader) == (prefer != Follower)]
		}
		return cmp.Compare(hash(key, a.ID.String()), hash(key, b.ID.String()))
	})
	return order
}

// position returns how many agents come before the one at place i of the order.
func (v View) position(prefer Prefer, order []Candidate, i int) int {
	if prefer == Local {
		return 0
	}
	if prefer == Follower && i == 0 && order[0].ID == v.leader() && len(v.voters()) > 1 {
		// The followers may be where this agent cannot reach them, with agents of
		// their own.
		return 1
	}
	return i
}

func (v View) voters() (ids []cluster.MemberID) {
	for _, s := range v.Candidates {
		if !s.Learner {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// errNotLeader says that the agent has nothing to do.
var errNotLeader = errors.New("the leader's agent takes the backup, and this agent's member is not the leader")

// noRank says why the agent has no rank.
func (v View) noRank(prefer Prefer) error {
	for _, s := range v.Candidates {
		if !s.Mine {
			continue
		}
		if why := v.unfit(s); why != "" {
			return fmt.Errorf("no backup is read from the member at %s: %s", s.Endpoint, why)
		}
		if prefer == LeaderOnly {
			return fmt.Errorf("%w: %s", errNotLeader, s.Endpoint)
		}
	}
	return errors.New("none of this agent's endpoints is a member")
}
