package observe

import (
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// maxRememberedAge is how old an earlier coordinator's observation may be for its times to
// count: one that coordinates publishes more often, see statusEvery in package daemon.
// If nobody did for longer, who was unhealthy then may have been well since.
const maxRememberedAge = 3 * time.Minute

// Remembered keeps of an earlier coordinator's observation what stays true: for
// how long members had been unhealthy or learners when it observed last, and where
// they serve. It counts from now on, because the clocks of two coordinators may
// differ, and because nobody observed in between: machines that were all off for
// a night were not unhealthy for a night, and the one that comes up last is not for that
// replaced. What nodes said to another is not what
// they said to us, and an observation without the lease (term zero) proves nothing.
func Remembered(obs cluster.Observation, term cluster.Term, now time.Time) cluster.Observation {
	kept := cluster.Observation{Token: obs.Token}
	shift := func(t time.Time) time.Time {
		if term == 0 || t.IsZero() || now.Sub(obs.At) > maxRememberedAge {
			return time.Time{}
		}
		return now.Add(-max(0, obs.At.Sub(t)))
	}
	for _, m := range obs.Members {
		kept.Members = append(kept.Members, cluster.Member{
			ID: m.ID, Name: m.Name, ClientURLs: m.ClientURLs, UnhealthySince: shift(m.UnhealthySince),
			LearnerSince: shift(m.LearnerSince),
		})
	}
	return kept
}

// BeginTimes returns obs with the times of its members begun with it, for an observer whose
// times are not those of the last coordinator: that one may have seen the members well.
func BeginTimes(obs cluster.Observation) cluster.Observation {
	obs.Members = slices.Clone(obs.Members)
	for i := range obs.Members {
		m := &obs.Members[i]
		for _, t := range []*time.Time{&m.UnhealthySince, &m.LearnerSince} {
			if !t.IsZero() {
				*t = obs.At
			}
		}
	}
	return obs
}

// Terms returns the terms that nodes have seen, the lowest first: one that was cut
// off may have seen a higher one than any lease voter, and one out of reach of the
// others must not be taken for the beginning.
func Terms(obs cluster.Observation) []cluster.Term {
	var terms []cluster.Term
	for _, n := range obs.Nodes {
		if n.Lease.Term > 0 {
			terms = append(terms, n.Lease.Term)
		}
	}
	slices.Sort(terms)
	return terms
}
