package fleet

import (
	"context"
	"time"

	"github.com/etcdadm/etcdadm/pkg/daemon/observe"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// said is what the view answered at that time.
type said struct {
	answer observe.StoreAnswer
	spec   *store.SpecFile
	at     time.Time
}

const (
	// saidAge is how old an answer may be for [StoreView.Said].
	saidAge = 2 * time.Second
	// saidTime is how long it waits for a new one: less than an observation waits for a node.
	saidTime = 1500 * time.Millisecond
)

// Said is [StoreView.Answer], with the spec, nil for none, for who waits for no observation
// that waits for the store: what it answered a moment ago will do, and where nothing comes
// in time, so will what it answered last, with an error.
func (v *StoreView) Said(ctx context.Context) (observe.StoreAnswer, *store.SpecFile) {
	last := v.said.Load()
	if last != nil && v.now().Sub(last.at) < saidAge {
		return last.answer, last.spec
	}
	ctx, cancel := context.WithTimeout(ctx, saidTime)
	defer cancel()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		v.Answer(ctx)
	}()
	select {
	case <-answered:
		last = v.said.Load()
	case <-ctx.Done():
		if last == nil {
			return observe.StoreAnswer{Err: errLate}, nil
		}
		last = &said{answer: last.answer, spec: last.spec}
		last.answer.Err = errLate
	}
	return last.answer, last.spec
}
