package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// gap is how far above all that was seen a restore begins.
const gap = 1_000_000_000

// revisions are all that a revision is known from, and what a hold says of one that leaves
// no room above.
var revisions = []struct {
	name   string
	own    bool // it is what members themselves have reported
	report func(o *cluster.Observation, r cluster.Revision)
	hold   string
}{
	{"the members", true, func(o *cluster.Observation, r cluster.Revision) { o.Revision = r },
		"the members report revision %d"},
	{"a node", true, func(o *cluster.Observation, r cluster.Revision) { o.Nodes[2].Revision = r },
		"c has seen revision %d"},
	{"the store's mark", false, func(o *cluster.Observation, r cluster.Revision) { o.Store.Revision = r },
		"control/revision says that clients have seen revision %d"},
	{"the backup", false, func(o *cluster.Observation, r cluster.Revision) {
		o.Store.Source.Revision, o.Store.Source.Seen = r, r
	}, "backup 2026-11-20T11:00:00Z-000001 is described with revision %d"},
	{"the newest backup", false, func(o *cluster.Observation, r cluster.Revision) { o.Store.Source.Seen = r },
		"the newest backup is described with revision %d"},
	{"a record", false, func(o *cluster.Observation, r cluster.Revision) {
		o.Store.Incarnations[0].Restored = &cluster.Restored{Request: "r0", Backup: "b", Revision: r}
	}, "the record of incarnation 1 begins with revision %d"},
}

// restoring is a cluster whose next step is to stage a restore.
func restoring(t *testing.T) *stage {
	t.Helper()
	s := newStage()
	err := s.observe("cluster a b c\nincarnation 1 token=t0 voters=a,b,c age=4h\n" +
		"incarnation 2 token=t1 voters=a,b,c age=3h\ncreated\nbackup age=1h age=5m\nrequest r1 kind=restore backup=1h skip-backup")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestARestoreBeginsAboveEachRevision: Check refuses to begin at a revision that was seen,
// and above the highest at which a cluster may begin, whoever reports it. The rule begins
// above it, or says who leaves no room, and does not propose what Check refuses.
func TestARestoreBeginsAboveEachRevision(t *testing.T) {
	for _, from := range revisions {
		for _, seen := range []cluster.Revision{
			5000, cluster.MaxLeap - gap, cluster.MaxLeap - gap + 1, cluster.MaxBegin - gap, cluster.MaxBegin - gap + 1,
			cluster.MaxMark,
		} {
			s := restoring(t)
			from.report(&s.obs, seen)
			top := cluster.MaxLeap
			if from.own && seen > cluster.MaxLeap/2 {
				top = cluster.MaxBegin
			}
			beginsAbove(t, s, from.name, fmt.Sprintf(from.hold, seen), seen, top)
		}
	}
}

// TestRoomForLaterRestores: what somebody writes into the store leaves room: when a cluster
// has been restored above it, the next restore begins above that one.
func TestRoomForLaterRestores(t *testing.T) {
	s := restoring(t)
	s.obs.Store.Revision = cluster.MaxLeap - gap
	for range 1000 {
		op, holds := plan.Next(s.spec, s.obs)
		o, ok := op.(*plan.RestoreStage)
		if !ok {
			t.Fatalf("above %d: %v %v", s.obs.HighWater(), op, holds)
		}
		s.obs.Nodes[0].Revision, s.obs.Store.Revision = o.Revision, o.Revision+1_000_000
	}
}

// beginsAbove makes sure that a restore begins above what was seen, up to top.
func beginsAbove(t *testing.T, s *stage, name, want string, seen, top cluster.Revision) {
	t.Helper()
	for _, r := range []cluster.Revision{seen - 1, seen, seen + 1, top, top + 1} {
		op, err := plan.Parse(strings.Fields(fmt.Sprintf("restore stage --node=a --request=r1 --backup=b --token=n1 "+
			"--version=3.6.16 --revision=%d %s", r, threeInitialMembers)))
		if err != nil {
			t.Fatal(err)
		}
		err = plan.Check(s.spec, s.obs, op)
		if allowed := r > seen && r <= top; (err == nil) != allowed {
			t.Errorf("%s: %d was seen, to begin at %d: %v", name, seen, r, err)
		}
	}
	next, holds := plan.Next(s.spec, s.obs)
	o, begun := next.(*plan.RestoreStage)
	if seen+gap <= top {
		if !begun || o.Revision != seen+gap || plan.Check(s.spec, s.obs, o) != nil {
			t.Errorf("%s: %d was seen, next is %+v %v", name, seen, next, holds)
		}
		return
	}
	held := slices.ContainsFunc(holds, func(h plan.Hold) bool {
		return h.Reason == plan.RecordInvalid && strings.HasPrefix(h.Text, want)
	})
	if begun || !held {
		t.Errorf("%s: %d was seen, next is %+v, and the holds %v, not %q", name, seen, next, holds, want)
	}
}
