package daemon

import (
	"context"
	"time"
)

const (
	// storeCheckInterval is the time between two checks for changes in the store, so that requests
	// are seen within a second.
	storeCheckInterval = 800 * time.Millisecond
	// storeCheckTimeout bounds a check.
	storeCheckTimeout = 10 * time.Second
	// maxReportAge is for how long after a report a daemon counts as the one that observes: the
	// loop reports each few seconds, and daemons that stand by do not.
	maxReportAge = 10 * time.Second
)

// watchStore wakes the loop when the store has changed, on the daemon that observes, until ctx
// ends. What cannot be checked is seen by the loop's own polls.
func (d *Daemon) watchStore(ctx context.Context) {
	if d.store == nil {
		return
	}
	watcher := d.store.NewWatcher()
	tick := time.NewTicker(storeCheckInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := d.now()
		if now.Sub(time.Unix(0, d.reported.Load())) > maxReportAge {
			select { // a daemon that stands by does not even wake up
			case <-ctx.Done():
				return
			case <-d.reports:
			}
			continue
		}
		check, cancel := context.WithTimeout(ctx, storeCheckTimeout)
		changed, _ := watcher.Changed(check, now)
		cancel()
		if !changed {
			continue
		}
		d.view.Expire()
		d.wake()
	}
}

// observes notes that this daemon has reported an observation now, and wakes watchStore.
func (d *Daemon) observes() {
	d.reported.Store(d.now().UnixNano())
	select {
	case d.reports <- struct{}{}:
	default:
	}
}

// wake ends the loop's pause.
func (d *Daemon) wake() {
	select {
	case d.news <- struct{}{}:
	default:
	}
}
