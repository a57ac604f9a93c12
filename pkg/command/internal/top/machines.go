package top

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdlog"
)

// A machine is a node with its member; either may be nil.
type machine struct {
	name   string
	node   *cluster.Node
	member *cluster.Member
}

// machinesOf puts the members and the nodes together, by name.
func machinesOf(obs cluster.Observation) (list []machine) {
	nodes := map[cluster.NodeName]int{}
	for i := range obs.Nodes {
		nodes[obs.Nodes[i].Name] = len(list)
		list = append(list, machine{name: string(obs.Nodes[i].Name), node: &obs.Nodes[i]})
	}
	for i := range obs.Members {
		m := &obs.Members[i]
		if at, ok := nodes[m.Name]; ok && list[at].member == nil {
			list[at].member = m
			continue
		}
		name := string(m.Name)
		if name == "" {
			name = "(" + strings.Join(m.PeerURLs, ",") + ")"
		}
		list = append(list, machine{name: name, member: m})
	}
	return list
}

// machineColumns are what is shown of machines. In a window that is too narrow those of
// lessImportant are left out, the last one first.
var (
	machineColumns = []string{
		"MACHINE", "ROLE", "ETCD", "DAEMON", "VERSION", "DB SIZE", "BEHIND", "DISK WRITE", "FREE", "CLOCK", "CERTIFICATES",
	}
	lessImportant = []string{"DAEMON", "DISK WRITE", "DB SIZE", "BEHIND", "FREE", "VERSION", "CERTIFICATES", "CLOCK"}
)

func (p *page) machines(r reconcile.Report, v View, width int) {
	var rows [][]span
	now, old := v.Now, v.status(&r).Stale // nothing of this need be so any more
	for _, m := range machinesOf(r.Observation) {
		rows = append(rows, []span{
			text(m.name), m.role(r.Observation.Leader), m.health(now), m.answers(now), m.version(), m.size(), m.behind(),
			m.write(), m.free(), m.clock(), m.certificate(now),
		})
	}
	heading, rows, out := fit(machineColumns, rows, lessImportant, width)
	for i := range rows {
		for j := range rows[i] {
			if old {
				rows[i][j].style = dim
			}
		}
	}
	p.table(heading, rows)
	if len(out) > 0 {
		p.add(styled(dim, "in a wider window: "+strings.Join(out, ", ")))
	}
}

// ends reports why an etcd ended that does not run, with its last lines, and what data has
// that the next minor version of etcd cannot run with.
func (p *page) ends(obs cluster.Observation) {
	var ended, hazards [][]span
	for _, n := range obs.Nodes {
		if n.Process.State == cluster.ProcessCrashing {
			why := cmp.Or(n.Process.LastExit, "unknown")
			ended = append(ended, []span{styled(red, string(n.Name)), text(why)})
			for _, l := range etcdlog.LastWords(n.Process.LastLines) {
				ended = append(ended, []span{text(""), styled(dim, l)})
			}
		}
	}
	for _, h := range render.Hazards(obs) {
		hazards = append(hazards, []span{
			styled(yellow, string(h.Kind)), text(string(h.On)), text(string(h.State)), text(h.What),
		})
	}
	p.table([]string{"ETCD ENDED ON", "BECAUSE"}, ended)
	p.table([]string{"HAZARD", "ON", "STATE", "BECAUSE"}, hazards)
}

func (m machine) role(leader cluster.MemberID) span {
	switch {
	case m.member == nil:
		return styled(dim, "-")
	case m.member.Learner:
		return text("learner")
	case m.member.ID == leader && leader != 0:
		return styled(bold, "leader")
	}
	return text("voter")
}

func (m machine) health(now time.Time) span {
	switch {
	case m.member == nil && m.node.Process.State == cluster.ProcessCrashing:
		return styled(red, "crashing")
	case m.member == nil:
		return styled(dim, "no member")
	case len(m.member.Alarms) > 0:
		return styled(red, "alarm "+strings.Join(m.member.Alarms, ","))
	case m.member.Healthy && m.member.Condition != "" && m.member.Condition != cluster.Serving:
		return styled(yellow, "healthy, "+string(m.member.Condition))
	case m.member.Healthy:
		return styled(green, "healthy")
	case m.member.UnhealthySince.IsZero():
		return styled(red, "unhealthy")
	}
	return styled(red, "unhealthy for "+age(now.Sub(m.member.UnhealthySince)))
}

func (m machine) answers(now time.Time) span {
	switch {
	case m.node == nil:
		return styled(red, "none")
	case m.node.OtherCluster != "":
		return styled(red, "for "+m.node.OtherCluster)
	case m.node.Reachable:
		return text("answers")
	case m.node.LastSeen.IsZero():
		return styled(red, "never seen")
	}
	return styled(red, "seen "+render.Age(now.Sub(m.node.LastSeen)))
}

// reported reports whether the node reports itself now: what it said last need not be so.
func (m machine) reported() bool { return m.node != nil && m.node.Reachable }

var unknown = styled(dim, "-")

func (m machine) version() span {
	switch {
	case m.member != nil && !m.member.Version.IsZero():
		return text(m.member.Version.String())
	case m.reported() && !m.node.Process.Version.IsZero():
		return text(m.node.Process.Version.String())
	}
	return unknown
}

func (m machine) size() span {
	if m.member == nil || m.member.DBSize <= 0 {
		return unknown
	}
	return text(render.Bytes(m.member.DBSize))
}

// behind is how many entries the member knows to be committed and has not applied.
func (m machine) behind() span {
	switch {
	case m.member == nil || m.member.Committed == 0:
		return unknown
	case m.member.Committed <= m.member.Applied:
		return text("0")
	case m.member.Committed-m.member.Applied > behind:
		return styled(yellow, fmt.Sprint(m.member.Committed-m.member.Applied))
	}
	return text(fmt.Sprint(m.member.Committed - m.member.Applied))
}

// write is how long the disk takes for a write.
func (m machine) write() span {
	if !m.reported() || m.node.Storage == (cluster.Storage{}) {
		return unknown
	}
	s := m.node.Storage
	switch {
	case s.Bad():
		return styled(red, string(s.State))
	case s.Pending >= verySlowWriteLatency:
		return styled(red, "for "+latency(s.Pending))
	case s.Latency >= verySlowWriteLatency:
		return styled(red, latency(s.Latency))
	case s.Latency >= slowWriteLatency || s.State == cluster.StorageSlow:
		return styled(yellow, latency(s.Latency))
	}
	return text(latency(s.Latency))
}

func (m machine) free() span {
	if !m.reported() || m.node.FreeBytes <= 0 {
		return unknown
	}
	return text(render.Bytes(m.node.FreeBytes))
}

// clock is how far the node's clock is off.
func (m machine) clock() span {
	if !m.reported() {
		return unknown
	}
	d := m.node.ClockSkew
	sign := "+"
	if d < 0 {
		sign, d = "-", -d
	}
	s := text(sign + latency(d))
	if d >= maxClockSkew {
		s.style = yellow
	}
	return s
}

func (m machine) certificate(now time.Time) span {
	if !m.reported() || m.node.CertNotAfter.IsZero() {
		return unknown
	}
	left := m.node.CertNotAfter.Sub(now)
	switch {
	case left <= 0:
		return styled(red, "expired")
	case left < expiryWarningTime:
		return styled(yellow, age(left))
	}
	return text(age(left))
}
