package reconcile

import (
	"log/slog"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// events writes the log: what is done, and what is different from the last
// observation. A quiet cluster is quiet.
type events struct {
	log *slog.Logger
	// flag says where the store is, in command lines.
	flag      string
	term      cluster.Term
	doing     string
	holds     []plan.Hold
	gaps      []cluster.Gap
	converged bool
}

func (e *events) note(r Report) {
	if r.Term != e.term && r.Term != 0 {
		e.log.Info("coordinating", "term", r.Term)
	}
	e.term = r.Term
	// What etcd refuses for the moment is tried several times a second, and is
	// one event.
	if r.Operation != "" && r.Operation != e.doing {
		e.log.Info("doing", "operation", r.Operation)
		e.doing = r.Operation
	}
	if d := r.Done; d != nil {
		e.doing = ""
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
		e.log.Info("the cluster is as the spec says", "members", len(r.Observation.Members), "version", r.Spec.EtcdVersion)
	}
	e.converged = r.Converged
}

// noteHolds logs a hold when its reason appears; the text of one that stays may
// count seconds, which is no news.
func (e *events) noteHolds(holds []plan.Hold) {
	// A failed operation has been logged when it failed.
	holds = slices.DeleteFunc(slices.Clone(holds), func(h plan.Hold) bool { return h.Reason == plan.OperationFailed })
	for _, h := range holds {
		if !hasReason(e.holds, h.Reason) {
			e.log.Info("held", "reason", h.Reason, "why", plan.AtStore(h.Text, e.flag))
		}
	}
	for i, h := range e.holds {
		// There may be several holds of one reason; it is over once.
		if !hasReason(holds, h.Reason) && !hasReason(e.holds[:i], h.Reason) {
			e.log.Info("no longer held", "reason", h.Reason)
		}
	}
	e.holds = holds
}

func hasReason(holds []plan.Hold, r plan.Reason) bool {
	return slices.ContainsFunc(holds, func(h plan.Hold) bool { return h.Reason == r })
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

func (e *events) forget() { *e = events{log: e.log, flag: e.flag} }
