package etcdproc

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// TestAStopDoesNotWaitForWhatComesBeforeAStart: others are asked before a start,
// which may take long.
func TestAStopDoesNotWaitForWhatComesBeforeAStart(t *testing.T) {
	s, out := supervise(t, Options{})
	cfg := does("stay")
	began := make(chan struct{})
	cfg.Before = func(ctx context.Context) (Launch, error) {
		close(began)
		select {
		case <-ctx.Done():
			return Launch{}, nil
		case <-time.After(20 * time.Second):
			t.Error("nobody told it to stop")
			return Launch{}, nil
		}
	}
	started := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { started <- s.Start(ctx, cfg) }()
	<-began
	cancel() // the order has ended, the run has not
	if err := <-started; !errors.Is(err, context.Canceled) {
		t.Errorf("start: %v", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if st := s.Status(); out.has("ready") || !strings.Contains(st.LastExit, "it is to stop") {
		t.Errorf("it was started although it was to stop: %+v", st)
	}
}

// TestALaunchThatWaits: whoever starts the process does not wait for what takes long,
// and sees that it is on its way.
func TestALaunchThatWaits(t *testing.T) {
	s, out := supervise(t, Options{Backoff: Backoff{Step: time.Millisecond}})
	cfg := does("environ stay")
	waits, end := make(chan struct{}, 9), make(chan error)
	cfg.Before = func(context.Context) (Launch, error) {
		return Launch{Env: []string{"ETCD_NAME=before"}, Wait: func(ctx context.Context) ([]string, error) {
			waits <- struct{}{}
			select {
			case err := <-end:
				return []string{script + "=print:waited stay"}, err
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}, nil
	}
	start(t, s, cfg)
	<-waits
	if st := s.Status(); st.State != cluster.ProcessRunning || st.PID != 0 {
		t.Errorf("while it waits: %+v", st)
	}
	end <- errors.New("no start today")
	<-waits // it tries again
	if st := s.Status(); st.State != cluster.ProcessCrashing || !strings.Contains(st.LastExit, "no start today") {
		t.Errorf("after a failure: %+v", st)
	}
	end <- nil
	testwait.Until(t, "the process", func() bool { return out.has("waited") && out.has("ready") })
	if st := s.Status(); st.State != cluster.ProcessRunning || st.PID == 0 {
		t.Errorf("at last: %+v", st)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Error(err)
	}
	<-waits
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if st := s.Status(); st.State != cluster.ProcessStopped || st.PID != 0 {
		t.Errorf("stopped while it waited: %+v", st)
	}
}
