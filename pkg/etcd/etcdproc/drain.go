package etcdproc

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

const (
	// drainTimeout is how long clients that stay are waited for. etcd answers most of what it
	// has taken within milliseconds; who watches would stay for as long as it lets them.
	drainTimeout = time.Second
	// drainInterval is how often Drain looks.
	drainInterval = 10 * time.Millisecond
)

// Drain asks etcd to end, and returns when it has closed its client port, and nobody is connected
// there any more, but for keep connections; who watches is not waited for longer than a
// second. etcd goes on as long as these connections stay, for up to 7 s. Then it ends, and is started
// again like one that died, if there was no Stop meanwhile.
//
// An error before that was asked for leaves it alone: there are several client ports, or none.
func (s *Supervisor) Drain(ctx context.Context, keep int) error {
	if err := s.take(ctx); err != nil {
		return fmt.Errorf("drain etcd: %w", err)
	}
	defer s.give()
	if s.run == nil || s.run.stopping {
		return fmt.Errorf("drain etcd: %w", ErrStopped)
	}
	process := s.run.process.Load()
	if process == nil {
		return fmt.Errorf("drain etcd: %w", errNoProcess)
	}
	c := cutter{process: process, clients: s.run.cfg.ClientPorts}
	listeners, _, err := c.count()
	if err == nil && listeners != 1 {
		err = fmt.Errorf("it listens for clients at %d addresses, not at one", listeners)
	}
	if err == nil {
		err = process.Signal(syscall.SIGTERM)
	}
	if err != nil {
		return fmt.Errorf("drain etcd: %w", err)
	}
	var closed time.Time
	for range wait.Every(ctx, drainInterval) {
		listeners, connected, err := c.count()
		switch {
		case err != nil:
			return fmt.Errorf("drain etcd: %w", err)
		case listeners > 0:
			continue
		case closed.IsZero():
			closed = time.Now()
		}
		if connected <= keep || time.Since(closed) >= drainTimeout {
			return nil
		}
	}
	return fmt.Errorf("wait for etcd to close its client port: %w", context.Cause(ctx))
}

// errNoProcess is why nothing can be drained between two starts.
var errNoProcess = errors.New("there is no process")

// count returns how many listeners the process has at the ports of clients, and how many
// connections.
func (c *cutter) count() (listeners, connected int, err error) {
	all, err := c.sockets()
	for _, s := range all {
		if s.state == unix.BPF_TCP_LISTEN {
			listeners++
		} else {
			connected++
		}
	}
	return listeners, connected, err
}
