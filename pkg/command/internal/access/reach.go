package access

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
)

// stragglerTimeout is how much longer than the first voter the other endpoints may
// take.
const stragglerTimeout = 2 * time.Second

// An answer is what became of one endpoint.
type answer struct {
	at      int
	learner bool
	err     error
}

// reach asks all endpoints at the same time. It returns those of voters and of
// learners that answer, in their order. It warns of those that do not; if none
// does, the error says why.
func (a *Access) reach(ctx context.Context) (voters, learners []string, err error) {
	endpoints, err := a.Endpoints()
	if err != nil {
		return nil, nil, err
	}
	config, err := a.TLS()
	if err != nil {
		return nil, nil, err
	}

	limited, cancel := a.Limit(ctx)
	defer cancel()
	answers := make(chan answer)
	for i, e := range endpoints {
		go func() {
			learner, err := probe(limited, e, config)
			answers <- answer{i, learner, err}
		}()
	}
	var late *time.Timer
	got := make([]answer, len(endpoints))
	waited := newWaited(endpoints)
	defer a.waiting(waited.text)()
	for range endpoints {
		r := <-answers
		got[r.at] = r
		waited.answered(endpoints[r.at])
		if r.err == nil && !r.learner && late == nil {
			late = time.AfterFunc(stragglerTimeout, cancel)
			defer late.Stop()
		}
	}
	var unreachable []error
	for i, r := range got {
		switch {
		case r.err != nil:
			unreachable = append(unreachable, r.err)
		case r.learner:
			learners = append(learners, endpoints[i])
		default:
			voters = append(voters, endpoints[i])
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case len(voters)+len(learners) == 0:
		return nil, nil, nobody(unreachable)
	}
	for _, s := range unreachable {
		a.Warn("%s", s)
	}
	return voters, learners, nil
}

// A waited has the endpoints that have not answered yet.
type waited struct {
	mu    sync.Mutex
	names []string
}

func newWaited(endpoints []string) *waited { return &waited{names: slices.Clone(endpoints)} }

func (w *waited) answered(endpoint string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names = slices.DeleteFunc(w.names, func(n string) bool { return n == endpoint })
}

func (w *waited) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.names) == 0 {
		return ""
	}
	return "no answer yet from etcd at " + strings.Join(w.names, ", ")
}

// waiting reports what is waited for, and how long at most.
func (a *Access) waiting(what func() string) (stop func()) {
	return cli.Waiting(a.cmd.ErrOrStderr(), func() string {
		text := what()
		if text == "" {
			return ""
		}
		return fmt.Sprintf("%s; it is waited for %s at most (--timeout)", text, a.Timeout)
	})
}

// Asked reports that an endpoint, or etcd where that is empty, has not answered what it was asked, until
// answered is called.
func (a *Access) Asked(endpoint string) (answered func()) {
	text := "etcd has not answered what it was asked yet"
	if endpoint != "" {
		text = "no answer yet from etcd at " + endpoint
	}
	return a.waiting(func() string { return text })
}

// probe asks one endpoint about itself.
func probe(ctx context.Context, endpoint string, config *tls.Config) (learner bool, err error) {
	// The client would go on trying until the time is over.
	if err := etcdclient.Probe(ctx, endpoint, config); err != nil {
		return false, err
	}
	c, err := etcdclient.Open(etcdclient.Options{Endpoints: []string{endpoint}, TLS: config})
	if err != nil {
		return false, err
	}
	defer func() { _ = c.Close() }()
	r, err := c.Report(ctx)
	if err == nil {
		return r.Learner, nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return false, fmt.Errorf("%s does not answer", endpoint)
	}
	return false, etcdclient.Explain(ctx, endpoint, config, err)
}

// A UnreachableError says that no endpoint answered, and why.
type UnreachableError struct{ reasons []error }

func nobody(reasons []error) error {
	if len(reasons) == 1 {
		return fmt.Errorf("etcd does not answer: %w", reasons[0])
	}
	return &UnreachableError{reasons}
}

func (e *UnreachableError) Error() string {
	texts := make([]string, len(e.reasons))
	for i, r := range e.reasons {
		texts[i] = r.Error()
	}
	return "none of the endpoints answers: " + strings.Join(texts, "; ")
}

// Unwrap gives the reason of each endpoint.
func (e *UnreachableError) Unwrap() []error { return e.reasons }

// Hint is what to do about the first one.
func (e *UnreachableError) Hint() string {
	var hinted interface{ Hint() string }
	if errors.As(e.reasons[0], &hinted) {
		return hinted.Hint()
	}
	return ""
}
