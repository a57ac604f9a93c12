package fleet

import (
	"context"
	"time"

	"github.com/etcdadm/etcdadm/pkg/daemon/observe"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// lastAnswer is what the view answered at that time.
type lastAnswer struct {
	answer observe.StoreAnswer
	spec   *store.SpecFile
	at     time.Time
}

const (
	// answerAge is how old an answer may be for [StoreView.LastAnswer].
	answerAge = 2 * time.Second
	// answerTime is how long it waits for a new one: less than an observation waits for a node.
	answerTime = 1500 * time.Millisecond
)

// LastAnswer returns what [StoreView.Answer] does, with the spec, nil for none, in bounded time:
// an answer of a moment ago is good enough, and where no new one comes, the one before is returned
// with an error.
func (v *StoreView) LastAnswer(ctx context.Context) (observe.StoreAnswer, *store.SpecFile) {
	last := v.answered.Load()
	if last != nil && v.now().Sub(last.at) < answerAge {
		return last.answer, last.spec
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.Answer(ctx)
	}()
	select {
	case <-done:
		last = v.answered.Load()
	case <-ctx.Done():
		if last == nil {
			return observe.StoreAnswer{Err: errLate}, nil
		}
		last = &lastAnswer{answer: last.answer, spec: last.spec}
		last.answer.Err = errLate
	}
	return last.answer, last.spec
}
