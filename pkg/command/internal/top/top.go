// Package top shows a cluster on a terminal, again and again: how it is, its members with
// sizes and latencies, what goes on and what was done. What it shows is a function of what
// was read ([Render]); [Run] reads, and draws.
package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// A Sample is what was read at one time.
type Sample struct {
	Status render.Status
	// History is what was done, the newest last; HistoryProblem says why it is not known, HistoryNote
	// why some is missing.
	History                     []store.HistoryEntry
	HistoryProblem, HistoryNote string
}

// A View is what is shown.
type View struct {
	// Where says what is read, such as the location of a store.
	Where string
	Now   time.Time
	// Sample is the newest one, nil before the first. It was there at At, and took Took.
	Sample *Sample
	At     time.Time
	Took   time.Duration
	// Rate is how many changes per second there were between the last two reports, negative
	// where that is not known.
	Rate float64
	// Problem says why there is no newer sample, Failing since when.
	Problem string
	Failing time.Time
}

// Options say how a page is written.
type Options struct {
	// Width and Height are those of the terminal, zero for no limit.
	Width, Height int
	Colour        bool
}

const (
	// shownHistory bounds what was done, where the terminal does not.
	shownHistory = 10
	// slowWriteLatency and verySlowWriteLatency are latencies of a disk that stand out.
	slowWriteLatency, verySlowWriteLatency = 100 * time.Millisecond, time.Second
	// maxClockSkew is how far a clock is off before that stands out.
	maxClockSkew = time.Second
	// expiryWarningTime is how long before its end a certificate stands out.
	expiryWarningTime = 14 * 24 * time.Hour
	// behind is how many entries a member may still have to apply.
	behind = 1000
)

// Render writes the page of a view.
func Render(v View, o Options) string {
	var p page
	p.add(styled(dim, v.Now.UTC().Format("15:04:05Z")+"  "+v.Where))
	p.trouble(v)
	if v.Sample == nil {
		if v.Problem == "" {
			p.add(text("reading ..."))
		}
		return p.write(o)
	}
	for _, n := range v.Sample.Status.Notes {
		p.add(styled(yellow, "note: "+n))
	}
	r := v.Sample.Status.Report
	if r == nil {
		p.underWay(reconcile.Report{}, v)
	} else {
		p.summary(*r, v)
		p.machines(*r, v, o.Width)
		p.ends(r.Observation)
		p.underWay(*r, v)
		p.held(*r)
	}
	p.history(v, o)
	return p.write(o)
}

// trouble says why what follows is old.
func (p *page) trouble(v View) {
	if v.Problem == "" {
		return
	}
	p.add(styled(red, fmt.Sprintf("no answer for %s: %s", age(v.Now.Sub(v.Failing)), v.Problem)))
	if v.Sample != nil {
		p.add(styled(yellow, "what follows is of "+render.Age(v.Now.Sub(v.At))))
	}
}

func age(d time.Duration) string { return strings.TrimSuffix(render.Age(max(d, time.Second)), " ago") }

var healthStyles = map[render.Health]style{
	render.Healthy: green, render.Degraded: yellow, render.QuorumLost: red, render.Unknown: red,
}

// status is that of the report by the time that is shown, not by that of the sample.
func (v View) status(r *reconcile.Report) render.Status {
	return render.NewPublished(r, v.Sample.Status.Asked, v.Now)
}

func (p *page) summary(r reconcile.Report, v View) {
	obs, since := r.Observation, v.Now.Sub(r.At)
	st := v.status(&r)
	p.add(styled(bold, cmp.Or(obs.Cluster, "unnamed")), text("  "),
		styled(healthStyles[st.Health], strings.ToUpper(string(st.Health))), text("  "), text(strings.Join(st.Because, "; ")))
	state := styled(plain, st.State(v.Now))
	if r.Operation != "" || st.Stale {
		state.style = cyan
	}
	p.add(state)
	facts := []string{render.Spec(r.Spec), "leader " + leader(obs), "coordinator " + st.Coordinator(v.Now)}
	if obs.Revision > 0 {
		facts = append(facts, fmt.Sprintf("revision %d", obs.Revision))
	}
	if v.Rate >= 0 {
		facts = append(facts, fmt.Sprintf("%.1f changes/s", v.Rate))
	}
	p.add(text(strings.Join(facts, ", ")))
	backup := "no backup"
	switch {
	case len(obs.Store.Own()) > 0:
	case obs.Store.BackupsProblem != "":
		backup = "backups unknown: " + obs.Store.BackupsProblem
	case !obs.Store.BackupsKnown:
		backup = "backups unknown"
	}
	if list := obs.Store.Own(); len(list) > 0 {
		backup = fmt.Sprintf("last backup %s (%s)", render.Age(v.Now.Sub(list[0].At)), render.Bytes(list[0].Size))
	}
	p.add(text(fmt.Sprintf("seen %s, %s, read in %s", render.Age(since), backup, latency(v.Took))))
	for _, b := range obs.Store.Backups {
		if b.Damaged {
			p.add(styled(red, "damaged backup "+b.Name))
		}
	}
}

func leader(obs cluster.Observation) string {
	for _, m := range obs.Members {
		if m.ID == obs.Leader && obs.Leader != 0 {
			return cmp.Or(string(m.Name), m.ID.String())
		}
	}
	return "none"
}

// latency writes a short time with three digits at most.
func latency(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d >= time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%dms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1fms", float64(d.Microseconds())/1000)
}

// underWay is what goes on, and what is asked for.
func (p *page) underWay(r reconcile.Report, v View) {
	var rows [][]span
	add := func(st style, what, text string) { rows = append(rows, []span{styled(st, what), styled(plain, text)}) }
	if b := r.Observation.BackingUp; b != "" {
		add(cyan, "backup", b)
	}
	for _, n := range r.Observation.Nodes {
		if n.Staged != nil {
			add(cyan, "restore", fmt.Sprintf("%s on %s: %s", n.Staged.Backup, n.Name, render.Staged(*n.Staged)))
		}
		if c := n.Change; c != nil {
			add(cyan, "version", fmt.Sprintf("%s goes to %s", n.Name, c.To))
		}
	}
	for _, q := range v.Sample.Status.Requests {
		add(cyan, "request", render.Request(q, v.Now))
	}
	for _, f := range r.Observation.Failures {
		add(red, "failed", f.Line+": "+f.Text)
	}
	p.table([]string{"UNDER WAY", ""}, rows)
}

func (p *page) held(r reconcile.Report) {
	var holds, gaps [][]span
	for _, h := range r.Holds {
		holds = append(holds, []span{styled(yellow, string(h.Reason)), text(h.Text)})
	}
	for _, g := range r.Observation.Gaps {
		gaps = append(gaps, []span{styled(red, g.Source), text(g.Text)})
	}
	p.table([]string{"HELD BY", "BECAUSE"}, holds)
	p.table([]string{"NO ANSWER FROM", "BECAUSE"}, gaps)
}

// history is what was done last, the newest first, as far as the terminal has room.
func (p *page) history(v View, o Options) {
	if v.Sample.HistoryProblem != "" {
		p.add()
		p.add(styled(red, "the history cannot be read: "+v.Sample.HistoryProblem))
	}
	if v.Sample.HistoryNote != "" {
		p.add()
		p.add(styled(yellow, v.Sample.HistoryNote))
	}
	room := shownHistory
	if o.Height > 0 {
		room = o.Height - len(p.lines) - 2
	}
	var rows [][]span
	for _, e := range slices.Backward(v.Sample.History) {
		if len(rows) >= room {
			break
		}
		result, took := styled(green, "done"), latency(e.Took)
		if e.Requested {
			result, took = text("asked"), "-"
		}
		if e.Error != "" {
			result = styled(red, "failed: "+e.Error)
		}
		rows = append(rows, []span{
			styled(dim, render.Age(v.Now.Sub(e.At))), text(took), text(cmp.Or(string(e.By), "-")), result,
			text(e.Line),
		})
	}
	p.table([]string{"DONE", "TOOK", "BY", "RESULT", "OPERATION"}, rows)
}
