package daemon

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
)

// A coordinator stands still between its report and the writing of it, and
// goes on when another has published in a later term.
func TestLateReportsYieldToALaterTerm(t *testing.T) {
	for name, tt := range map[string]struct {
		held, there cluster.Term
		by          cluster.NodeName
		age         time.Duration
		want        cluster.NodeName
	}{
		"nobody else published":                   {held: 4, want: "a"},
		"an earlier term":                         {held: 4, there: 3, by: "b", want: "a"},
		"a later term":                            {held: 0, there: 5, by: "b", want: "b"},
		"a later term, long ago":                  {held: 0, there: 5, by: "b", age: time.Hour, want: "b"},
		"a later term, and a clock that is ahead": {held: 0, there: 5, by: "b", age: -time.Hour, want: "b"},
		"a later term, though a machine that was suspended believes in its own": {held: 4, there: 5, by: "b", want: "b"},
		"a later term from before all disks were rolled back": {
			held: 4, there: 5, by: "b", age: time.Hour, want: "a",
		},
		"a term before which the nodes were reset": {held: 4, there: 1 << 61, by: "b", want: "a"},
		"its own name in a later term":             {held: 4, there: 5, by: "a", want: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			publish(t, func(t *testing.T, p *press) {
				if p.held = tt.held; tt.there > 0 {
					b, err := json.Marshal(reconcile.Report{At: time.Now().Add(-tt.age), Coordinator: tt.by, Term: tt.there})
					must(t, err)
					must(t, p.store.PutStatus(t.Context(), b))
				}
				r := report()
				r.Observation.Revision = 1000
				p.note(r)
				p.pass(time.Second)
				if s := p.status(); s.Coordinator != tt.want {
					t.Errorf("the status is %s's of term %d, not %s's", s.Coordinator, s.Term, tt.want)
				}
				v, err := p.store.Poll(t.Context())
				must(t, err)
				if mine := tt.want == "a"; (v.Revision > 0) != mine {
					t.Errorf("the mark is %d", v.Revision)
				}
			})
		})
	}
}

// A daemon that has just started knows of no cluster. What it writes at the same time as
// the coordinator does not stay.
func TestAStatusThatIsWrittenOverIsWrittenAgain(t *testing.T) {
	publish(t, func(t *testing.T, p *press) {
		p.held = 4
		p.note(report())
		p.pass(time.Second)
		b, err := json.Marshal(reconcile.Report{At: time.Now(), Coordinator: "c"})
		must(t, err)
		must(t, p.store.PutStatus(t.Context(), b))
		p.pass(confirmDelay)
		p.note(report())
		p.pass(time.Second)
		if s := p.status(); s.Coordinator != "a" || s.Term != 4 {
			t.Errorf("the status is %s's of term %d", s.Coordinator, s.Term)
		}
	})
}

// A report of a daemon that knows of no coordinator yields to what another has published since
// it was made, and to nothing older. Before there is a cluster, the other has no term either.
func TestAReportWithoutATermYieldsToALaterOne(t *testing.T) {
	for at, want := range map[time.Duration]cluster.NodeName{time.Second: "b", -time.Second: "a", time.Hour: "a"} {
		for _, term := range []cluster.Term{0, 5} {
			publish(t, func(t *testing.T, p *press) {
				r := reconcile.Report{At: time.Now(), Coordinator: "a", Holds: []plan.Hold{{Reason: plan.ClusterLost}}}
				b, err := json.Marshal(reconcile.Report{At: r.At.Add(at), Coordinator: "b", Term: term})
				must(t, err)
				must(t, p.store.PutStatus(t.Context(), b))
				p.note(r)
				p.pass(time.Second)
				if s := p.status(); s.Coordinator != want {
					t.Errorf("a status of term %d, %s later: it is %s's", term, at, s.Coordinator)
				}
			})
		}
	}
}
