package apply

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// TestARealMemberIsDrained: it takes no clients and lives, an order that is sent again changes
// nothing, and where nobody removes the member, it is started again and serves.
func TestARealMemberIsDrained(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"3.5.35", "3.6.16", "3.7.3"} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			v := etcdversion.Must(text)
			h := realHost(t, v)
			voters := []cluster.InitialMember{{Name: "a", PeerURLs: h.o.URLs.Peer}}
			h.must(&plan.MemberPrepare{Node: "a", Token: "t1", Version: v, Voters: voters},
				&plan.MemberStart{Node: "a", Token: "t1", Mode: plan.StartNew, Version: v, Peers: voters})
			_, r := h.reports()
			pid := h.pid()
			for _, op := range []plan.MemberDrain{
				{Node: "a", ExpectToken: "t2", ExpectMemberID: r.ID}, {Node: "a", ExpectToken: "t1", ExpectMemberID: r.ID + 1},
			} {
				if err := h.do(&op); !errors.As(err, new(*plan.StaleError)) {
					t.Errorf("%s: %v", plan.Line(&op), err)
				}
			}
			drain := &plan.MemberDrain{Node: "a", ExpectToken: "t1", ExpectMemberID: r.ID}
			h.must(drain, drain)
			if h.pid() != pid || !h.held.holds() {
				t.Errorf("process %d became %d; it is held: %t", pid, h.pid(), h.held.holds())
			}
			if _, report := h.Observe(t.Context()); report != nil {
				t.Error("it still answers clients")
			}
			testwait.Until(t, "a new process", func() bool { now := h.pid(); return now != 0 && now != pid })
			h.reports()
			if h.held.holds() {
				t.Error("the new process is held")
			}
		})
	}
}

// TestAMemberThatIsHeldStopsAtOnce: who stops it does not wait for the hold.
func TestAMemberThatIsHeldStopsAtOnce(t *testing.T) {
	t.Parallel()
	v := etcdversion.Must("3.6.16")
	h := realHost(t, v)
	voters := []cluster.InitialMember{{Name: "a", PeerURLs: h.o.URLs.Peer}}
	h.must(&plan.MemberPrepare{Node: "a", Token: "t1", Version: v, Voters: voters},
		&plan.MemberStart{Node: "a", Token: "t1", Mode: plan.StartNew, Version: v, Peers: voters})
	_, r := h.reports()
	h.must(&plan.MemberDrain{Node: "a", ExpectToken: "t1", ExpectMemberID: r.ID})
	h.must(&plan.MemberStop{Node: "a", ExpectToken: "t1", ExpectMemberID: r.ID})
	if h.pid() != 0 || h.held.holds() {
		t.Errorf("process %d runs; it is held: %t", h.pid(), h.held.holds())
	}
}

// runs has the processes of all members run for a while.
func (st *stage) runs() {
	for i := range st.obs.Members {
		st.obs.Members[i].Version = etcdversion.Must("3.6.16")
		st.obs.Nodes[i].Process = cluster.Process{State: cluster.ProcessRunning, Since: noon.Add(-time.Minute)}
	}
}

// TestAVoterIsDrainedBeforeItIsRemoved: the order comes first, and the lease is confirmed
// once more for the removal, which nothing keeps back that goes wrong with the order.
func TestAVoterIsDrainedBeforeItIsRemoved(t *testing.T) {
	drained := []string{
		"close", "close", "send in term 1: member drain", // a and b are asked whether they serve
		"close", "close", "remove 3", "close",
	}
	for _, tc := range []struct {
		name    string
		change  func(st *stage)
		execute func(ctx context.Context, term cluster.Term) error
		want    []string
		// reported is what is said of an order that failed.
		reported string
		// ended is that the context ends while it is drained.
		ended bool
		// lost is that the lease cannot be confirmed after that.
		lost bool
	}{
		{name: "it is drained", want: drained},
		{name: "its node cannot do it", want: drained, reported: "c: not understood",
			execute: func(context.Context, cluster.Term) error { return errors.New("not understood") }},
		{name: "the command ends meanwhile", ended: true,
			execute: func(context.Context, cluster.Term) error { return context.Canceled }},
		{name: "its etcd has not run for long", want: []string{"close", "close", "remove 3", "close"},
			reported: "c: the etcd of c has run for 5s, and until it has for 10s etcd may refuse removals",
			change:   func(st *stage) { st.obs.Nodes[2].Process.Since = noon.Add(-5 * time.Second) }},
		{name: "its lease is lost meanwhile", lost: true,
			execute: func(context.Context, cluster.Term) error { return errors.New("not understood") }},
		{name: "the last try failed", want: []string{"close", "close", "remove 3", "close"},
			change: func(st *stage) {
				st.obs.Failures = []cluster.Failure{{Line: plan.Line(removeC), Text: "x", Retry: noon.Add(-time.Second)}}
			}},
		{name: "there is no backup of what is on its disk now", want: nil,
			change: func(st *stage) { st.obs.Store.Backups = nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			st := newStage()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.execute != nil {
				st.execute = func(sent context.Context, term cluster.Term) error {
					if tc.ended {
						cancel()
					}
					if tc.lost {
						st.lost = errors.New("lost")
					}
					return tc.execute(sent, term)
				}
			}
			st.runs()
			if tc.change != nil {
				tc.change(st)
			}
			reported := ""
			c := st.coordinator()
			c.Undrained = func(node cluster.NodeName, why error) { reported = fmt.Sprintf("%s: %s", node, why) }
			err := c.Do(ctx, cluster.Spec{}, st.obs, removeC)
			if (err == nil) != (tc.want != nil) {
				t.Fatal(err)
			}
			if reported != tc.reported {
				t.Errorf("it is reported %q, want %q", reported, tc.reported)
			}
			if !tc.ended && !tc.lost {
				st.said(t, tc.want...)
			}
		})
	}
}

// TestNobodyIsDrainedWhoCannotBeRemoved: where the others do not serve now, the removal is
// refused, and the member would be restarted for nothing.
func TestNobodyIsDrainedWhoCannotBeRemoved(t *testing.T) {
	st := newStage()
	st.runs()
	st.late = []string{"http://a:4001", "http://b:4001"}
	if err := st.do(t, removeC); err == nil {
		t.Fatal("a voter was removed whose cluster does not serve")
	}
	st.said(t, "close", "close", "close", "close", "close")
}
