package etcdproc

import (
	"time"

	"github.com/etcdadm/etcdadm/pkg/internal/backoff"
)

// Backoff says how long a process that has died waits for its next start. The
// first time it does not wait at all: etcd that was killed should be back at
// once. Zero values mean the defaults.
type Backoff struct {
	// Step is the wait before the second restart in a row, by default 250 ms.
	// It doubles each time.
	Step time.Duration
	// Max is the longest wait, by default 10 s.
	Max time.Duration
	// Stable is how long a process must stay up for its earlier deaths to be
	// forgotten, by default 10 s.
	Stable time.Duration
}

func (b Backoff) withDefaults() Backoff {
	if b.Step == 0 {
		b.Step = 250 * time.Millisecond
	}
	if b.Max == 0 {
		b.Max = 10 * time.Second
	}
	if b.Stable == 0 {
		b.Stable = 10 * time.Second
	}
	return b
}

// delay returns the wait after that many deaths in a row.
func (b Backoff) delay(failures int) time.Duration {
	if failures <= 1 {
		return 0
	}
	return backoff.Doubled(b.Step, b.Max, failures-2)
}
