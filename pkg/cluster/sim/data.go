package sim

import (
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// startTimeout is how long a new version may take to serve, as package apply has it.
const startTimeout = 5 * time.Minute

// universe are the versions that machines have binaries of, where they have several.
var universe = []etcdversion.Version{
	etcdversion.Must("3.4.25"), etcdversion.Must("3.5.21"), etcdversion.Must("3.5.35"), etcdversion.Must("3.6.0"),
	version, etcdversion.Must("3.7.3"),
}

// versioned is what a node has to do with versions.
type versioned struct {
	// has are the versions that there are binaries of, by the names of their directories;
	// real is what those are that are not what they are called.
	has  []etcdversion.Version
	real map[etcdversion.Version]etcdversion.Version
	// bad is the version, by what it really is, that does not come up here.
	bad map[etcdversion.Version]bad
	// etcd is what the process is that was started last, and whether it serves nothing.
	etcd struct {
		of     etcdversion.Version
		stalls bool
	}
	// change, seen and changed are of the state file; restarts is how often the process
	// has died.
	change   *cluster.VersionChange
	seen     *nodestate.SeenVersion
	changed  time.Time
	restarts int
	// checks is how many times the daemon has checked the data since the process was started; blind
	// is the step up to which it cannot read the files.
	checks, blind int
	// refuses is the step up to which no backup can be restored here.
	refuses int
}

// A bad version dies when it starts, or serves nothing, up to a step.
type bad struct {
	to     int
	stalls bool
}

// content is what is in a member's data, besides keys.
type content struct {
	// cluster is the cluster version as the member has applied it last, storage the version
	// of its storage format.
	cluster, storage etcdversion.Version
	downgrade        etcdversion.Version
	// v2content is that of the v2 store; v2log and oldLog are entries in the log that 3.6
	// and 3.7 cannot read; zombies are members that only the database knows. v2deleted says
	// that the log deletes v2content, v2put that it has what becomes that.
	v2content, v2log, oldLog, zombies, v2deleted, v2put bool
}

func minor(v etcdversion.Version) etcdversion.Version {
	return etcdversion.Version{Major: v.Major, Minor: v.Minor}
}

func atLeastMinor(v, least etcdversion.Version) bool {
	return least.IsZero() || v.AtLeast(least.Major, least.Minor)
}

func lower(v etcdversion.Version, than string) bool { return v.Compare(etcdversion.Must(than)) < 0 }

// version is of which version the data is: an older etcd must not run on it.
func (c content) version() etcdversion.Version {
	if c.storage.Compare(c.cluster) > 0 {
		return c.storage
	}
	return c.cluster
}

// snapshot is a raft snapshot: the log begins again.
func (c *content) snapshot() {
	c.v2content = c.v2content && !c.v2deleted || c.v2put
	c.v2log, c.oldLog, c.v2deleted, c.v2put = false, false, false, false
}

// deleteKeys is what an operator does about keys of the v2 store: the log says so, and a
// raft snapshot is to follow.
func (c *content) deleteKeys() {
	c.v2deleted, c.v2put = c.v2content, false
	c.v2log = c.v2log || c.v2content
}

// hazards is what a check of the data finds.
func (c content) hazards() []cluster.Hazard {
	list := cluster.NoHazards()
	there := map[cluster.HazardKind]bool{
		cluster.HazardV2Content: c.v2content, cluster.HazardMembers: c.zombies, cluster.HazardV2Log: c.v2log,
		cluster.HazardOldLog: c.oldLog,
	}
	for i := range list {
		if there[list[i].Kind] {
			list[i].State, list[i].What = cluster.HazardPresent, "it is there"
			list[i].Deleted = list[i].Kind == cluster.HazardV2Content && c.v2deleted
		}
	}
	return list
}

// shown are the versions that the daemon on n reports.
func (n *node) shown() []etcdversion.Version {
	if len(n.real) == 0 {
		return n.has
	}
	return slices.DeleteFunc(slices.Clone(n.has), func(v etcdversion.Version) bool {
		is, _ := n.is(v)
		return is.Minor != v.Minor
	})
}

// reportVersion adds to a report what the member on n says of versions.
func (n *node) reportVersion(r *cluster.Report) {
	r.Version, r.Cluster = n.etcd.of, n.disk.cluster
	if n.etcd.of.AtLeast(3, 6) {
		r.Storage, r.Downgrade = n.disk.storage, n.disk.downgrade
	}
}

// hazards is what the daemon on n reports of its member's data.
func (w *world) hazards(n *node) []cluster.Hazard {
	if n.assigned == nil || !n.disk.data || n.disk.token != n.assigned.Token {
		return nil
	}
	v := n.assigned.Version
	if len(cluster.HazardsBefore(etcdversion.Version{Major: v.Major, Minor: v.Minor + 1})) == 0 {
		return nil
	}
	list, state := n.disk.hazards(), cluster.HazardState("")
	switch {
	case n.checks < 2:
		state = cluster.HazardPending
	case w.step < n.blind && !w.quiet:
		state = cluster.HazardUnknown
	}
	return nobodyCanReport(list, state)
}

func nobodyCanReport(list []cluster.Hazard, state cluster.HazardState) []cluster.Hazard {
	for i := range list {
		if state != "" {
			list[i] = cluster.Hazard{Kind: list[i].Kind, State: state, What: "it is unknown"}
		}
	}
	return list
}

// oldLog is what the daemon on n reports of its member's log: it checks when all members
// run this one's minor version.
func (w *world) oldLog(n *node) cluster.Hazard {
	if n.assigned == nil || minor(n.state().DataVersion()) != minor(n.assigned.Version) ||
		minor(n.assigned.Version) != minor(version) {
		return cluster.Hazard{}
	}
	return cluster.HazardOf(w.hazards(n), cluster.HazardOldLog)
}

// monitor is what etcd's leader does about versions: it ends a downgrade, lowers the
// cluster version for one, or raises it, as soon as it has heard of all members.
func (w *world) monitor(g *group) {
	var low, high etcdversion.Version
	for i := range g.members {
		m := &g.members[i]
		if !w.follows(g, m) {
			return
		}
		v := minor(m.host.etcd.of)
		if low.IsZero() || v.Compare(low) < 0 {
			low = v
		}
		if v.Compare(high) > 0 {
			high = v
		}
	}
	switch {
	case !w.chance(2) || low.IsZero():
	case g.version.IsZero():
		g.version = low
	case !g.downgrade.IsZero() && high == g.downgrade:
		g.downgrade = etcdversion.Version{}
	case !g.downgrade.IsZero():
		g.version = g.downgrade
	case low.Compare(g.version) > 0:
		g.version = low
	}
}

// follow is what m takes over from the leader about versions.
func (w *world) follow(g *group, m *member) {
	n := m.host
	d := &n.disk
	d.cluster, d.downgrade = g.version, g.downgrade
	leader := g.find(g.leader).host
	if !leader.etcd.of.AtLeast(3, 5) {
		d.v2log = true
	}
	if !g.version.AtLeast(3, 6) && !leader.etcd.of.AtLeast(3, 6) {
		d.oldLog = true
	}
	if w.chance(2) {
		d.storage = g.version
	}
	if w.chance(60) {
		d.snapshot()
	}
	if !atLeastMinor(n.etcd.of, g.version) {
		w.violate("older-data", "%s runs %s, and the cluster version is %s", n.name, n.etcd.of, g.version)
	}
	if r := w.report(n); r != nil {
		s := n.state()
		_ = nodestate.Recognize(n.disk.token, *r, nil, 0)(&s) // it refuses nothing
		n.seen = s.Seen
	}
	n.checks++
}

// checkData is asked before etcd starts on n's disk.
func (w *world) checkData(n *node, is etcdversion.Version) {
	if data := n.disk.version(); !atLeastMinor(is, data) {
		w.violate("older-data", "etcd %s is started on %s, whose data is of %s", is, n.name, data)
	}
}

// mayWait reports whether op changes the version of a member that its cluster does not
// do without: of one or two voters, where the spec asks for no more. Clients wait.
func (w *world) mayWait(op plan.Operation) bool {
	c, ok := op.(*plan.MemberChangeVersion)
	if !ok {
		return false
	}
	g := w.group(c.ExpectToken)
	return g != nil && g.voters() <= 2 && g.voters() >= w.spec.MemberCount
}

// checkVersion is asked before m changes to another version.
func (w *world) checkVersion(g *group, m *member, op *plan.MemberChangeVersion) {
	for i := range g.members {
		o := &g.members[i]
		if o.learner && !w.arriving {
			w.violate("version", "%s changes to %s while %s is a learner", m.name, op.To, o.host.name)
		}
		if o.id == m.id || o.host.assigned == nil {
			continue
		}
		v := o.host.assigned.Version
		if d := v.Minor - op.To.Minor; d < -1 || d > 1 {
			w.violate("version", "%s changes to %s while %s runs %s", m.name, op.To, o.name, v)
		}
		c := o.host.changing()
		switch {
		case c == nil:
		case !c.Back:
			w.violate("between", "%s changes to %s while %s is between %s and %s", m.name, op.To, o.name, c.From, c.To)
		case c.To == op.To && c.From == op.ExpectVersion:
			w.violate("risk", "%s changes to %s, with which %s did not come up", m.name, op.To, o.name)
		}
	}
	if g.leader == m.id && g.voters() > 1 {
		w.violate("version", "%s changes to %s while it leads", m.name, op.To)
	}
	if !g.version.IsZero() && g.version.Minor < op.To.Minor-1 {
		w.violate("version", "%s changes to %s while the cluster version is %s", m.name, op.To, g.version)
	}
	if _, ok := w.spec.AcceptsRisk(); !ok && !w.arriving && m.host.disk.zombies && op.To.AtLeast(3, 6) &&
		!op.ExpectVersion.AtLeast(3, 6) {
		w.violate("zombies", "%s changes to %s, and brings removed members back", m.name, op.To)
	}
}
