package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

func (s *Session) take(ctx context.Context) error {
	select {
	case s.semaphore <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for another round: %w", context.Cause(ctx))
	}
}

func (s *Session) leave() { <-s.semaphore }

// start begins a round of the candidate.
func (s *Session) start(begin func(*lease.Candidate, time.Time) (*lease.Round, error)) (*lease.Round, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return begin(&s.c, s.o.Now())
}

func (s *Session) renew(ctx context.Context) error {
	r, err := s.start((*lease.Candidate).Renew)
	if err != nil {
		return err
	}
	return s.round(ctx, r)
}

func (s *Session) probe(ctx context.Context, node cluster.NodeName) error {
	r, err := s.start(func(c *lease.Candidate, now time.Time) (*lease.Round, error) { return c.Probe(now, node) })
	if err != nil {
		return err
	}
	return s.round(ctx, r)
}

// A response is what came back from one lease voter.
type response struct {
	node  cluster.NodeName
	reply lease.Reply
	err   error
}

// round asks everybody and returns as soon as the round is won or lost. Where
// another holds the lease, those who write are waited for no longer than others:
// they are not what is missing.
func (s *Session) round(ctx context.Context, r *lease.Round) error {
	nodes := r.Nodes()
	answers := s.ask(ctx, r.Request, nodes, r.Timeout())
	timeout := time.NewTimer(lease.CallTimeout)
	defer timeout.Stop()
	lost, late := &LostError{}, false
	for answered := 0; answered < len(nodes); {
		select {
		case a := <-answers:
			answered++
			if s.note(r, a, lost) {
				return nil
			}
			if r.Lost() || late && lost.Holder != "" {
				return lost
			}
		case <-timeout.C:
			// A plain renewal ends by the deadlines of its calls.
			if late = r.Timeout() > lease.CallTimeout; late && lost.Holder != "" {
				return lost
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	// Every answer has been noted, so the round was won or lost. It can only
	// come here when it was won for a term that has been dropped meanwhile.
	return errors.New("the lease was given back")
}

// note takes in one response, and reports whether the round is won.
func (s *Session) note(r *lease.Round, a response, lost *LostError) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.err != nil {
		r.Fail(a.node)
		lost.Answers = append(lost.Answers, Answer{a.node, a.err.Error()})
		return false
	}
	s.c.Note(r, a.node, a.reply)
	if !a.reply.Granted {
		lost.Answers = append(lost.Answers, Answer{a.node, a.reply.Reason})
		if a.reply.Remaining > lost.Remaining {
			lost.Holder, lost.Remaining = a.reply.Holder, a.reply.Remaining
		}
	}
	return s.c.Finish(r)
}

// ask calls each node in its own goroutine. The calls do not end with ctx: a
// round that is won early leaves the others the time to hear of it. They end
// by their deadline, and nobody has to read the channel.
func (s *Session) ask(ctx context.Context, req lease.Request, nodes []cluster.NodeName,
	within time.Duration) <-chan response {
	answers := make(chan response, len(nodes))
	for _, node := range nodes {
		earlier, ended, ok := s.begin(node)
		if !ok {
			answers <- response{node: node, err: fmt.Errorf("%d earlier requests are not answered yet", maxUnanswered)}
			continue
		}
		s.calls.Go(func() {
			defer s.end(node)
			defer close(ended)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
			defer cancel()
			if req.Release {
				// One that overtakes the request for the grant gives nothing back.
				waitFor(earlier, within/2)
			}
			reply, err := s.o.Voters.Lease(ctx, node, req)
			if err == nil {
				s.Learn(reply.LeaseVoters, reply.Term) // also what comes when the round is over
			}
			answers <- response{node, reply, err}
		})
	}
	return answers
}

func (s *Session) giveBack(ctx context.Context, req lease.Request, nodes []cluster.NodeName) <-chan response {
	req.Release = true
	return s.ask(ctx, req, nodes, lease.CallTimeout)
}

// begin counts a call to a node, unless there are too many. Earlier is closed when the call before
// it has ended, nil if none is under way; ended is to be closed when this one has.
func (s *Session) begin(node cluster.NodeName) (earlier, ended chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unanswered[node] >= maxUnanswered {
		return nil, nil, false
	}
	s.unanswered[node]++
	earlier, ended = s.last[node], make(chan struct{})
	s.last[node] = ended
	return earlier, ended, true
}

// waitFor waits until a channel is closed, for no longer than d. It does not wait for nil.
func waitFor(closed <-chan struct{}, d time.Duration) {
	if closed == nil {
		return
	}
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	select {
	case <-closed:
	case <-timeout.C:
	}
}

func (s *Session) end(node cluster.NodeName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unanswered[node]--; s.unanswered[node] == 0 {
		delete(s.unanswered, node)
		delete(s.last, node)
	}
}
