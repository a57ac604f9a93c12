package statuspage

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdlog"
	"github.com/etcdadm/etcdadm/pkg/store"
)

const (
	// staleAge is how old an observation may be before it says nothing of the cluster as
	// it is: the page asks every few seconds, and an observation has a deadline.
	staleAge = 20 * time.Second
	// shownOperations and shownBackups bound the time line.
	shownOperations, shownBackups = 40, 20
	// manyEntries is how far a member is behind before that is worth reporting.
	manyEntries = 1000
)

// What a page is made of.
type inputs struct {
	cluster string
	node    cluster.NodeName
	// store is the location of the daemon's store.
	store string
	now   time.Time
	// report is of this daemon, own where it is its loop's.
	report reading[seen]
	// published is what a coordinator published last.
	published reading[reconcile.Report]
	history   reading[store.Past]
}

// Seen is an observation with what follows from it.
type seen struct {
	report      reconcile.Report
	own         bool
	plan        []string
	planProblem string
}

// build makes the page. It is a function of its inputs.
func build(in inputs) Page {
	p := Page{
		Cluster: in.cluster, Node: in.node, Version: cli.BuildVersion(), StaleAge: staleAge.Seconds(),
		Because: []string{}, Machines: []Machine{}, Members: []Member{}, Links: []Link{}, Plan: []string{},
		Holds: []render.Explanation{}, Failures: []string{}, Requests: []string{}, Gaps: []cluster.Gap{}, TimeLine: []Event{},
	}
	if in.report.Err != nil {
		p.Problem = in.report.Err.Error()
	}
	if in.report.At.IsZero() {
		p.Health, p.State, p.Coordinator = render.Unknown, "unknown: nothing has been observed yet", "unknown"
		p.Because = append(p.Because, "this daemon has not observed the cluster yet")
		p.timeLine(nil, in.history, in.now)
		return p
	}
	r := in.report.Value.report
	p.said(&r, in)
	age := in.now.Sub(r.At)
	p.At, p.Age = r.At, since(r.At, in.now)
	status := render.NewStatus(&r, in.now)
	p.Health, p.State, p.Coordinator = status.Health, render.State(r, age), render.Coordinator(r, age)
	p.Because = append(p.Because, status.Because...)
	if age > staleAge {
		p.Health, p.State = render.Unknown, render.StaleState(r, age)
		p.Because = []string{"the observation is STALE, of " + render.Age(age)}
	}
	p.Spec = render.Spec(r.Spec)
	p.doing(r, in)
	p.picture(r, in.now)
	if age > staleAge {
		p.forgetLinks()
	}
	p.Plan = append(p.Plan, in.report.Value.plan...)
	p.PlanProblem = in.report.Value.planProblem
	p.backups(r.Observation.Store, in.now)
	p.timeLine(r.Observation.Store.Backups, in.history, in.now)
	return p
}

// since returns how many seconds ago a time was, nil for the zero time.
func since(at, now time.Time) *float64 {
	if at.IsZero() {
		return nil
	}
	s := now.Sub(at).Seconds()
	return &s
}

// said takes over what the coordinator published, where it is another and still
// coordinates: what it carries out, and what holds it.
func (p *Page) said(r *reconcile.Report, in inputs) {
	if in.report.Value.own {
		return
	}
	said := in.published.Value
	if !in.published.At.IsZero() && said.Coordinator != "" {
		age := in.now.Sub(said.At)
		counts := said.Term == r.Term && said.Coordinator == r.Coordinator && r.Term > 0 && age <= render.StaleAge
		p.Said = &Said{By: said.Coordinator, Age: age.Seconds(), Counts: counts}
		if counts {
			r.Operation, r.Since, r.Holds, r.Converged = said.Operation, said.Since, said.Holds, said.Converged
			r.Observation.BackingUp, r.Observation.Failures = said.Observation.BackingUp, said.Observation.Failures
			return
		}
	}
	if _, paused := r.Observation.Store.Pause(); r.Term == 0 && len(r.Observation.LeaseVoters.Names) > 0 && !paused {
		r.Holds = append([]plan.Hold{{
			Reason: plan.NoCoordinator, Text: "no reachable node knows of a lease that has not expired",
		}}, r.Holds...)
	}
}

func (p *Page) doing(r reconcile.Report, in inputs) {
	p.Operation, p.BackingUp = r.Operation, r.Observation.BackingUp
	if r.Operation != "" && !r.Since.IsZero() {
		p.OperationAge = in.now.Sub(r.Since).Seconds()
	}
	flag := store.Flag(in.store)
	p.Holds = render.AtStore(render.Explain(r.Holds), flag)
	for _, f := range r.Observation.Failures {
		p.Failures = append(p.Failures, f.Line+": "+plan.AtStore(f.Text, flag))
	}
	for _, q := range r.Observation.Store.Requests {
		p.Requests = append(p.Requests, render.Request(q, in.now))
	}
	p.Gaps = append(p.Gaps, r.Observation.Gaps...)
}

func (p *Page) backups(s cluster.Store, now time.Time) {
	verified, drilled := s.Inspected()
	own := s.Own()
	p.Backups = Backups{
		Known: s.BackupsKnown || len(s.Backups) > 0, Count: len(own), Problem: s.BackupsProblem,
		Verified: since(verified, now), Drilled: since(drilled, now),
	}
	if len(own) > 0 {
		p.Backups.Newest = since(own[0].At, now)
	}
	if !s.Reachable {
		p.Backups.Problem = cmp.Or(p.Backups.Problem, "the store does not answer")
	}
}

// timeLine merges what was done with the backups, the newest first.
func (p *Page) timeLine(backups []cluster.Backup, history reading[store.Past], now time.Time) {
	if history.Err != nil {
		p.HistoryProblem = history.Err.Error()
	}
	p.HistoryNote = history.Value.Note
	done := history.Value.Entries
	for _, e := range done[max(0, len(done)-shownOperations):] {
		detail := e.Why
		if e.By != "" {
			detail = strings.TrimPrefix(detail+"; by "+string(e.By), "; ")
		}
		p.TimeLine = append(p.TimeLine, Event{
			At: e.At, Age: now.Sub(e.At).Seconds(), Kind: "operation", Text: e.Line, Detail: detail, Problem: e.Error,
			Took: e.Took.Seconds(),
		})
	}
	for _, b := range backups[:min(len(backups), shownBackups)] {
		e := Event{At: b.At, Age: now.Sub(b.At).Seconds(), Kind: "backup", Text: b.Name, Bytes: b.Size}
		var notes []string
		if b.Encrypted {
			notes = append(notes, "encrypted")
		}
		if !b.Verified.IsZero() {
			notes = append(notes, "verified "+render.Age(now.Sub(b.Verified)))
		}
		if !b.Drilled.IsZero() {
			notes = append(notes, "restored for a trial "+render.Age(now.Sub(b.Drilled)))
		}
		e.Detail = strings.Join(notes, ", ")
		switch {
		case b.Foreign != "":
			e.Problem = "of the cluster " + b.Foreign
		case b.Damaged:
			e.Problem = "damaged"
		case b.Suspect:
			e.Problem = "one machine found it to be damaged"
		}
		p.TimeLine = append(p.TimeLine, e)
	}
	slices.SortStableFunc(p.TimeLine, func(a, b Event) int { return b.At.Compare(a.At) })
}

// picture fills in machines, members and links.
func (p *Page) picture(r reconcile.Report, now time.Time) {
	obs := r.Observation
	names := map[cluster.MemberID]cluster.NodeName{}
	for _, m := range obs.Members {
		names[m.ID] = m.Name
		if m.ID == obs.Leader {
			p.Leader = m.Name
		}
		p.Members = append(p.Members, member(m, obs.Leader))
	}
	for _, n := range obs.Nodes {
		p.Machines = append(p.Machines, machine(n, r, now))
		p.Links = append(p.Links, links(n, obs, names)...)
	}
}

func member(m cluster.Member, leader cluster.MemberID) Member {
	shown := Member{
		ID: m.ID.String(), Name: m.Name, Learner: m.Learner, Leader: m.ID == leader && leader != 0, Healthy: m.Healthy,
		State: string(m.Condition), Why: m.Why, DBSize: m.DBSize, Alarms: m.Alarms,
	}
	if !m.Version.IsZero() {
		shown.Version = m.Version.String()
	}
	if behind := m.Committed - min(m.Committed, m.Applied); behind >= manyEntries {
		shown.Behind = behind
	}
	return shown
}

func machine(n cluster.Node, r reconcile.Report, now time.Time) Machine {
	m := Machine{
		Name: n.Name, Address: n.Address, Answers: n.Reachable, LastSeen: since(n.LastSeen, now),
		Coordinator: n.Name == r.Coordinator && r.Term > 0, Problem: n.Process.Problem, Free: n.FreeBytes,
		Certificate: n.CertNotAfter,
	}
	if n.OtherCluster != "" {
		m.Problem = "it answers for cluster " + n.OtherCluster + " only"
	}
	if n.Conflict != "" {
		m.Problem = "another daemon uses its name at " + n.Conflict
	}
	if !n.CertNotAfter.IsZero() {
		left := n.CertNotAfter.Sub(now).Seconds()
		m.CertificateLeft = &left
	}
	for _, a := range n.SetAside {
		m.Aside += a.Bytes
	}
	if n.Staged != nil {
		m.Restore = n.Staged.Backup + ": " + render.Staged(*n.Staged)
	}
	m.Etcd, m.Data = string(n.Process.State), render.Data(n, r.Observation.Token)
	if a := n.Assigned; a != nil && a.Quarantined {
		m.Etcd += ", closed to clients"
	}
	if n.Process.State == cluster.ProcessCrashing {
		m.Problem = cmp.Or(m.Problem, "etcd ended: "+cmp.Or(n.Process.LastExit, "unknown")+lastLine(n.Process.LastLines))
	}
	if !n.Process.Version.IsZero() {
		m.Version = n.Process.Version.String()
	}
	m.Disk, m.DiskBad, m.Write = n.Storage.String(), n.Storage.Bad(), n.Storage.Latency.Microseconds()
	return m
}

func lastLine(lines []string) string {
	if cause := etcdlog.Cause(lines); cause != "" {
		return ": " + cause
	}
	return ""
}
