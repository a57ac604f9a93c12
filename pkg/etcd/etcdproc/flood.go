package etcdproc

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// How many lines of one kind are passed on: etcd 3.6 and 3.7 write some 7,000 a second
// while they try again without a pause to publish a member that has not caught up.
const (
	floodBurst = 200
	floodRate  = 5 // a second
	// What is no line of etcd's log may be the stacks of a panic.
	plainBurst = 2000
	// floodKinds bounds the memory; lines of all other kinds count as one.
	floodKinds = 500
)

// A flood passes lines on until too many of one kind come, then only some, and says
// how many it left out.
type flood struct {
	now   func() time.Time
	kinds map[string]*kind
}

type kind struct {
	limit *rate.Limiter
	// left is how many lines were left out since the last one that was passed on.
	left int
}

func newFlood(now func() time.Time) *flood { return &flood{now: now, kinds: map[string]*kind{}} }

// pass calls emit with the line, or does not. It is called by one goroutine at a time.
func (f *flood) pass(line string, emit func(string)) {
	name := kindOf(line)
	k := f.kinds[name]
	if k == nil && len(f.kinds) >= floodKinds {
		name = ""
		k = f.kinds[name]
	}
	if k == nil {
		burst := floodBurst
		if name == "" {
			burst = plainBurst
		}
		k = &kind{limit: rate.NewLimiter(floodRate, burst)}
		f.kinds[name] = k
	}
	if !k.limit.AllowN(f.now(), 1) {
		k.left++
		return
	}
	if k.left > 0 {
		emit(fmt.Sprintf("etcdadm: %d more lines like the next were omitted", k.left))
		k.left = 0
	}
	emit(line)
}

// kindOf returns where in etcd's source a line of its log comes from, and "" for what is
// no such line.
func kindOf(line string) string {
	_, after, found := strings.Cut(line, `"caller":"`)
	caller, _, ended := strings.Cut(after, `"`)
	if !found || !ended {
		return ""
	}
	return caller
}
