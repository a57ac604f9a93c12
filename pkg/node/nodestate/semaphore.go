package nodestate

import (
	"fmt"
	"time"
)

// writeLimit bounds how long one caller waits for the disk. A write takes
// milliseconds; on a busy machine, some hundred.
const writeLimit = 5 * time.Second

// A SlowError says that the disk has not taken a write in time. It may take it
// later.
type SlowError struct{ Waited time.Duration }

func (e *SlowError) Error() string {
	return fmt.Sprintf("the disk has not taken a write for %s", e.Waited)
}

// take waits for the semaphore to write.
func (f *File) take(limit <-chan time.Time) error {
	select {
	case f.semaphore <- struct{}{}:
		return nil
	case <-limit:
		return &SlowError{f.limit}
	}
}

func (f *File) leave() { <-f.semaphore }

func (f *File) writing(since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since = since
}

// Waiting returns for how long the disk has not taken the write that is under
// way, zero for none.
func (f *File) Waiting(now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.since.IsZero() {
		return 0
	}
	return now.Sub(f.since)
}
