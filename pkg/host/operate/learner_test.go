package operate

import (
	"errors"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// A learner is absent for as long as nobody has listened, without a moment in which
// somebody did, another learner, or a time in which nothing was seen.
func TestALearnerIsAbsentOnlyWithoutAGap(t *testing.T) {
	var w learnerWatch
	now := time.Unix(1e9, 0)
	see := func(after time.Duration, id cluster.MemberID, serves, listens bool) machine.Learner {
		now = now.Add(after)
		w.see(id, serves, listens, now)
		return w.reported(now)
	}
	for i, s := range []struct {
		after           time.Duration
		id              cluster.MemberID
		serves, listens bool
		ready, absent   time.Duration
		behind          time.Duration
	}{
		{0, 7, false, false, 0, 0, 0},
		{10 * time.Second, 7, false, false, 0, 10 * time.Second, 0},
		{10 * time.Second, 7, false, false, 0, 20 * time.Second, 0},
		{time.Second, 7, false, true, 0, 0, 0}, // it copies a snapshot
		{20 * time.Second, 7, false, true, 0, 0, 20 * time.Second},
		{time.Second, 7, false, false, 0, 42 * time.Second, 0}, // it has ended again
		{time.Second, 7, false, true, 0, 0, 0},
		{minListeningTime, 7, false, true, 0, 0, minListeningTime},
		{time.Second, 7, false, false, 0, 0, 0}, // it had stayed
		{10 * time.Second, 7, false, false, 0, 10 * time.Second, 0},
		{10 * time.Second, 8, false, false, 0, 0, 0}, // another one
		{10 * time.Second, 8, false, false, 0, 10 * time.Second, 0},
		{longestGap + 1, 8, false, false, 0, 0, 0}, // this machine has slept
		{10 * time.Second, 8, true, true, 0, 0, 0},
		{10 * time.Second, 8, true, true, 10 * time.Second, 0, 0},
		{time.Second, 8, false, true, 0, 0, 0},
		{-time.Hour, 8, false, false, 0, 0, 0}, // a clock that was set
	} {
		want := machine.Learner{ID: s.id, Ready: s.ready, Absent: s.absent, Behind: s.behind}
		if got := see(s.after, s.id, s.serves, s.listens); got != want {
			t.Errorf("%d: %+v, want %+v", i, got, want)
		}
	}
}

// A learner is unheard for as long as one leader has had nothing of it.
func TestALearnerIsUnheardByOneLeader(t *testing.T) {
	var w learnerWatch
	now := time.Unix(1e9, 0)
	for i, s := range []struct {
		leader   cluster.MemberID
		received int64
		unheard  time.Duration
	}{
		{1, 0, 0},
		{1, 0, 10 * time.Second},
		{1, 0, 20 * time.Second},
		{1, 5, 0}, // it answers
		{1, 5, 10 * time.Second},
		{2, 5, 0}, // another leader counts again
		{2, 5, 10 * time.Second},
		{2, 0, 0}, // the leader was started again
	} {
		w.see(7, false, true, now)
		w.hear(s.leader, etcdclient.LeaderView{Received: s.received}, now)
		if got := w.reported(now).Unheard; got != s.unheard {
			t.Errorf("%d: it is unheard for %s, want %s", i, got, s.unheard)
		}
		now = now.Add(10 * time.Second)
	}
}

// A learner that only this machine cannot reach is not absent: the leader hears it. Where
// the leader does not say, what this machine sees counts.
func TestALearnerThatTheLeaderHearsIsNotAbsent(t *testing.T) {
	for _, c := range []struct {
		name            string
		grows           int64
		err             error
		absent, unheard time.Duration
	}{
		{"it is heard", 7, nil, 0, 0},
		{"it is not", 0, nil, 20 * time.Second, 20 * time.Second},
		{"nobody says", 0, errors.New("404"), 20 * time.Second, 0},
	} {
		var w learnerWatch
		now := time.Unix(1e9, 0)
		for i := range 3 {
			w.see(7, false, false, now)
			w.leaderSays(func() (etcdclient.LeaderView, error) {
				return etcdclient.LeaderView{Received: int64(i) * c.grows}, c.err
			}, 1, false, now)
			if i < 2 {
				now = now.Add(10 * time.Second)
			}
		}
		want := machine.Learner{ID: 7, Absent: c.absent, Unheard: c.unheard}
		if got := w.reported(now); got != want {
			t.Errorf("%s: %+v, want %+v", c.name, got, want)
		}
	}
}

// A learner to which the leader tries to send the database, again and again, and cannot.
func TestALearnerThatTakesNoSnapshot(t *testing.T) {
	var w learnerWatch
	now := time.Unix(1e9, 0)
	received := int64(0)
	for i, s := range []struct {
		after        time.Duration
		sent, failed int64
		refused      time.Duration
	}{
		{0, 0, 3, 0}, // from before
		{time.Minute, 0, 3, 0},
		{time.Minute, 0, 4, 0},
		{time.Minute, 0, 5, time.Minute},
		{maxRefusalInterval, 0, 5, time.Minute + maxRefusalInterval},
		{time.Second, 0, 5, 0}, // it takes one, maybe
		{time.Minute, 0, 6, 0},
		{time.Minute, 0, 7, time.Minute},
		{time.Minute, 1, 7, 0}, // it has one
		{time.Minute, 1, 8, 0},
		{time.Minute, 1, 0, 0}, // the leader was started again
	} {
		now = now.Add(s.after)
		received++
		w.last = now
		w.see(7, false, true, now)
		w.hear(1, etcdclient.LeaderView{Received: received, Snapshots: s.sent, FailedSnapshots: s.failed}, now)
		if got := w.reported(now).Refused; got != s.refused {
			t.Errorf("%d: it has refused for %s, want %s", i, got, s.refused)
		}
	}
}
