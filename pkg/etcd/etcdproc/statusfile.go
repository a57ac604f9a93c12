package etcdproc

import (
	"slices"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

const (
	keptLines   = 20
	keptLineLen = 1 << 10
	// crashLoop is the number of deaths in a row that make a running process a
	// crashing one.
	crashLoop = 3
)

// A status file holds the status for all to see. Its writer is the goroutine of the
// present run, and lines come from that of its process.
type statusFile struct {
	now     func() time.Time
	changed chan struct{}

	mu sync.Mutex
	st Status
	// tail are the last lines of the present or last process, failed those of
	// the last one that died by itself.
	tail, failed []string
	spawnErr     error
}

func (b *statusFile) init(now func() time.Time) {
	b.now = now
	b.changed = make(chan struct{}, 1)
	b.st = Status{State: cluster.ProcessStopped, Since: now()}
}

func (b *statusFile) status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.st
	st.LastLines = slices.Clone(b.tail)
	if st.State == cluster.ProcessCrashing && b.failed != nil {
		st.LastLines = slices.Clone(b.failed)
	}
	return st
}

// startError returns why the program cannot be started at present.
func (b *statusFile) startError() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spawnErr
}

// update changes the status and notifies the reader.
func (b *statusFile) update(change func(st *Status)) {
	b.mu.Lock()
	change(&b.st)
	b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default: // the reader has yet to see an earlier change
	}
}

// enter sets the state; staying in a state does not begin it again.
func (b *statusFile) enter(st *Status, s cluster.ProcessState) {
	if st.State != s {
		st.State, st.Since = s, b.now()
	}
}

// begin is the start of a run.
func (b *statusFile) begin() {
	b.update(func(st *Status) {
		st.Restarts = 0
		b.failed, b.spawnErr = nil, nil
	})
}

// started is the start of a process after that many deaths in a row. The
// lines of the process before are let go.
func (b *statusFile) started(pid, failures int) {
	b.update(func(st *Status) {
		st.PID = pid
		b.spawnErr = nil
		if failures > 0 {
			st.Restarts++
		}
		if failures >= crashLoop {
			b.enter(st, cluster.ProcessCrashing)
			return
		}
		st.State, st.Since = cluster.ProcessRunning, b.now()
	})
}

// steady says that the process has stayed up long enough.
func (b *statusFile) steady() {
	b.update(func(st *Status) {
		b.failed = nil
		b.enter(st, cluster.ProcessRunning)
	})
}

// died says that the process has ended by itself.
func (b *statusFile) died(how string) {
	b.update(func(st *Status) {
		st.PID, st.LastExit = 0, how
		b.failed = slices.Clone(b.tail)
		b.enter(st, cluster.ProcessCrashing)
	})
}

// spawnFailed says that the program could not be started.
func (b *statusFile) spawnFailed(err error) {
	b.update(func(st *Status) {
		st.LastExit = err.Error()
		b.spawnErr = err
		b.enter(st, cluster.ProcessCrashing)
	})
}

// ended says that the process has ended because it was to.
func (b *statusFile) ended(how string) {
	b.update(func(st *Status) { st.PID, st.LastExit = 0, how })
}

// stopped is the end of a run.
func (b *statusFile) stopped() {
	b.update(func(st *Status) {
		b.spawnErr = nil
		b.enter(st, cluster.ProcessStopped)
	})
}

func (b *statusFile) problem(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.st.Problem = text
}

// line begins the lines of a new process, and returns the function that takes
// them.
func (b *statusFile) line(log func(string)) func(string) {
	b.mu.Lock()
	b.tail = nil
	b.mu.Unlock()
	flood := newFlood(time.Now)
	return func(line string) {
		flood.pass(line, log)
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.tail) == keptLines {
			b.tail = slices.Delete(b.tail, 0, 1)
		}
		b.tail = append(b.tail, line[:min(len(line), keptLineLen)])
	}
}
