//go:build e2e

package kind

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// machineIsReplaced deletes a control plane with its disk, and makes another one of its name. The
// API servers that stay fail no write, but those that the machine's etcd had as the leader.
func (s *managed) machineIsReplaced(t *testing.T, w *Writer) {
	lost := s.machines[2]
	staying := started(t, s.others(lost))
	w.ends(lost)
	failed := w.during(t, "a machine is replaced", func() {
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
	w.ends("")
	serving(t, failed, failure.cutOff, failure.withTheLeader)
	stayed(t, staying)
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
		m.ready(t)
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
			m.ready(t)
		}
	})
	w.check(t, 0, 0)
}

// membersLeaveAndReturn has one member of each cluster of etcd where there were three, and three
// again, by docs/kops.md: the plan says who leaves, and first the API servers of these machines end,
// which have no other member.
func (s *managed) membersLeaveAndReturn(t *testing.T, w *Writer) {
	leave, clusters := s.machines[1:], []etcdCluster{mainEtcd, eventsEtcd}
	w.during(t, "two of three members leave", func() {
		for _, e := range clusters {
			s.ctl(t, e, "pause")
			s.plans(t, e, "# hold paused: ", nil)
			s.ctl(t, e, "configure-cluster", "--member-count=1")
			s.plans(t, e, "etcdadm member remove ", leave)
		}
		for _, m := range leave {
			m.apiOff(t)
		}
		for _, e := range clusters {
			s.ctl(t, e, "resume")
		}
		for _, e := range clusters {
			s.votersOn(t, e, oldEtcd, s.machines[:1])
		}
	})
	w.during(t, "one machine serves", func() { w.more(t, 100) })
	w.check(t, 0, 0)
	failed := w.during(t, "two members are added to one", func() {
		for _, e := range clusters {
			s.ctl(t, e, "configure-cluster", "--member-count=3")
		}
		for _, e := range clusters {
			s.voters(t, e, oldEtcd)
		}
		for _, m := range leave {
			m.apiOn(t)
		}
	})
	serving(t, failed)
	w.check(t, 0, 0)
}

// plans waits until a plan says something, and removes the members of some machines and of no other.
func (s *managed) plans(t *testing.T, e etcdCluster, what string, leave []machine) {
	t.Helper()
	await(t, "the plan of "+e.name+" has "+what, time.Minute, func(context.Context) error {
		plan := s.ctl(t, e, "plan")
		if !strings.Contains(plan, what) {
			return errors.New(plan)
		}
		for _, m := range s.machines {
			if strings.Contains(plan, " --expect-name="+s.member(m)+" ") != slices.Contains(leave, m) {
				return errors.New(plan)
			}
		}
		return nil
	})
}
