package daemon

import (
	"context"
	"time"
)

// lockInterval is how often the daemon checks whether its lock file is still there.
const lockInterval = 10 * time.Second

// keepLock takes the lock of the data directory again where somebody has deleted
// its file, until ctx ends.
func (d *Daemon) keepLock(ctx context.Context) {
	tick := time.NewTicker(lockInterval)
	defer tick.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		again, err := d.state.KeepLock()
		if again {
			d.log.Warn("the lock file was deleted and has been made again", "dir", d.c.DataDir)
		}
		switch {
		case err == nil:
			said = ""
		case err.Error() != said:
			said = err.Error()
			d.log.Error("the lock of the data directory is not held", "dir", d.c.DataDir, "error", err)
		}
	}
}
