package daemon

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// A progress says whether the loop runs: it is called again and again within
// which time it will be called again.
type progress struct {
	mu    sync.Mutex
	until time.Time
}

// within takes in that the loop will be heard of again before d has passed.
func (p *progress) within(now time.Time, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = now.Add(d)
}

// err says that the loop has not been heard of in time, and for more than slack.
func (p *progress) err(now time.Time, slack time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if late := now.Sub(p.until); late > slack {
		return fmt.Errorf("the reconcile loop is stuck: it should have run %s ago", late.Round(time.Second))
	}
	return nil
}

const (
	// stuckLimit is how late the loop may be before the daemon says that it is
	// stuck: the lease is no longer renewed from the first moment on.
	stuckLimit = 10 * time.Second
	// slowWriteLimit is how long a write may take before the node leaves coordinating to
	// others, which costs little: a thousand times what a disk needs, and more than
	// a busy machine takes.
	slowWriteLimit = 4 * time.Second
	// probeTimeout is how long a write may take before a probe fails. To be killed for a
	// disk that is slow ends the etcd that serves on it, and it does not start again
	// before the disk takes writes: that is for one that no longer does.
	probeTimeout = 30 * time.Second
)

// fit says why this node should leave coordinating to others: it can neither
// vote nor obey while its disk takes no writes.
func (d *Daemon) fit() error {
	if waits := d.state.Waiting(d.now()); waits > slowWriteLimit {
		return fmt.Errorf("the disk of %s has not taken a write for %s", d.c.DataDir, waits.Round(time.Second))
	}
	if s := d.node.local.Observer().Storage(); s.Bad() || s.Pending > slowWriteLimit {
		return fmt.Errorf("the disk hangs: %s", s)
	}
	return nil
}

// runs says why the loop does not get on.
func (d *Daemon) runs() error { return d.progress.err(d.now(), 0) }

// alive says why the daemon does not work, for a liveness probe: what goes by
// itself, as a slow disk, does not fail it.
func (d *Daemon) alive() error {
	now := d.now()
	pending := max(d.state.Waiting(now), d.node.local.Observer().Storage().Pending)
	return errors.Join(hungDisk(d.c.DataDir, pending), d.progress.err(now, stuckLimit))
}

// hungDisk reports a write below dir that has been pending for so long that the disk
// may never take it.
func hungDisk(dir string, pending time.Duration) error {
	if pending < probeTimeout {
		return nil
	}
	return fmt.Errorf("the disk of %s has not taken a write for %s", dir, pending.Round(time.Second))
}
