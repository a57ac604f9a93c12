package render

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
)

// StaleAge is the age from which on a report says nothing of the cluster as it
// is: each coordinator publishes every two minutes at least, also during an
// operation.
const StaleAge = 3 * time.Minute

// Health says in one word how a cluster is.
type Health string

// The values of [Health].
const (
	// Healthy: every voter of the spec is there and serves, the daemons of all members answer,
	// and nothing is held.
	Healthy Health = "healthy"
	// Degraded: a majority of the voters serves, and something is wrong.
	Degraded Health = cli.KindDegraded
	// QuorumLost: fewer voters serve than a majority needs.
	QuorumLost Health = cli.KindQuorumLost
	// Unknown: there is no report, or it is stale.
	Unknown Health = cli.KindUnknown
)

// NewStatus returns the status that a report is of, as of now. A nil report is
// one that nobody has published.
func NewStatus(r *reconcile.Report, now time.Time) Status { return NewPublished(r, nil, now) }

// NewPublished is [NewStatus] for a report whose daemons have been asked whether they are
// there; nil for none that was asked.
func NewPublished(r *reconcile.Report, asked *Asked, now time.Time) Status {
	s := Status{Report: r, Asked: asked}
	if r == nil {
		s.Health, s.Because = Unknown, []string{"there is no status"}
		return s
	}
	age := now.Sub(r.At)
	s.Age, s.Stale = age.Seconds(), age > StaleAge || asked.unreachable()
	s.Upgrade, s.Warnings = plan.UpgradePath(r.Spec, r.Observation), warnings(r.Spec, r.Observation)
	switch {
	case !s.Stale:
		s.Health, s.Because = health(r, now)
	case asked.unreachable():
		s.Health, s.Because = Unknown, append([]string{"the status is STALE, " + span(age) + " old, and no daemon answers"},
			asked.reasons()...)
	default:
		s.Health, s.Because = Unknown, []string{"the status is STALE, " + span(age) + " old"}
	}
	return s
}

// Observed returns the report of an observation of one's own, as if a coordinator had
// published it, and the next step, nil for none. The coordinator is who has a lease that
// runs: a term whose lease runs nowhere any more has none, however high it is.
func Observed(spec cluster.Spec, obs cluster.Observation) (reconcile.Report, plan.Operation) {
	op, holds := plan.Next(spec, obs)
	if countVoters(obs).unclear() {
		// The plan takes whom nobody has asked for one that does not serve.
		op, holds = nil, slices.DeleteFunc(holds, isQuorumLost)
	}
	r := reconcile.Report{At: obs.At, Spec: spec, Observation: obs, Holds: holds, Converged: plan.Converged(spec, obs)}
	for _, n := range obs.Nodes {
		if n.Reachable && n.Lease.Running && n.Lease.Term > r.Term {
			r.Term, r.Coordinator = n.Lease.Term, n.Lease.Holder
		}
	}
	return r, op
}

// AddCheck gives a command the flag --check, which has it end with [Status.Check].
func AddCheck(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("check", false,
		"end with 0 only if the cluster is healthy, with 8 if it is degraded, 5 without a quorum, 9 if that is unknown")
}

// Check returns an error that says how the cluster is, nil where it is healthy.
// The kind of the error is its health.
func (s Status) Check() error {
	if s.Health == Healthy {
		return nil
	}
	return &unhealthyError{s.Health, strings.Join(s.Because, "; "), s.Asked.unreachable()}
}

// CheckMembers is [Status.Check] by one observation of the members alone, which does not show
// since when a member is unhealthy; answered says that the list was read through the quorum.
// Because is what else is wrong.
func CheckMembers(answered bool, members []cluster.Member, now time.Time, because ...string) error {
	if !answered {
		return &unhealthyError{health: Unknown, text: "no member can read the member list through the quorum"}
	}
	members = slices.Clone(members)
	for i := range members {
		members[i].UnhealthySince = time.Time{}
	}
	r := reconcile.Report{At: now, Observation: cluster.Observation{Members: members}}
	st := NewStatus(&r, now)
	if st.Health == Healthy && len(because) > 0 {
		st.Health = Degraded
	}
	st.Because = append(st.Because, because...)
	return st.Check()
}

// CheckStale returns an error of the kind of an unknown health where the report is STALE.
func (s Status) CheckStale() error {
	if !s.Stale {
		return nil
	}
	return &unhealthyError{Unknown, strings.Join(s.Because, "; "), s.Asked.unreachable()}
}

type unhealthyError struct {
	health Health
	text   string
	// unreachable says that no daemon answered whoever asked.
	unreachable bool
}

func (e *unhealthyError) Error() string {
	switch e.health {
	case Unknown:
		return "the health of the cluster is unknown: " + e.text
	case QuorumLost:
		return "the cluster has lost its quorum: " + e.text
	}
	return "the cluster is degraded: " + e.text
}

func (e *unhealthyError) Kind() string { return string(e.health) }

// Hint says how to learn more where nothing is known.
func (e *unhealthyError) Hint() string {
	if e.health != Unknown {
		return ""
	}
	if e.unreachable {
		return "check whether etcd-manager runs on each machine; where they cannot be reached from here, --published goes by what " +
			"was published last, as do ETCDADM_PUBLISHED=true and a context with \"published: true\""
	}
	return "check whether etcd-manager runs on each machine, and what it logs; its etcd may serve all the same"
}

// health judges a report that is not stale, and says why the cluster is not healthy.
func health(r *reconcile.Report, now time.Time) (Health, []string) {
	var because []string
	v := countVoters(r.Observation)
	for _, m := range r.Observation.Members {
		because = append(because, problems(m, now)...)
	}
	for _, n := range r.Observation.Nodes {
		if expired(n, now) {
			because = append(because, fmt.Sprintf("a certificate of node %s has expired", n.Name))
		}
	}
	because = append(because, unmanaged(r, now)...)
	if wanted := r.Spec.MemberCount; v.all != wanted && wanted > 0 {
		because = append(because, fmt.Sprintf("%d of %d voters are there", v.all, wanted))
	}
	for _, h := range r.Holds {
		because = append(because, "held: "+string(h.Reason))
	}
	reported := slices.ContainsFunc(r.Holds, isQuorumLost)
	switch {
	case v.unclear() && !v.proven:
		return Unknown, append([]string{v.said()}, because...)
	case v.lost(), reported && !v.unclear():
		return QuorumLost, append([]string{fmt.Sprintf("%d of %d voters serve", v.serving, v.all)}, because...)
	case v.all == 0:
		return Unknown, append(unreachable(r.Observation), because...)
	case len(because) > 0:
		return Degraded, because
	}
	return Healthy, nil
}

// unreachable says who does not answer where no member is known.
func unreachable(obs cluster.Observation) []string {
	text := "no member is known"
	if len(obs.Nodes) > 0 && !slices.ContainsFunc(obs.Nodes, func(n cluster.Node) bool { return n.Reachable }) {
		text = "no daemon answers"
	}
	list := []string{text}
	for _, g := range obs.Gaps {
		list = append(list, g.Source+": "+g.Text)
	}
	return list
}

func isQuorumLost(h plan.Hold) bool { return h.Reason == plan.QuorumLost }

// voters counts the voters of an observation: those that serve, and those that nobody has
// asked. Proven says that etcd's quorum has answered a read.
type voters struct {
	all, serving, unknown int
	proven                bool
}

func countVoters(obs cluster.Observation) (v voters) {
	for _, m := range obs.Members {
		if m.Learner {
			continue
		}
		v.all++
		v.proven = v.proven || m.Served && obs.Leader != 0
		switch {
		case m.Healthy:
			v.serving++
		case m.Condition == cluster.Unknown:
			v.unknown++
		}
	}
	return v
}

// said says how many serve, and how many nobody has asked.
func (v voters) said() string {
	return fmt.Sprintf("%d of %d voters serve, and nobody has asked %d", v.serving, v.all, v.unknown)
}

// unclear reports whether those that nobody has asked decide whether a majority serves.
func (v voters) unclear() bool {
	q := cluster.Quorum(v.all)
	return v.serving < q && v.serving+v.unknown >= q
}

// lost reports whether no majority serves, whatever those do that nobody has asked.
func (v voters) lost() bool { return v.all > 0 && v.serving+v.unknown < cluster.Quorum(v.all) }

// problems says what is wrong with a member.
func problems(m cluster.Member, now time.Time) (list []string) {
	name := "member " + string(m.Name)
	if m.Name == "" {
		name = "member " + m.ID.String()
	}
	grey := m.Condition != "" && m.Condition != cluster.Serving
	switch {
	case m.Condition == cluster.Unknown:
		list = append(list, name+" is unknown: "+m.Why)
	case !m.Healthy && !m.UnhealthySince.IsZero():
		list = append(list, name+" is unhealthy for "+span(now.Sub(m.UnhealthySince)))
	case !m.Healthy && !m.Learner:
		list = append(list, name+" is unhealthy")
	case grey:
		list = append(list, name+" is "+string(m.Condition))
	}
	if len(m.Alarms) > 0 {
		list = append(list, name+" has the alarm "+strings.Join(m.Alarms, ", "))
	}
	return list
}
