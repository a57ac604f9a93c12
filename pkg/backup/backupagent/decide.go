package backupagent

import (
	"fmt"
	"strconv"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/internal/backoff"
)

// Rules are what decisions are made by.
type Rules struct {
	Schedule Schedule
	Prefer   Prefer
	// RankTimeout is how long an agent waits for each one whose rank is before its
	// own.
	RankTimeout time.Duration
	// Agent names this agent, for the times of its retries.
	Agent string
}

// A State is what a decision is made from.
type State struct {
	Now time.Time
	// Listed says that the store's backups could be listed. Newest is the time of
	// the newest good one, or of the newest that this agent knows of; zero for none.
	Listed bool
	Newest time.Time
	// Confirmed is when the newest backup was last found to be as good as a new
	// one, or when another agent that cannot be seen took one; zero for never.
	Confirmed time.Time
	// Failures is how often in a row the agent has failed, Failed the last time.
	Failures int
	Failed   time.Time
	View     View
}

// A Decision is what to do.
type Decision struct {
	// Act says to take a backup now, from Candidate, under the claim Key.
	Act       bool
	Candidate Candidate
	Key       string
	// Otherwise Next is when to observe again, and Why the reason for waiting.
	Next time.Time
	Why  string
	// Idle says that this agent has no part in backups as things are.
	Idle bool
}

const (
	// idleInterval is the time between two observations of an agent that has no rank.
	idleInterval = 30 * time.Second
	// The first retry comes after about minRetryDelay, and those after that later and
	// later, up to maxRetryDelay, or the period of the schedule if that is shorter.
	minRetryDelay = 5 * time.Second
	maxRetryDelay = 5 * time.Minute
)

// Wait returns a decision where there is nothing to do, whatever the cluster
// looks like: no backup is due, or the last failure is too recent.
func Wait(r Rules, s State) (Decision, bool) {
	if due := r.due(s); s.Now.Before(due) {
		return Decision{Next: due, Why: "the next backup is due at " + due.UTC().Format(time.RFC3339)}, true
	}
	if retry := s.Failed.Add(r.backoff(s)); s.Failures > 0 && s.Now.Before(retry) {
		return Decision{Next: retry, Why: fmt.Sprintf("failed %d times in a row", s.Failures)}, true
	}
	return Decision{}, false
}

// decide says what an agent does.
//
//   - A backup is due when the schedule says so, counted from the newest one in
//     the store, whoever took it.
//   - After a failure the agent waits, longer each time, and lets every other one
//     have an observation first.
//   - The agents beside the cluster's members act in an order that all of them
//     know: each waits a little for those before it. So the work of a dead agent
//     is taken over by the next.
func decide(r Rules, s State) Decision {
	if d, wait := Wait(r, s); wait {
		return d
	}
	key := r.key(s)
	t, err := s.View.rank(r.Prefer, key)
	if err != nil {
		return Decision{Next: s.Now.Add(min(idleInterval, r.Schedule.Period(s.Now))), Why: err.Error(), Idle: true}
	}
	due := r.due(s)
	if due.IsZero() {
		// Where there was no backup at all, nobody knows since when one is due.
		due = r.Schedule.Slot(s.Now)
	}
	if at := due.Add(time.Duration(t.position) * r.RankTimeout); s.Now.Before(at) {
		return Decision{Next: at, Why: fmt.Sprintf("other agents come first: %d", t.position)}
	}
	// An agent that stood still for minutes must not be the first again.
	if at := s.Failed.Add(min(idleInterval+r.RankTimeout, r.Schedule.Period(s.Now))); s.Failures > 0 && t.others > 0 &&
		s.Now.Before(at) {
		return Decision{Next: at, Why: "after a failure other agents come first"}
	}
	return Decision{Act: true, Candidate: t.candidate, Key: key}
}

// due returns when the next backup is due. Agents that do not see each other's
// backups go by the clock, lest each counts from another time.
func (r Rules) due(s State) time.Time {
	from := s.satisfied()
	if !s.Listed && r.Schedule.Cron == "" && !from.IsZero() {
		from = r.Schedule.Slot(from)
	}
	return r.Schedule.Due(from)
}

// satisfied is the time from which the next backup is counted.
func (s State) satisfied() time.Time {
	if s.Confirmed.After(s.Newest) {
		return s.Confirmed
	}
	return s.Newest
}

// key names the backup that is due, in the same way for all agents.
func (r Rules) key(s State) string {
	switch {
	case !s.Listed:
		return "at-" + r.Schedule.Slot(s.Now).Format(time.RFC3339)
	case s.Newest.IsZero():
		return "first"
	}
	return "after-" + s.Newest.UTC().Format(time.RFC3339)
}

// backoff is how long to wait after the last failure: twice as long each time,
// and up to a fifth longer, by the agent's name.
func (r Rules) backoff(s State) time.Duration {
	period := r.Schedule.Period(s.Now)
	wait := backoff.Doubled(min(minRetryDelay, period/2), min(maxRetryDelay, period), s.Failures-1)
	return wait + time.Duration(hash(r.Agent, strconv.Itoa(s.Failures))%uint64(wait/5+1))
}

// futureSlack is how far in the future a backup may lie and still count: clocks
// differ. One that lies further ahead would put off the next one for as long.
const futureSlack = 5 * time.Minute

// newestGood returns the newest backup that counts, the zero value for none.
// A damaged one does not.
func newestGood(backups []cluster.Backup, now time.Time) cluster.Backup {
	var newest cluster.Backup
	for _, b := range backups {
		if !b.Damaged && b.At.Before(now.Add(futureSlack)) && b.At.After(newest.At) {
			newest = b
		}
	}
	return newest
}
