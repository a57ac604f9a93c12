package reconcile

import (
	"log/slog"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/plan"
)

// events writes the log: what is done, and what is different from the last
// look. A quiet cluster is quiet.
type events struct {
	log       *slog.Logger
	term      cluster.Term
	holds     []plan.Hold
	gaps      []cluster.Gap
	converged bool
}

func (e *events) note(r Report) {
	if r.Term != e.term && r.Term != 0 {
		e.log.Info("coordinating", "term", r.Term)
	}
	e.term = r.Term
	if r.Operation != "" {
		e.log.Info("doing", "operation", r.Operation)
	}
	if d := r.Done; d != nil {
		if d.Err != nil {
			e.log.Warn("operation failed", "operation", d.Line, "took", d.Took, "error", d.Err)
		} else {
			e.log.Info("done", "operation", d.Line, "took", d.Took)
		}
		return
	}
	e.noteGaps(r.Observation.Gaps)
	e.noteHolds(r.Holds)
	if r.Converged && !e.converged {
		e.log.Info("the cluster is what the spec says", "members", len(r.Observation.Members), "version", r.Spec.EtcdVersion)
	}
	e.converged = r.Converged
}

// noteHolds logs a hold when its rule appears; the text of one that stays may
// count seconds, which is no news.
func (e *events) noteHolds(holds []plan.Hold) {
	// A failed operation has been logged when it failed.
	holds = slices.DeleteFunc(slices.Clone(holds), func(h plan.Hold) bool { return h.Rule == plan.OperationFailed })
	for _, h := range holds {
		if !slices.ContainsFunc(e.holds, func(o plan.Hold) bool { return o.Rule == h.Rule }) {
			e.log.Info("held", "rule", h.Rule, "why", h.Text)
		}
	}
	for _, h := range e.holds {
		if !slices.ContainsFunc(holds, func(o plan.Hold) bool { return o.Rule == h.Rule }) {
			e.log.Info("no longer held", "rule", h.Rule)
		}
	}
	e.holds = holds
}

func (e *events) noteGaps(gaps []cluster.Gap) {
	for _, g := range gaps {
		if !slices.ContainsFunc(e.gaps, func(o cluster.Gap) bool { return o.Source == g.Source }) {
			e.log.Warn("no answer", "source", g.Source, "error", g.Text)
		}
	}
	for _, g := range e.gaps {
		if !slices.ContainsFunc(gaps, func(o cluster.Gap) bool { return o.Source == g.Source }) {
			e.log.Info("answers again", "source", g.Source)
		}
	}
	e.gaps = gaps
}

func (e *events) forget() { *e = events{log: e.log} }
