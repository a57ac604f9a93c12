package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// tries remembers which operations failed, so that one that fails again and
// again is tried at growing distances. One that succeeds again and again counts
// as failing too: its effect does not show, and doing it for ever helps nobody.
type tries struct {
	failed map[string]failure
	// last is the operation that succeeded last, at doneAt, and times how often
	// in a row.
	last   string
	doneAt time.Time
	times  int
}

type failure struct {
	count int
	at    time.Time
	err   error
	// transient says that the reason clears by itself.
	transient bool
}

const (
	firstRetry = 250 * time.Millisecond
	lastRetry  = time.Minute
	// maxInARow is how often one operation may succeed in a row before it has to
	// wait like one that fails.
	maxInARow = 3
	// apart is the time after which doing it again is no longer in a row: a
	// quiet cluster does nothing but one backup every quarter of an hour.
	apart = 2 * lastRetry
)

// retry returns when the operation may be tried again.
func (f failure) retry() time.Time {
	if f.transient {
		return f.at.Add(firstRetry)
	}
	return f.at.Add(min(firstRetry<<min(f.count-1, 20), lastRetry))
}

// failures returns what failed, in the form that the plan understands, by
// line.
func (t *tries) failures() []cluster.Failure {
	var list []cluster.Failure
	for line, f := range t.failed {
		list = append(list, cluster.Failure{Line: line, Text: f.err.Error(), Retry: f.retry(), Transient: f.transient})
	}
	slices.SortFunc(list, func(a, b cluster.Failure) int { return strings.Compare(a.Line, b.Line) })
	return list
}

// next returns how long it is until something may be tried again.
func (t *tries) next(now time.Time) time.Duration {
	wait := lastRetry
	for _, f := range t.failed {
		if d := f.retry().Sub(now); d > 0 {
			wait = min(wait, d)
		}
	}
	return wait
}

// note records how a try ended. A success forgets that it ever failed, and
// lets everything else be tried at once: the world has changed.
func (t *tries) note(line string, err error, transient bool, now time.Time) {
	if err == nil {
		if t.last != line || now.Sub(t.doneAt) > apart {
			t.last, t.times = line, 0
		}
		t.doneAt = now
		t.times++
		if t.times <= maxInARow {
			clear(t.failed)
			return
		}
		err = fmt.Errorf("it was done %d times in a row, and its effect does not show", t.times)
	}
	if t.failed == nil {
		t.failed = map[string]failure{}
	}
	t.failed[line] = failure{count: t.failed[line].count + 1, at: now, err: err, transient: transient}
}

func (t *tries) forget() { *t = tries{} }
