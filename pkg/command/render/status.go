package render

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdlog"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A Status is what people and programs are shown of a cluster.
type Status struct {
	// Notes say why the rest may not be what is, and what else a reader should
	// know first.
	Notes []string `json:"notes,omitempty"`
	// Age is how old Report is, in seconds.
	Age float64 `json:"ageSeconds"`
	// Stale says that nothing of Report need be so any more: it is older than [StaleAge], or no
	// daemon answers. Asked are the daemons that were asked whether they are there, nil for none.
	Stale bool   `json:"stale,omitempty"`
	Asked *Asked `json:"asked,omitempty"`
	// Health says how the cluster is, Because why it is not healthy.
	Health  Health   `json:"health"`
	Because []string `json:"because,omitempty"`
	// Upgrade are the etcd versions that all members run one after the other, what they run
	// now first, where the spec asks for another one; Warnings are what to know of that.
	Upgrade  []etcdversion.Version `json:"upgrade,omitempty"`
	Warnings []string              `json:"warnings,omitempty"`
	// Report is what the coordinator published, or an observation of one's own; nil when
	// there is none.
	Report *reconcile.Report `json:"report,omitempty"`
	// Requests are the queued ones in the store now.
	Requests []cluster.Request `json:"requests,omitempty"`
	// Nodes are the names of the nodes' records in the store now.
	Nodes []cluster.NodeName `json:"nodes,omitempty"`
}

// AtStore returns the status with the flag that says where the store is in the command lines of holds.
func (s Status) AtStore(flag string) Status {
	if s.Report == nil {
		return s
	}
	r := *s.Report
	r.Holds = slices.Clone(r.Holds)
	for i, h := range r.Holds {
		r.Holds[i].Text = plan.AtStore(h.Text, flag)
	}
	s.Report = &r
	return s
}

// Write writes the status as tables, with ages as of now.
func (s Status) Write(w io.Writer, now time.Time) error {
	for _, n := range s.Notes {
		if _, err := fmt.Fprintf(w, "note: %s\n", cli.Plain(n)); err != nil {
			return err
		}
	}
	p := page{w: w, now: now}
	if s.Report != nil {
		p.report(s)
	} else {
		p.rows(summaryRequests(s.Requests, now))
	}
	return p.err
}

// A page is a status being written. The first error stays.
type page struct {
	w   io.Writer
	now time.Time
	err error
}

func (p *page) rows(rows [][]string) {
	if p.err == nil && len(rows) > 0 {
		p.err = cli.Rows(p.w, rows...)
	}
}

// section writes a table below an empty line, nothing if there is no row below
// its heading.
func (p *page) section(heading []string, rows [][]string) {
	if len(rows) == 0 || p.err != nil {
		return
	}
	_, p.err = fmt.Fprintln(p.w)
	p.rows(slices.Insert(rows, 0, heading))
}

func (p *page) report(s Status) {
	r := *s.Report
	p.rows(append(p.summary(s), summaryRequests(s.Requests, p.now)...))
	p.section([]string{"MEMBER", "ID", "ROLE", "HEALTH", "DB SIZE", "ALARMS"}, p.members(r.Observation))
	p.section([]string{"NODE", "ADDRESS", "ANSWERS", "ETCD", "VERSION", "DATA", "FREE"}, p.nodes(r.Observation))
	p.section([]string{"CERTIFICATES OF", "STATE"}, p.certificates(r.Observation))
	p.section([]string{"RESTORING", "BACKUP", "STATE"}, staged(r.Observation))
	p.section([]string{"SET ASIDE", "ON", "SINCE", "SIZE"}, p.aside(r.Observation))
	p.section([]string{"HAZARD", "ON", "STATE", "BECAUSE"}, hazards(r.Observation))
	var holds, gaps [][]string
	for _, h := range r.Holds {
		holds = append(holds, []string{string(h.Reason), h.Text})
	}
	for _, g := range r.Observation.Gaps {
		gaps = append(gaps, []string{g.Source, g.Text})
	}
	p.section([]string{"HELD BY", "BECAUSE"}, holds)
	p.section([]string{"NO ANSWER FROM", "BECAUSE"}, gaps)
	for _, n := range r.Observation.Nodes {
		p.lines(n)
	}
}

func (p *page) summary(s Status) [][]string {
	r := *s.Report
	rows := [][]string{
		{"cluster", string(cmp.Or(r.Observation.Cluster, "unnamed"))},
		{"health", strings.Join(append([]string{string(s.Health)}, s.Because...), "; ")},
		{"state", s.State(p.now)},
		{"spec", Spec(r.Spec)},
	}
	rows = append(rows, upgradeRows(s)...)
	rows = append(rows, [][]string{
		{"coordinator", s.Coordinator(p.now)},
		{"seen", stamp(r.At) + ", " + Age(p.now.Sub(r.At))},
		{"last backup", p.backups(r.Observation.Store)},
	}...)
	verified, drilled := r.Observation.Store.Inspected()
	for _, x := range []struct {
		name string
		at   time.Time
	}{{"last verified", verified}, {"last drill", drilled}} {
		if !x.at.IsZero() {
			rows = append(rows, []string{x.name, stamp(x.at) + ", " + Age(p.now.Sub(x.at))})
		}
	}
	for _, b := range r.Observation.Store.Backups {
		if b.Damaged {
			rows = append(rows, []string{"damaged", b.Name})
		}
	}
	if r.Observation.Token != "" {
		rows = append(rows, []string{"incarnation", string(r.Observation.Token)})
	}
	return rows
}

// Spec says in one line what is wanted.
func Spec(s cluster.Spec) string {
	if s.MemberCount == 0 && s.EtcdVersion.IsZero() {
		return "none"
	}
	text := fmt.Sprintf("%d of etcd %s", s.MemberCount, s.EtcdVersion)
	if reason, ok := s.AcceptsRisk(); ok {
		text += ", its risk accepted: " + reason
	}
	return text
}

func (p *page) backups(s cluster.Store) string {
	switch own := s.Own(); {
	case len(own) > 0:
		b := own[0]
		return b.Name + ", " + Age(p.now.Sub(b.At))
	case s.BackupsKnown && !s.BackupsRead.IsZero():
		return "none when the store was last read, " + Age(p.now.Sub(s.BackupsRead))
	case s.BackupsKnown:
		return "none"
	case s.BackupsProblem != "":
		return "unknown: " + s.BackupsProblem
	}
	return "unknown"
}

func summaryRequests(requests []cluster.Request, now time.Time) (rows [][]string) {
	for _, r := range requests {
		rows = append(rows, []string{"request", Request(r, now)})
	}
	return rows
}

// Request says in one line what a request asks for.
func Request(r cluster.Request, now time.Time) string {
	text := string(r.Kind)
	if r.Backup != "" {
		text += " of " + r.Backup
	}
	if r.Sealed {
		text += " of what runs, as etcd " + r.EtcdVersion.String()
	}
	if r.By != "" {
		text += " by " + r.By
	}
	text += ", " + Age(now.Sub(r.At))
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}

func (p *page) members(obs cluster.Observation) (rows [][]string) {
	for _, m := range obs.Members {
		role := "voter"
		switch {
		case m.Learner:
			role = "learner"
		case m.ID == obs.Leader:
			role = "voter, leader"
		}
		health := "healthy"
		if m.Healthy && m.Condition != "" && m.Condition != cluster.Serving {
			health += ", " + string(m.Condition)
		}
		switch {
		case m.Condition == cluster.Unknown:
			health = string(cluster.Unknown)
		case !m.Healthy:
			health = "unhealthy"
			if m.Condition != "" {
				health += ", " + string(m.Condition)
			}
			if !m.UnhealthySince.IsZero() {
				health += " for " + span(p.now.Sub(m.UnhealthySince))
			}
		}
		size := ""
		if m.DBSize > 0 {
			size = Bytes(m.DBSize)
		}
		name := string(m.Name)
		if name == "" {
			name = "(" + strings.Join(m.PeerURLs, ",") + ")"
		}
		rows = append(rows, []string{name, m.ID.String(), role, health, size, strings.Join(m.Alarms, ",")})
	}
	return rows
}

func (p *page) nodes(obs cluster.Observation) (rows [][]string) {
	for _, n := range obs.Nodes {
		answers := "yes"
		process := string(n.Process.State)
		if !n.Reachable {
			answers = "no"
			if since := lastAnswer(obs, n, p.now); since != "" {
				answers += ", " + since
			}
			if n.OtherCluster != "" {
				answers = "for cluster " + n.OtherCluster + " only"
			}
			if process != "" {
				process = "was " + process
			}
		}
		if a := n.Assigned; a != nil && a.Quarantined {
			process += ", closed to clients"
		}
		if !n.Reachable {
			process = "" // what it reported last need not be so any more
		}
		data := Data(n, obs.Token)
		free := ""
		if n.FreeBytes > 0 {
			free = Bytes(n.FreeBytes)
		}
		rows = append(rows, []string{string(n.Name), n.Address, answers, process, n.Process.Version.String(), data, free})
	}
	return rows
}

// Data says what is on a node's disk in a cluster of the incarnation.
func Data(n cluster.Node, token cluster.Token) string {
	switch {
	case n.Disk.State == cluster.DiskUnreadable:
		return string(n.Disk.State) + ": " + n.Disk.Problem
	case n.Disk.State == cluster.DiskData && n.Disk.Token != token:
		return "of incarnation " + string(n.Disk.Token)
	case n.Disk.MemberID != 0:
		return "of " + n.Disk.MemberID.String()
	}
	return string(n.Disk.State)
}

// staged says how far the nodes are with a restore.
func staged(obs cluster.Observation) (rows [][]string) {
	for _, n := range obs.Nodes {
		if s := n.Staged; s != nil {
			rows = append(rows, []string{string(n.Name), s.Backup, Staged(*s)})
		}
	}
	return rows
}

// Staged says how far a node is with a restore.
func Staged(s cluster.Staged) string {
	switch {
	case s.Ready:
		return "ready"
	case s.Problem != "":
		return "failed: " + s.Problem
	case s.Total > 0:
		return fmt.Sprintf("%s of %s fetched", Bytes(s.Done), Bytes(s.Total))
	}
	return "under way"
}

func (p *page) aside(obs cluster.Observation) (rows [][]string) {
	for _, n := range obs.Nodes {
		for _, a := range n.SetAside {
			rows = append(rows, []string{a.Name, string(n.Name), stamp(a.At), Bytes(a.Bytes)})
		}
	}
	return rows
}

// A Hazard is one of a node's data.
type Hazard struct {
	cluster.Hazard

	On cluster.NodeName
}

// Hazards are what the members' data has that the next minor version of etcd does not
// stand, whether one is wanted or not.
func Hazards(obs cluster.Observation) (list []Hazard) {
	for _, n := range obs.Nodes {
		if n.Assigned == nil {
			continue
		}
		for _, h := range cluster.HazardsAhead(n.Hazards, n.Assigned.Version) {
			list = append(list, Hazard{h, n.Name})
		}
	}
	return list
}

func hazards(obs cluster.Observation) (rows [][]string) {
	for _, h := range Hazards(obs) {
		rows = append(rows, []string{string(h.Kind), string(h.On), string(h.State), cli.Plain(h.What)})
	}
	return rows
}

// lines writes why a node's etcd does not run.
func (p *page) lines(n cluster.Node) {
	if p.err != nil || n.Process.State != cluster.ProcessCrashing {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\netcd on %s ended: %s\n", n.Name, cli.Plain(cmp.Or(n.Process.LastExit, "unknown")))
	for _, line := range etcdlog.LastWords(n.Process.LastLines) {
		fmt.Fprintf(&b, "  %s\n", cli.Plain(line))
	}
	_, p.err = io.WriteString(p.w, b.String())
}
