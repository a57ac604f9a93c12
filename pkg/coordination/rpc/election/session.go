package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// Voters reach the lease voters. Lease is called by many goroutines at the same
// time, with a deadline of at most [lease.WriteTimeout].
type Voters interface {
	Lease(ctx context.Context, node cluster.NodeName, req lease.Request) (lease.Reply, error)
}

// Options describe a [Session].
type Options struct {
	// Cluster is the name of the cluster.
	Cluster string
	// Self and Boot identify this run of the daemon.
	Self cluster.NodeName
	Boot cluster.Token
	// TTL is the time to ask for, 0 for [lease.DefaultTTL].
	TTL    time.Duration
	Voters Voters
	// Now returns values of time.Now; nil means time.Now.
	Now func() time.Time
}

// maxUnanswered bounds the calls to one lease voter that have not come back yet.
const maxUnanswered = 4

// A Session is this daemon as a candidate and a holder. It is safe for
// concurrent use; rounds are made one after the other.
type Session struct {
	o         Options
	semaphore chan struct{} // taken by whoever makes a round

	mu         sync.Mutex
	c          lease.Candidate
	unanswered map[cluster.NodeName]int
	// last is closed when the last call to a lease voter has ended.
	last  map[cluster.NodeName]chan struct{}
	calls sync.WaitGroup
}

// New returns a session that holds nothing and knows no lease voters.
func New(o Options) *Session {
	if o.TTL == 0 {
		o.TTL = lease.DefaultTTL
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Session{
		o: o, semaphore: make(chan struct{}, 1),
		c:          lease.Candidate{Cluster: o.Cluster, Name: o.Self, Boot: o.Boot, TTL: o.TTL},
		unanswered: map[cluster.NodeName]int{}, last: map[cluster.NodeName]chan struct{}{},
	}
}

// A LostError is returned when a majority of the lease voters did not grant.
type LostError struct {
	// Answers says for each lease voter that did not grant why, in the order in which
	// they answered.
	Answers []Answer
	// Holder is who holds the lease as far as the answers show, empty for nobody,
	// and Remaining how long it may still run.
	Holder    cluster.NodeName
	Remaining time.Duration
}

// An Answer is a lease voter's reason for not granting, or the error of asking it.
type Answer struct {
	Node cluster.NodeName
	Text string
}

func (e *LostError) Error() string {
	texts := make([]string, len(e.Answers))
	for i, a := range e.Answers {
		texts[i] = string(a.Node) + ": " + a.Text
	}
	return "no majority of the lease voters grants the lease: " + strings.Join(texts, "; ")
}

// Enter makes the session one of an incarnation, see [lease.Candidate.Enter].
func (s *Session) Enter(token cluster.Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.c.Enter(token)
}

// Learn takes in a record and a term that were seen somewhere: on the own disk,
// in an observation.
func (s *Session) Learn(e cluster.LeaseVoters, term cluster.Term) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.c.Learn(e, term)
}

// Held returns the term that is held at now, and until when the holder may act
// on it.
func (s *Session) Held(now time.Time) (term cluster.Term, until time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.c.Held(now)
}

// Succeeds returns the term of the last lease before the one that is held, see
// [lease.Candidate.Succeeds].
func (s *Session) Succeeds() cluster.Term {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.c.Succeeds()
}

// LeaseVoters returns the record of the present lease, or the newest known.
func (s *Session) LeaseVoters() cluster.LeaseVoters {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, _ := s.c.Record(); len(r.Names) > 0 {
		return r
	}
	return s.c.Known()
}

// Campaign drops what the session holds and asks for a new term. It returns
// nil when the lease is held, and a [*LostError] when others do not grant it.
func (s *Session) Campaign(ctx context.Context) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.leave()
	s.Rest(false)
	before := s.known()
	used, err := s.campaign(ctx)
	// A refusal may have a newer record, or a later term. The next
	// campaign goes by that.
	if err != nil && (used || lease.Newer(s.known(), before)) {
		_, err = s.campaign(ctx)
	}
	return err
}

func (s *Session) campaign(ctx context.Context) (used bool, err error) {
	r, err := s.start((*lease.Candidate).Campaign)
	if err != nil {
		return false, fmt.Errorf("campaign: %w", err)
	}
	if err = s.round(ctx, r); err == nil {
		err = s.renew(ctx)
	}
	if err != nil {
		// Those who granted need not wait for a lease that nobody holds.
		s.giveBack(ctx, r.Request, r.Nodes())
		s.mu.Lock()
		defer s.mu.Unlock()
		return r.Used(), fmt.Errorf("campaign for term %d: %w", r.Request.Term, err)
	}
	return false, nil
}

func (s *Session) known() cluster.LeaseVoters {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.c.Known()
}

// Renew makes the lease longer. After an error the session still holds what it
// held; whether that is over is for [Session.Held] to say.
func (s *Session) Renew(ctx context.Context) error {
	_, _, err := s.Confirm(ctx)
	return err
}

// Confirm asks the lease voters now. It returns the term, and until when the
// holder may act without asking again. The time counts from before the
// question.
func (s *Session) Confirm(ctx context.Context) (term cluster.Term, until time.Time, err error) {
	if err := s.take(ctx); err != nil {
		return 0, time.Time{}, err
	}
	defer s.leave()
	if err := s.renew(ctx); err != nil {
		return 0, time.Time{}, fmt.Errorf("renew the lease: %w", err)
	}
	term, until, ok := s.Held(s.o.Now())
	if !ok {
		return 0, time.Time{}, errors.New("renew the lease: it was over when the lease voters answered")
	}
	return term, until, nil
}

// SetLeaseVoters has the record of the incarnation with these names on the disks of
// a majority of the present lease voters and of the new ones when it returns nil. It
// is an error if the session is in another incarnation: its lease voters say nothing
// of that one's. One name may differ. A name that is added must answer, as a node that has joined the
// incarnation; otherwise nothing changes. After another error the change may
// have happened in part: then it must be tried again, and each renewal does so.
func (s *Session) SetLeaseVoters(ctx context.Context, token cluster.Token, names []cluster.NodeName) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.leave()
	s.mu.Lock()
	present, _ := s.c.Record()
	s.mu.Unlock()
	if present.Token != token {
		return fmt.Errorf("change the lease voters of incarnation %s: the lease is of incarnation %s", token,
			cmp.Or(present.Token, "none"))
	}
	for _, n := range names {
		if slices.Contains(present.Names, n) {
			continue
		}
		if err := s.probe(ctx, n); err != nil {
			return fmt.Errorf("lease voter %s is not ready: %w", n, err)
		}
	}
	s.mu.Lock()
	err := s.c.Change(s.o.Now(), names)
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("change the lease voters: %w", err)
	}
	if err := s.renew(ctx); err != nil {
		return fmt.Errorf("change the lease voters: %w", err)
	}
	return nil
}

// Release gives the lease back. It waits until the lease voters have answered, at
// most [lease.CallTimeout], or ctx is over.
func (s *Session) Release(ctx context.Context) {
	s.mu.Lock()
	req, nodes, ok := s.c.Release()
	s.mu.Unlock()
	if !ok {
		return
	}
	answers := s.giveBack(ctx, req, nodes)
	for range nodes {
		select {
		case <-answers:
		case <-ctx.Done():
			return
		}
	}
}

// Rest says whether there is nothing to do: then the lease is asked for with [lease.RestTTL], until
// the next campaign.
func (s *Session) Rest(rest bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.c.TTL = s.o.TTL
	if rest {
		s.c.TTL = max(s.o.TTL, lease.RestTTL)
	}
}

// next returns the time from a renewal that began then until the next: three more have to fit
// into what is held.
func (s *Session) next(began time.Time, err error) time.Duration {
	_, until, _ := s.Held(began)
	if err == nil && until.Sub(began) >= lease.RestRenewInterval+2*lease.RenewInterval {
		return lease.RestRenewInterval
	}
	return lease.RenewInterval
}

// Keep renews the lease every [lease.RenewInterval], at [Session.Rest] every [lease.RestRenewInterval], as
// long as may returns nil: a holder that does not get on must not keep others from it. It returns nil
// when ctx is over, and the last error when the lease is.
func (s *Session) Keep(ctx context.Context, may func() error) error {
	t := time.NewTimer(lease.RenewInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		began := s.o.Now()
		err := may()
		if err == nil {
			err = s.Renew(ctx)
		}
		if _, _, ok := s.Held(s.o.Now()); !ok && ctx.Err() == nil {
			if err == nil {
				err = errors.New("the lease was given back")
			}
			return err
		}
		t.Reset(max(0, began.Add(s.next(began, err)).Sub(s.o.Now())))
	}
}

// Wait returns when no call is under way any more, at most
// [lease.WriteTimeout] after the last round.
func (s *Session) Wait() { s.calls.Wait() }
