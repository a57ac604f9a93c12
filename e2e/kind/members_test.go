//go:build e2e

package kind

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"
)

// machineIsReplaced deletes a control plane with its disk, and makes another one of its name.
func (s *managed) machineIsReplaced(t *testing.T, w *Writer) {
	lost := s.machines[2]
	w.during(t, "a machine is replaced", func() {
		lost.replace(t)
		if err := w.api.do(t.Context(), http.MethodDelete, "/api/v1/nodes/"+string(lost), nil, nil); err != nil {
			t.Fatal(err)
		}
		s.equip(t, lost, false)
		lost.join(t, s.machines[0])
		for _, e := range []etcdCluster{mainEtcd, eventsEtcd} {
			s.voters(t, e, oldEtcd)
		}
	})
	w.check(t, 0, 0)
}

// machineRestarts cuts a control plane off from its power, and starts it again.
func (s *managed) machineRestarts(t *testing.T, w *Writer) {
	m := s.machines[1]
	w.during(t, "a machine restarts", func() {
		reboot(t, m)
		for _, e := range []etcdCluster{mainEtcd, eventsEtcd} {
			s.voters(t, e, oldEtcd)
		}
		s.ready(t, m)
	})
}

// machinesRestart cuts all control planes off from their power at once, and starts them again.
func (s *managed) machinesRestart(t *testing.T, w *Writer) {
	w.during(t, "all machines restart", func() {
		reboot(t, s.machines...)
		for _, e := range []etcdCluster{mainEtcd, eventsEtcd} {
			s.voters(t, e, oldEtcd)
		}
		for _, m := range s.machines {
			s.ready(t, m)
		}
	})
	w.check(t, 0, 0)
}

// membersLeaveAndReturn has one member of each cluster of etcd where there were three, and three
// again. The spec changes at once, as "kops update cluster" writes it, and all machines stay: the API
// servers of two have no etcd meanwhile, and are not ready.
func (s *managed) membersLeaveAndReturn(t *testing.T, w *Writer) {
	w.during(t, "two of three members leave", func() {
		for _, e := range []etcdCluster{mainEtcd, eventsEtcd} {
			s.ctl(t, e, "configure-cluster", "--member-count=1")
		}
		for _, e := range []etcdCluster{mainEtcd, eventsEtcd} {
			s.votersOn(t, e, oldEtcd, s.machines[:1])
		}
		for _, m := range s.machines[1:] {
			s.notReady(t, m)
		}
	})
	w.during(t, "one API server has etcd", func() { w.more(t, 100) })
	w.check(t, 0, 0)
	w.during(t, "two members are added to one", func() {
		for _, e := range []etcdCluster{mainEtcd, eventsEtcd} {
			s.ctl(t, e, "configure-cluster", "--member-count=3")
		}
		for _, e := range []etcdCluster{mainEtcd, eventsEtcd} {
			s.voters(t, e, oldEtcd)
		}
		for _, m := range s.machines {
			s.ready(t, m)
		}
	})
	w.check(t, 0, 0)
}

// ready waits for the API server of a machine.
func (s *managed) ready(t *testing.T, m machine) {
	t.Helper()
	await(t, "the API server of "+string(m), 3*time.Minute, m.readyz)
}

// readyz asks the API server of a machine whether it is ready.
func (m machine) readyz(ctx context.Context) error {
	_, err := m.run(ctx, "kubectl --kubeconfig=/etc/kubernetes/admin.conf --server=https://"+string(m)+
		":6443 get --raw=/readyz")
	return err
}

// notReady waits until the API server of a machine says that it is not ready.
func (s *managed) notReady(t *testing.T, m machine) {
	t.Helper()
	await(t, "the API server of "+string(m)+" is not ready", 3*time.Minute, func(ctx context.Context) error {
		if m.readyz(ctx) == nil {
			return errors.New("it is ready")
		}
		return nil
	})
}
