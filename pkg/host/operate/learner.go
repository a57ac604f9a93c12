package operate

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// A learnerWatch is what one command has seen of a learner, observation after
// observation.
type learnerWatch struct {
	id cluster.MemberID
	// last is the time of the last observation; ready, absent and behind are since when
	// the learner has served, since when nobody has listened at its addresses, and since
	// when somebody has who does not serve. They are zero where that is not so.
	last, ready, absent, behind time.Time
	// listened is since when somebody has listened without a break.
	listened time.Time
	// unheard is since when leader has had no message of it; zero where that is not known,
	// and where it serves.
	unheard time.Time
	// refused is since when it has sent snapshots of the database and none went through,
	// refusedLast when one did not last.
	refused, refusedLast time.Time
	// leader is the one that counted said.
	leader cluster.MemberID
	said   etcdclient.LeaderView
}

// maxRefusalInterval is the longest time between two snapshots that the leader cannot send. After
// more it may be sending one that is large.
const maxRefusalInterval = 5 * time.Minute

// minListeningTime is how long somebody has to listen to be no longer absent: an etcd that ends
// again and again listens for a moment each time.
const minListeningTime = 30 * time.Second

// longestGap is the longest time between two observations of which nothing happened in
// between is known: after more, the machine has slept.
const longestGap = 4 * longestPause

// see notes an observation.
func (w *learnerWatch) see(id cluster.MemberID, serves, listens bool, now time.Time) {
	// The wall clock goes on where the machine is suspended, the other one may not.
	gap := max(now.Sub(w.last), now.Round(0).Sub(w.last.Round(0)))
	if w.id != id || gap > longestGap || gap < 0 {
		*w = learnerWatch{id: id}
	}
	w.last = now
	since := func(t time.Time, so bool) time.Time {
		switch {
		case !so:
			return time.Time{}
		case t.IsZero():
			return now
		}
		return t
	}
	w.ready, w.behind, w.listened = since(w.ready, serves), since(w.behind, listens && !serves), since(w.listened, listens)
	if !listens || !w.absent.IsZero() && now.Sub(w.listened) >= minListeningTime {
		w.absent = since(w.absent, !listens)
	}
}

// hear notes what the leader has counted of the learner.
func (w *learnerWatch) hear(leader cluster.MemberID, says etcdclient.LeaderView, now time.Time) {
	before := w.said
	if w.unheard.IsZero() || leader != w.leader || says.Received != before.Received {
		w.unheard = now
	}
	switch {
	case leader != w.leader || says.Snapshots != before.Snapshots || says.FailedSnapshots < before.FailedSnapshots:
		w.refused = time.Time{}
	case says.FailedSnapshots > before.FailedSnapshots:
		if w.refused.IsZero() {
			w.refused = now
		}
		w.refusedLast = now
	case now.Sub(w.refusedLast) > maxRefusalInterval:
		w.refused = time.Time{}
	}
	w.leader, w.said = leader, says
}

// watchLearner says how the cluster's learner has done since this command began to
// watch it. While the voters have no quorum nobody can catch up, and nothing is said
// about anybody.
func (m *Machine) watchLearner(ctx context.Context, r machine.Remote, now time.Time) machine.Learner {
	i := slices.IndexFunc(r.Members, func(m cluster.Member) bool { return m.Learner })
	if i < 0 || !r.Answered || r.Leader == 0 {
		m.learner = learnerWatch{}
		return machine.Learner{}
	}
	learner, w := r.Members[i], &m.learner
	serves := learner.Healthy && learner.Condition.Serves()
	// An etcd that lives listens to its peers, also where it is busy with a snapshot.
	listens := serves || listening(ctx, slices.Concat(learner.PeerURLs, learner.ClientURLs))
	w.see(learner.ID, serves, listens, now)
	ask := func() (etcdclient.LeaderView, error) { return m.heard(ctx, r, learner.ID) }
	w.leaderSays(ask, r.Leader, serves, now)
	return w.reported(now)
}

// leaderSays notes what the leader has had from a learner that does not serve here, also
// where nobody listens: it may be that only this machine cannot reach it.
func (w *learnerWatch) leaderSays(heard func() (etcdclient.LeaderView, error), leader cluster.MemberID, serves bool,
	now time.Time) {
	if !serves {
		if says, err := heard(); err == nil {
			w.hear(leader, says, now)
			return
		}
	}
	w.unheard, w.refused = time.Time{}, time.Time{}
}

// heard returns what the leader has counted of a member.
func (m *Machine) heard(ctx context.Context, r machine.Remote, id cluster.MemberID) (etcdclient.LeaderView, error) {
	var none etcdclient.LeaderView
	i := slices.IndexFunc(r.Members, func(m cluster.Member) bool { return m.ID == r.Leader })
	if i < 0 || len(r.Members[i].ClientURLs) == 0 {
		return none, errors.New("the leader has no client URL")
	}
	conf, err := m.credentials()
	if err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return etcdclient.AsLeader(ctx, r.Members[i].ClientURLs[0], conf, id)
}

// reported returns what was seen, as of now.
func (w *learnerWatch) reported(now time.Time) machine.Learner {
	lasted := func(since time.Time) time.Duration {
		if since.IsZero() {
			return 0
		}
		return now.Sub(since)
	}
	reported := machine.Learner{
		ID: w.id, Ready: lasted(w.ready), Behind: lasted(w.behind), Unheard: lasted(w.unheard), Refused: lasted(w.refused),
	}
	if w.listened.IsZero() {
		reported.Absent = lasted(w.absent)
	}
	if !w.unheard.IsZero() {
		reported.Absent = min(reported.Absent, reported.Unheard)
	}
	return reported
}
