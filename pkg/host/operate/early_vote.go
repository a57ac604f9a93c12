package operate

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/host/initsystem"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/node/apply"
)

// An earlyVote asks for the vote of this machine's learner from the moment that its etcd
// runs, beside the steps. etcd answers /health as soon as it serves, and who asks is to
// find a voter.
type earlyVote struct {
	stop context.CancelFunc
	done chan struct{}
	// asked is what is asked for; op is the same when the answer was that it is done, and
	// for who has seen the end of done.
	asked, op *plan.Promote
	// unknown are the members of which nobody says whether they reach the learner.
	unknown []cluster.Member
	// reported says that the step was reported.
	reported bool
}

// How often is asked for the vote: at first, and after some time, when much is copied.
const (
	askInterval     = 20 * time.Millisecond
	slowAskInterval = 100 * time.Millisecond
	fastAskTime     = 10 * time.Second
	// promotionTimeout is how long the answer to a promotion that was seen may take.
	promotionTimeout = 2 * time.Second
)

// beginVote begins to ask, if it is this machine's to have a vote.
func (m *Machine) beginVote(ctx context.Context, goal machine.Goal, obs machine.Observation) {
	op, seen := machine.EarlyVote(goal, m.cfg, obs)
	if op == nil || m.vote.lives() {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	v := &earlyVote{stop: cancel, done: make(chan struct{}), asked: op}
	m.vote = v
	self, voters := machine.Connecting(goal, m.cfg, obs)
	go func() {
		defer close(v.done)
		if m.voteEarly(ctx, v, seen, self.ID, voters) == nil {
			v.op = op
		}
	}()
}

// lives says that it asks, or has done what it was for.
func (v *earlyVote) lives() bool {
	if v == nil {
		return false
	}
	select {
	case <-v.done:
		return v.op != nil
	default:
		return true
	}
}

// endVote ends the asking.
func (m *Machine) endVote() {
	if m.vote != nil {
		m.vote.stop()
		<-m.vote.done
	}
}

// awaitVote waits for the vote that the phase start has asked for: who asks for /health
// after it is to find a voter. It waits as long as etcd may take to start. Where the vote
// does not come, the phase health says why. It returns whether the vote came.
func (m *Machine) awaitVote(ctx context.Context, r *Result) bool {
	v := m.vote
	if v == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(m.cfg.Timeouts.Start))
	defer cancel()
	for wait.Until(ctx, pause, v.done) == nil {
		select {
		case <-v.done:
			m.noteVote(r)
			return v.reported
		default:
		}
		s, err := m.initSystem.Status(ctx)
		if err != nil || s.State != initsystem.Running && s.State != initsystem.Starting {
			return false
		}
	}
	return false
}

// noteVote reports the step that was done beside the others, once. Where the list has it
// already, its own answer is waited for.
func (m *Machine) noteVote(r *Result) {
	v := m.vote
	if v == nil || v.reported {
		return
	}
	has := machine.IsVoter(m.cfg, r.Last)
	if !has {
		select {
		case <-v.done:
		default:
			return
		}
	}
	select {
	case <-v.done:
	case <-time.After(promotionTimeout):
		m.endVote()
	}
	// An answer may be lost: what was asked for, and is there, was done.
	if !has && v.op == nil {
		return
	}
	v.reported = true
	m.warnReachUnknown(v.unknown)
	step := machine.Step{Phase: "health", Do: &machine.Membership{Operation: v.asked}}
	r.Steps = append(r.Steps, step)
	if m.o.Began != nil {
		m.o.Began(step)
	}
}

// voteEarly asks until the learner has its vote. Another error than that it has not
// caught up leaves the vote to the step that is for it, and so does a voter that does not reach
// the learner. Those that were seen to are not among voters.
func (m *Machine) voteEarly(ctx context.Context, v *earlyVote, obs cluster.Observation, self cluster.MemberID,
	voters []cluster.Member) error {
	op := v.asked
	connect := func(urls []string) (apply.Etcd, error) { return m.connect(urls) }
	for !listening(ctx, machine.URLs(m.cfg).Peer) {
		if err := wait.For(ctx, askInterval); err != nil {
			return err
		}
	}
	if voters = m.answering(ctx, voters); len(voters) > 0 {
		var closed []cluster.Member
		if closed, v.unknown = m.askReach(ctx, self, voters, true, apartGrace); len(closed) > 0 {
			return errors.New("not all voters reach the learner")
		}
	}
	pause, began := askInterval, time.Now()
	for {
		err := apply.PromoteEarly(ctx, connect, obs, op, pause)
		var needed *plan.UnsafeError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &needed):
			return m.voteWhenItServes(ctx, connect, obs, op)
		case !errors.Is(err, etcdclient.ErrNotReady):
			return err
		case time.Since(began) > fastAskTime:
			pause = slowAskInterval
		}
	}
}

// voteWhenItServes is for a vote that the majority will need, as the second of two: its
// member serves before it has it. The questions wait in etcd until it does.
func (m *Machine) voteWhenItServes(ctx context.Context, connect func([]string) (apply.Etcd, error),
	obs cluster.Observation, op *plan.Promote) error {
	for {
		if r := m.local(ctx); r != nil && r.Leader != 0 {
			break
		}
		if err := wait.For(ctx, askInterval); err != nil {
			return err
		}
	}
	obs.Members = slices.Clone(obs.Members)
	for i := range obs.Members {
		obs.Members[i].Healthy = obs.Members[i].Healthy || obs.Members[i].Name == op.Name
	}
	return apply.Membership(ctx, connect, obs, op)
}
