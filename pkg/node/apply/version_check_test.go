package apply

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// The check of the data takes as long as the log takes to be read. An order that does
// not count any more by then stops nothing; one whose sender has hung up meanwhile is
// given again, and does not wait for the check from its beginning.
func TestAnOrderThatIsOldAfterTheCheck(t *testing.T) {
	checking, checked := make(chan struct{}), make(chan struct{})
	checks := 0
	h := known(t)
	h.Local.o.examine = func(datadir.Dir) []cluster.Hazard {
		if checks++; checks == 1 {
			close(checking)
			<-checked
		}
		return cluster.NoHazards()
	}
	older := etcdversion.Must("3.5.35")
	h.fake(older, "3.5.35", scripts[writes])
	h.runs(older, etcdversion.Version{})
	pid := h.pid()
	op := change(writes)
	op.ExpectVersion = older
	order := plan.Order{Operation: op}
	overtaken := errors.New("another one coordinates")
	still := func(context.Context) error {
		select {
		case <-checked:
			return overtaken
		default:
			return nil
		}
	}
	hungUp, hangUpGrace := context.WithCancel(t.Context())
	go func() {
		<-checking
		hangUpGrace()
	}()
	if err := h.Do(hungUp, order, still); !errors.Is(err, context.Canceled) {
		t.Errorf("an order whose sender has hung up: %v", err)
	}
	close(checked)
	if err := h.Do(t.Context(), order, still); !errors.Is(err, overtaken) {
		t.Errorf("an order that was overtaken: %v", err)
	}
	if checks != 1 {
		t.Errorf("it has checked it %d times", checks)
	}
	if s := h.disk(); s.Change != nil || s.Assigned.Version != older || h.pid() != pid {
		t.Errorf("it has begun: %+v of %+v", s.Change, s.Assigned)
	}
}

// runs has the host's state name a version, and the cluster version that was seen.
func (h *host) runs(v, seen etcdversion.Version) {
	h.t.Helper()
	if err := h.state.Update(func(s *nodestate.State) error {
		s.Assigned.Version = v
		if !seen.IsZero() {
			s.Seen = &nodestate.SeenVersion{Token: "t1", Version: seen}
		}
		return nil
	}); err != nil {
		h.t.Fatal(err)
	}
}

// A binary that is older than the data is not started, and neither is one of a later
// minor version than the member is to run: directories may be named after any version.
func TestTheWrongBinaryUnderTheRightName(t *testing.T) {
	older := etcdversion.Must("3.5.35")
	for says, c := range map[string]struct{ seen, assigned etcdversion.Version }{
		"3.4.25": {etcdversion.Must("3.6.0"), writes},
		"3.7.3":  {etcdversion.Must("3.5.0"), older},
	} {
		h := known(t)
		h.runs(c.assigned, c.seen)
		h.fake(c.assigned, says, scripts[writes])
		h.close()
		h.start()
		_ = h.Boot(t.Context())
		testwait.Until(h.t, "it says what is wrong", func() bool {
			p := h.observe().Process
			return p.State == cluster.ProcessCrashing && strings.Contains(p.LastExit, "is etcd "+says)
		})
		// What is put right comes up by itself.
		h.fake(c.assigned, c.assigned.String(), scripts[writes])
		testwait.Until(h.t, "it runs", func() bool { return h.observe().Process.State == cluster.ProcessRunning })
	}
}
