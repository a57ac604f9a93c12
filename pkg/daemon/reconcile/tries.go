package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/internal/backoff"
)

// tries remembers which operations failed, so that one that fails again and
// again is tried at growing distances. One that succeeds again and again counts
// as failing too: its effect does not show, or another operation undoes it, and
// doing it forever helps nobody.
type tries struct {
	failed map[string]failure
	// done are the operations that succeeded a short time ago, by line.
	done map[string]success
	// last is the operation that succeeded last.
	last string
}

type success struct {
	at time.Time
	// row is how often it succeeded with no success of another one in between,
	// all how often with or without.
	row, all int
}

type failure struct {
	count int
	at    time.Time
	err   error
	// transient says that the reason clears by itself.
	transient bool
}

const (
	firstRetryDelay = 250 * time.Millisecond
	maxRetryDelay   = time.Minute
	// maxInARow is how often one operation may succeed in a row before it has to
	// wait like one that fails.
	maxInARow = 3
	// maxInAll is the same where others succeed in between. Writing the hosts
	// file of a node, for example, is due after each change of a growing cluster.
	maxInAll = 10
	// inARowWindow is the time after which doing it again is no longer in a row: a
	// quiet cluster does nothing but one backup every quarter of an hour.
	inARowWindow = 2 * maxRetryDelay
)

// retry returns when the operation may be tried again.
func (f failure) retry() time.Time {
	if f.transient {
		return f.at.Add(firstRetryDelay)
	}
	return f.at.Add(backoff.Doubled(firstRetryDelay, maxRetryDelay, f.count-1))
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
	wait := maxRetryDelay
	for _, f := range t.failed {
		if d := f.retry().Sub(now); d > 0 {
			wait = min(wait, d)
		}
	}
	return wait
}

// note records how a try ended. A success forgets that anything ever failed,
// and lets everything else be tried at once: the world has changed. One that was
// done too often forgets nothing: it alone would keep one that fails, or undoes
// it, from ever having to wait.
func (t *tries) note(line string, err error, transient bool, now time.Time) {
	if err == nil {
		s := t.succeeded(line, now)
		switch {
		case s.row > maxInARow:
			err = fmt.Errorf("it was done %d times in a row, and its effect does not show", s.row)
		case s.all > maxInAll:
			err = fmt.Errorf("it was done %d times in a short time, and its effect does not last", s.all)
		default:
			clear(t.failed)
			return
		}
	}
	if t.failed == nil {
		t.failed = map[string]failure{}
	}
	t.failed[line] = failure{count: t.failed[line].count + 1, at: now, err: err, transient: transient}
}

// succeeded counts a success.
func (t *tries) succeeded(line string, now time.Time) success {
	maps.DeleteFunc(t.done, func(_ string, s success) bool { return now.Sub(s.at) > inARowWindow })
	if t.done == nil {
		t.done = map[string]success{}
	}
	s := t.done[line]
	if t.last != line {
		s.row = 0
	}
	s.at, s.row, s.all = now, s.row+1, s.all+1
	t.done[line], t.last = s, line
	return s
}

func (t *tries) forget() { *t = tries{} }
