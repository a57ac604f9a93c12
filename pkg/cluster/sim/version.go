package sim

import (
	"fmt"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// What a node does about the version of its member. Its decisions are those of packages
// cluster and nodestate, as package apply takes them; what they are about is this world's.

// state is what n's state file has that concerns versions.
func (n *node) state() nodestate.State {
	return nodestate.State{Assigned: n.assigned, Change: n.change, Seen: n.seen}
}

// changing is a change of version that n has begun, or that has failed.
func (n *node) changing() *cluster.VersionChange { return n.state().Changing() }

// changeVersion has n run its member with another version. From then on n sees to it by
// itself, see [world.settleChange].
func (w *world) changeVersion(n *node, op *plan.MemberChangeVersion, voters int) error {
	s := n.state()
	if c := s.Changing(); c != nil && c.To == op.To && c.Token == op.ExpectToken && (c.Pending() || !c.Back) {
		return nil // an earlier order has begun it
	}
	if n.assigned != nil && n.assigned.Token == op.ExpectToken && n.assigned.Version == op.To {
		return nil
	}
	g := w.group(op.ExpectToken)
	m := g.find(op.ExpectMemberID)
	if !w.config.Trusting {
		if err := w.mayChange(n, op, voters, s, g); err != nil {
			return err
		}
	} else if n.assigned == nil || m == nil {
		return errRefuse
	}
	if m != nil && !m.learner {
		w.checkVersion(g, m, op)
	}
	a := *n.assigned
	a.Version = op.To
	n.change = &cluster.VersionChange{Token: op.ExpectToken, From: n.assigned.Version, To: op.To}
	n.assigned, n.changed, n.restarts = &a, w.now, 0
	n.process = cluster.ProcessStopped
	return nil
}

// mayChange is what n checks before it changes its member's version.
func (w *world) mayChange(n *node, op *plan.MemberChangeVersion, voters int, s nodestate.State, g *group) error {
	switch {
	case n.assigned == nil || n.assigned.Stopped || !n.disk.data:
		return errRefuse
	case n.assigned.Token != op.ExpectToken || n.disk.token != op.ExpectToken || n.disk.id != op.ExpectMemberID:
		return errRefuse
	case n.assigned.Version != op.ExpectVersion:
		return fmt.Errorf("it runs %s: %w", n.assigned.Version, errRefuse)
	}
	if c := s.Changing(); c != nil && !c.Back {
		return fmt.Errorf("the member is between %s and %s: %w", c.From, c.To, errRefuse)
	}
	if why := cluster.TooFar(n.assigned.Version, op.To); why != "" {
		return fmt.Errorf("%s: %w", why, errRefuse)
	}
	if err := s.TooOld(op.To); err != nil {
		return fmt.Errorf("%w: %w", err, errRefuse)
	}
	if is, ok := n.is(op.To); !ok || is.Minor != op.To.Minor {
		return fmt.Errorf("the binary is %s: %w", is, errRefuse)
	}
	seen, lowest := w.reported(n, g)
	now := cluster.VersionGate{Runs: n.assigned.Version, Seen: seen, Lowest: lowest, Ordered: voters}
	if r := w.report(n); r != nil {
		now.Answers, now.Runs, now.Storage, now.Downgrade = true, r.Version, r.Storage, r.Downgrade
		now.Cluster = r.Cluster
		now.Others, now.Serving = w.servingFor(n, g, r.ID)
		now.Leads = r.Leader == r.ID && now.Others > 0
	}
	if why := now.Refusal(n.assigned.Version, op.To); why != "" {
		return fmt.Errorf("%s: %w", why, errRefuse)
	}
	if now.Runs.Minor >= op.To.Minor {
		return nil
	}
	found := n.disk.hazards()
	if w.step < n.blind && !w.quiet {
		found = nobodyCanReport(found, cluster.HazardUnknown)
	}
	if held := cluster.Barred(found, now.Runs, op.To, op.AcceptHazards); len(held) > 0 {
		n.checks = 0 // it checks again
		return fmt.Errorf("%s: %w", held[0], errRefuse)
	}
	return nil
}

// reported is the highest cluster version that n knows of, or the members that it reaches,
// and the oldest version that one of those runs.
func (w *world) reported(n *node, g *group) (seen, lowest etcdversion.Version) {
	seen = n.state().DataVersion()
	for i := range g.members {
		o := g.members[i].host
		if o == n || !w.linked(n, o) || !g.runs(&g.members[i]) {
			continue
		}
		if o.disk.cluster.Compare(seen) > 0 {
			seen = o.disk.cluster
		}
		if lowest.IsZero() || o.etcd.of.Compare(lowest) < 0 {
			lowest = o.etcd.of
		}
	}
	return seen, lowest
}

// servingFor counts the voters of g but the one on n, and those of them that n sees
// serve.
func (w *world) servingFor(n *node, g *group, own cluster.MemberID) (others, serving int) {
	for i := range g.members {
		m := &g.members[i]
		if m.learner || m.id == own {
			continue
		}
		others++
		if !w.linked(n, m.host) {
			continue
		}
		if r := w.report(m.host); r != nil && r.Leader != 0 && r.Leader != own && r.Read == cluster.ReadServed {
			serving++
		}
	}
	return others, serving
}

// boot starts what n's state file says, as n's daemon does, and etcd. What etcd refuses,
// and what it dies of, is what was seen of real ones.
func (w *world) boot(n *node) {
	if !w.config.Versions {
		n.process = cluster.ProcessRunning
		return
	}
	is, ok := n.is(n.assigned.Version)
	n.etcd.stalls = n.bad[is].to > w.step && n.bad[is].stalls
	if n.process == cluster.ProcessRunning && n.etcd.of == is {
		return
	}
	if !ok || !w.config.Trusting && cluster.WrongBinary(is, n.assigned.Version, n.state().DataVersion()) != "" {
		n.process = cluster.ProcessStopped
		return
	}
	if n.etcd.of != is {
		n.restarts = 0
	}
	n.etcd.of, n.checks = is, 0
	w.checkData(n, is)
	if why := w.dies(n, is); why != "" {
		w.logf("     etcd %s on %s dies: %s", is, n.name, why)
		n.process = cluster.ProcessCrashing
		n.restarts++
		return
	}
	n.process, n.disk.joining = cluster.ProcessRunning, false
	if !is.AtLeast(3, 6) && !lower(is, "3.5.32") {
		n.disk.zombies = false // it repairs the list
	}
}

// dies says what etcd dies of when it starts on n's disk, empty where it serves.
func (w *world) dies(n *node, is etcdversion.Version) string {
	d, g := &n.disk, w.group(n.disk.token)
	switch {
	case n.bad[is].to > w.step && !n.bad[is].stalls:
		return "no luck today"
	case d.joining && g != nil && !g.downgrade.IsZero() && g.version.Minor != is.Minor+1:
		return "incompatible with current running cluster"
	case is.AtLeast(3, 5) && !atLeastMinor(is, d.version()):
		return "invalid downgrade"
	case is.AtLeast(3, 6) && d.v2content:
		return "disallowed custom content in v2store"
	case is.AtLeast(3, 6) && d.v2log:
		return "disallowed v2 WAL"
	case is.AtLeast(3, 7) && d.oldLog:
		return "unmarshal should never fail"
	case g != nil && !atLeastMinor(is, g.version) && w.hearsOf(g, n):
		return "incompatible with the cluster version"
	}
	return ""
}

// settleChange has n see the change of its member's version to its end.
func (w *world) settleChange(n *node) {
	c := n.changing()
	if c == nil || n.assigned.Stopped {
		return
	}
	g := w.group(n.disk.token)
	if g == nil {
		return
	}
	m := g.find(n.disk.id)
	now := cluster.Attempt{Process: n.process, Restarts: n.restarts}
	now.Serves = m != nil && n.process == cluster.ProcessRunning && w.follows(g, m) &&
		n.etcd.of.Minor == n.assigned.Version.Minor
	if now.Overdue = !now.Serves && w.now.Sub(n.changed) > startTimeout; now.Overdue && !w.enough(g, n) {
		now.Overdue, n.changed = false, w.now
	}
	switch c.Judge(now) {
	case cluster.VerdictDone:
		n.change = nil
	case cluster.VerdictBack:
		w.revert(n, g, *c)
	}
}

// revert has n go back to the old version, or say that it cannot.
func (w *world) revert(n *node, g *group, c cluster.VersionChange) {
	seen, _ := w.reported(n, g)
	if n.disk.cluster.Compare(seen) > 0 {
		seen = n.disk.cluster
	}
	c.Failed = "etcd has died"
	a := *n.assigned
	found := n.disk.hazards()
	if w.step < n.blind && !w.quiet {
		found = nobodyCanReport(found, cluster.HazardUnknown)
	}
	if c.NoWayBack(seen, found) == "" {
		c.Back, a.Version = true, c.From
		w.logf("     %s goes back to %s", n.name, c.From)
	}
	n.change, n.assigned, n.process = &c, &a, cluster.ProcessStopped
	w.boot(n)
}

// enough reports whether the voters that answer n, and n's own, are a majority.
func (w *world) enough(g *group, n *node) bool {
	count := 1
	for i := range g.members {
		if m := &g.members[i]; m.host != n && !m.learner && g.runs(m) && w.linked(n, m.host) {
			count++
		}
	}
	return count >= cluster.Quorum(g.voters())
}

// othersServe is the coordinator's own check before it orders a change: every other voter
// serves, each by itself, and the member does not lead.
func (w *world) othersServe(by *node, op *plan.MemberChangeVersion) bool {
	g := w.group(op.ExpectToken)
	if g == nil || w.config.Trusting {
		return true
	}
	others, serve, answers, begun := 0, 0, false, false
	for i := range g.members {
		m := &g.members[i]
		switch r := w.reached(by, m.host); {
		case m.id == op.ExpectMemberID:
			answers, begun = r != nil, r != nil && r.Version == op.To
		case !m.learner:
			others++
			if r != nil && r.Leader != 0 && r.Leader != op.ExpectMemberID && r.Read == cluster.ReadServed {
				serve++
			}
		}
	}
	if begun || !answers && others < cluster.Quorum(others+1) {
		return true
	}
	return serve == others
}

func (w *world) reached(by, n *node) *cluster.Report {
	if !w.reaches(by, n) {
		return nil
	}
	return w.report(n)
}

// forceSnapshot has n's member take a raft snapshot.
func (w *world) forceSnapshot(n *node, op *plan.MemberForceSnapshot) error {
	g := w.group(op.ExpectToken)
	if n.assigned == nil || n.disk.token != op.ExpectToken || n.disk.id != op.ExpectMemberID || g == nil {
		return errRefuse
	}
	m := g.find(n.disk.id)
	if m == nil || !w.follows(g, m) {
		return errUnreachable
	}
	for i := range g.members { // on the way the others take theirs
		if o := &g.members[i]; w.follows(g, o) && (o == m || w.chance(2)) {
			o.host.disk.snapshot()
		}
	}
	return nil
}

// downgrade carries out etcd's downgrade API, with its checks.
func (w *world) downgrade(g *group, op plan.Operation) error {
	switch op := op.(type) {
	case *plan.DowngradeEnable:
		v := g.version
		switch {
		case g.downgrade == op.To:
			return nil
		case !g.downgrade.IsZero():
			return fmt.Errorf("cluster has a downgrade job in progress: %w", errRefuse)
		case v.Major != op.To.Major || v.Minor-1 != op.To.Minor || !v.AtLeast(3, 6):
			return fmt.Errorf("invalid downgrade target version: %w", errRefuse)
		}
		g.downgrade = op.To
	case *plan.DowngradeCancel:
		g.downgrade = etcdversion.Version{}
	}
	return nil
}

// endHidden is what the coordinator does before it adds a member: see [cluster.HidesDowngrade].
func (w *world) endHidden(g *group) {
	var runs []etcdversion.Version
	for _, m := range g.members {
		runs = append(runs, m.host.etcd.of)
	}
	if cluster.HidesDowngrade(runs...) {
		g.downgrade = etcdversion.Version{}
	}
}

// is returns what the binary is that n has under the name of a version.
func (n *node) is(v etcdversion.Version) (etcdversion.Version, bool) {
	if !slices.Contains(n.has, v) {
		return etcdversion.Version{}, false
	}
	if real, lies := n.real[v]; lies {
		return real, true
	}
	return v, true
}
