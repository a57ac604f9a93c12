package fleet

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/store"
)

// polls shares the polls of one store. One is under way at a time, however long it takes:
// who comes meanwhile waits for it, and nobody starts a second one beside it.
type polls struct {
	ask  func(ctx context.Context) (store.View, error)
	now  func() time.Time
	quit <-chan struct{}

	mu sync.Mutex
	// number is how many have begun, current the newest of them.
	number  int
	current *poll
}

// A poll is one reading of the control objects.
type poll struct {
	*task[store.View]
	number int
	// began and finished are when. The latter is set when the task is over.
	began, finished time.Time
}

// begun returns how many polls have begun. A poll with a higher number begins later.
func (p *polls) begun() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.number
}

// join returns the poll under way, or the last one if accept takes it, and begins one
// otherwise.
func (p *polls) join(ctx context.Context, accept func(last *poll) bool) *poll {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.current; c != nil && (!c.ended() || accept(c)) {
		return c
	}
	p.number++
	c := &poll{number: p.number, began: p.now()}
	c.task = begin(ctx, p.quit, pollTime, func(ctx context.Context) (store.View, error) {
		view, err := p.ask(ctx)
		c.finished = p.now()
		return view, err
	})
	p.current = c
	return c
}

// since returns what a poll says that began at the moment or later. It waits until ctx
// ends.
func (p *polls) since(ctx context.Context, moment time.Time) (store.View, error) {
	late := func(c *poll) bool { return !c.began.Before(moment) }
	for {
		c := p.join(ctx, late)
		if !c.over(ctx) {
			return store.View{}, fmt.Errorf("%w (%w)", errLate, context.Cause(ctx))
		}
		if late(c) {
			return c.value, c.err
		}
	}
}
