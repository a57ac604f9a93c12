package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// self returns this machine's member: the one whose data is on the disk, or
// the one with its peer URLs.
func (p *planner) self() (cluster.Member, bool) {
	d, r := p.obs.Data, p.obs.Remote
	if d.State == cluster.DiskData && d.ClusterID == r.ClusterID {
		if m, ok := r.member(d.MemberID); ok {
			return m, true
		}
	}
	if p.obs.Local != nil {
		if m, ok := r.member(p.obs.Local.ID); ok {
			return m, true
		}
	}
	return p.addressed()
}

// addressed returns the member that the list has at this machine's peer URLs.
func (p *planner) addressed() (cluster.Member, bool) {
	mine := URLs(p.cfg).Peer
	if p.goal.Action == Reset && p.obs.Written["ETCD_INITIAL_ADVERTISE_PEER_URLS"] != "" {
		mine = strings.Split(p.obs.Written["ETCD_INITIAL_ADVERTISE_PEER_URLS"], ",")
	}
	for _, m := range p.obs.Remote.Members {
		if slices.ContainsFunc(m.PeerURLs, func(u string) bool { return slices.Contains(mine, u) }) {
			return m, true
		}
	}
	return cluster.Member{}, false
}

func (p *planner) unreachable() *Hold {
	problem := p.obs.Remote.Problem
	if problem == "" {
		problem = "no member answers"
	}
	if p.obs.Remote.Differ {
		return hold(EndpointsDiffer, "name endpoints of one cluster", "%s", problem)
	}
	if p.obs.PKI.CA == CAAbsent && p.goal.Action == Join {
		_, why := p.certificates() // nobody can be asked, and none will come by waiting
		return why
	}
	if p.obs.Remote.Untrusted {
		return p.untrusted()
	}
	h := hold(ClusterUnreachable, "check the endpoints, ca.crt and the clocks; a learner cannot answer for its cluster",
		"the cluster does not answer: %s", problem)
	h.Wait, h.Others = true, true
	return h
}

// untrusted is the hold of a machine and endpoints that do not accept each other. They will
// not begin to, unless it is for a clock: nobody else is waited for.
func (p *planner) untrusted() *Hold {
	next := "name client URLs of the cluster by names that their certificates are for, or put its ca.crt and ca.key into " +
		p.cfg.Paths.Certificates
	if p.obs.Remote.Clock {
		next += ", or set the clocks"
	}
	h := hold(ClusterUnreachable, next+"; then run the command again",
		"this machine and the endpoints do not accept each other: %s", p.obs.Remote.Problem)
	h.Wait = p.obs.Remote.Clock
	return h
}

// foreign returns why the data on the disk is not that of a current member, ""
// if it is.
func (p *planner) foreign() string {
	d, r := p.obs.Data, p.obs.Remote
	if d.State != cluster.DiskData {
		return ""
	}
	switch _, current := r.member(d.MemberID); {
	case d.ClusterID != r.ClusterID:
		return fmt.Sprintf("%s holds data of cluster %s, but the endpoints belong to cluster %s", p.cfg.Paths.Data, d.ClusterID,
			r.ClusterID)
	case !current:
		return fmt.Sprintf("%s holds data of %s, which was removed from the cluster", p.cfg.Paths.Data, ofMember(d.MemberID))
	}
	return ""
}

// stop ends an etcd that is in the way. As a phase by itself it ends any; as a
// part of join only one whose data has to be moved.
func (p *planner) stop() (Operation, *Hold) {
	if p.goal.Phase == "stop" {
		return p.stopService()
	}
	if p.obs.Remote.Answered && p.foreign() != "" && p.goal.SetAsideData {
		return p.stopService()
	}
	return nil, nil
}

func (p *planner) stopService() (Operation, *Hold) {
	if p.obs.Service.Active() || p.obs.Service.Enabled {
		return &StopService{}, nil
	}
	return nil, nil
}

// refused is what the phase membership would refuse, reported before the ones that come before
// it issue certificates and install etcd: a version or a name that cannot be.
func (p *planner) refused() *Hold {
	if !p.obs.Remote.Answered || p.obs.VersionOpen || slices.Contains(p.goal.Skip, "membership") {
		return nil
	}
	if _, why := p.membership(); why != nil && !why.Wait && !why.Momentary {
		return why
	}
	return nil
}

// membership makes the cluster's list have this machine's member, as a
// learner that has not started or with its own data on the disk.
func (p *planner) membership() (Operation, *Hold) {
	if !p.obs.Remote.Answered {
		if p.comesBack() {
			return nil, nil
		}
		return nil, p.unreachable()
	}
	if why := p.untouched(); why != nil {
		return nil, why
	}
	if op, why := p.dropNeverCommitted(); op != nil || why != nil {
		return op, why
	}
	if why := p.foreign(); why != "" {
		if !p.goal.SetAsideData {
			return nil, hold(DataForeign,
				"if it is no longer needed: the same command with --set-aside-data, which moves it aside", "%s", why)
		}
		if p.obs.Service.Active() {
			return &StopService{}, nil
		}
		if why := p.running(); why != nil {
			return nil, why
		}
		return &SetDataAside{Path: p.cfg.Paths.Data, MemberID: p.obs.Data.MemberID}, nil
	}
	if p.obs.Data.State == cluster.DiskData {
		return nil, p.mayRun()
	}
	m, ok := p.addressed()
	if ok && started(m) {
		return p.replaceLost(m)
	}
	if ok {
		return nil, p.mayRun()
	}
	return p.add()
}

// before returns the lowest version that the data on the disk, or the cluster
// to join, has been run with; zero where nobody knows. What is installed and older than
// the data has not run it.
func (p *planner) before() etcdversion.Version {
	low, is := p.obs.Remote.Lowest, p.obs.Data.Version
	if installed := p.obs.Binaries.Etcd; p.obs.Data.State == cluster.DiskData && !installed.IsZero() &&
		installed.AtLeast(is.Major, is.Minor) && (low.IsZero() || installed.Compare(low) < 0) {
		low = installed
	}
	return low
}

// comesBack says whether this machine's member has only to be started again: its
// data is there, and so is what it was started from. Where all machines went
// down, none of them answers before that is done. Nor does a cluster of two whose second
// member was killed between its vote and the record that it has data: a join that is
// recorded had no data before, so that what is there is that member's.
func (p *planner) comesBack() bool {
	r := p.obs.Record
	runs := r.Served || r.Action == Join && !p.obs.Data.Uncommitted
	return p.goal.Phase == "" && p.obs.Data.State == cluster.DiskData && runs && !r.Undoing &&
		p.obs.Written["ETCD_INITIAL_CLUSTER"] != "" && p.untouched() == nil
}

// mayRun holds a member of a version that its data or its cluster cannot take.
// etcd goes up one minor version at a time, and down only where it has prepared the
// member's data for that. (3.0 to 3.4 would even take newer data silently, and write
// to it.)
func (p *planner) mayRun() *Hold {
	want, low := p.cfg.Version.Release(), p.before()
	if data := p.obs.Local; data != nil && !want.AtLeast(data.DataVersion().Major, data.DataVersion().Minor) {
		return p.older(want, runsAs(data))
	}
	if !low.IsZero() && !want.AtLeast(low.Major, low.Minor) {
		if p.prepared(want) {
			return nil
		}
		return p.older(want, low)
	}
	if why := p.fits(want); why != nil {
		return why
	}
	switch is := p.obs.Data.Version; {
	case low.IsZero() && is.Major == want.Major && is.Minor == want.Minor:
		return nil
	case low.IsZero():
		return p.stepsUp(want, low)
	case want.Major != low.Major || want.Minor > low.Minor+1:
		return hold(VersionStep, "upgrade one minor version at a time, with --version",
			"etcd %s cannot follow the cluster's %s", want, low)
	case want.Minor > low.Minor:
		return p.stepsUp(want, low)
	}
	return nil
}

// runsAs is the version that a member runs, where its data is of that minor version: the
// data has no patch. Otherwise it is that of the data.
func runsAs(r *cluster.Report) etcdversion.Version {
	if d := r.DataVersion(); d.Major != r.Version.Major || d.Minor != r.Version.Minor {
		return d
	}
	return r.Version
}

// prepared reports whether etcd has made this member's data that of an earlier minor
// version, and keeps it so.
func (p *planner) prepared(want etcdversion.Version) bool {
	r := p.obs.Local
	if r == nil {
		return false
	}
	for _, v := range []etcdversion.Version{r.Downgrade, r.Cluster, r.Storage} {
		if v.Major != want.Major || v.Minor != want.Minor {
			return false
		}
	}
	return true
}

// older holds a version that is older than the data, and says how etcd is made to
// prepare it, where it can.
func (p *planner) older(want, runs etcdversion.Version) *Hold {
	next := "--version=" + runs.String()
	if r := p.obs.Local; r != nil && r.Version.Minor-1 == want.Minor && want.AtLeast(3, 5) {
		next = fmt.Sprintf("to downgrade, run once for the cluster: %s downgrade enable %d.%d; some seconds later run the same command "+
			"again, on one machine after the other", p.cfg.Paths.ControlScript(), want.Major, want.Minor)
	}
	h := hold(VersionStep, next, "etcd %s is older than the cluster's %s", want, runs)
	// etcd has been given, and makes the data that of the earlier version within seconds.
	h.Wait = p.obs.Local != nil && p.obs.Local.Downgrade.AtLeast(3, 5) && p.obs.Local.Downgrade.Major == want.Major &&
		p.obs.Local.Downgrade.Minor == want.Minor
	return h
}

// lost holds what would start a member again without its data.
func (p *planner) lost(m cluster.Member) *Hold {
	return hold(DataLost, "check whether a volume is missing; if the data is gone: the same command with "+
		"--replace-member, which removes the member and adds it again",
		"member %s has run on this machine, but %s is empty", named(m), p.cfg.Paths.Data)
}

func (p *planner) replaceLost(m cluster.Member) (Operation, *Hold) {
	if !p.goal.ReplaceMember {
		return nil, p.lost(m)
	}
	if m.Healthy {
		return nil, hold(MemberHealthy, "find out which machine has this address: "+strings.Join(m.PeerURLs, ","),
			"member %s, which has this machine's peer URL, is healthy", named(m))
	}
	return p.change(p.remove(m))
}

func (p *planner) remove(m cluster.Member) plan.Operation {
	voters, _ := p.obs.Remote.voters()
	return &plan.Remove{ID: m.ID, ExpectName: m.Name, ExpectVoters: voters}
}

// add adds the member as a learner. etcd allows one at a time, so two machines
// that join at once take turns.
func (p *planner) add() (Operation, *Hold) {
	if why := p.mayRun(); why != nil {
		return nil, why
	}
	if why := p.nameTaken(); why != nil {
		return nil, why
	}
	for _, m := range p.obs.Remote.Members {
		if m.Learner {
			return p.afterLearner(m)
		}
	}
	if to := p.obs.Remote.Downgrade; !to.IsZero() {
		h := hold(NotYet, p.cfg.Paths.ControlScript()+" downgrade cancel, on a machine of the cluster, to enable it again "+
			"afterwards; or finish it first: etcdadm upgrade plan",
			"a downgrade to etcd %d.%d is enabled, and etcd takes no new member meanwhile", to.Major, to.Minor)
		h.Wait, h.Others = true, true
		return nil, h
	}
	voters, _ := p.obs.Remote.voters()
	return p.change(&plan.AddLearner{Node: p.cfg.Name, PeerURLs: URLs(p.cfg).Peer, ExpectVoters: voters})
}

// promotionGrace is how long a learner that serves may take to get its vote from the machine
// that it is of.
const promotionGrace = 10 * time.Second

// afterLearner waits for the learner of another machine. If that machine does not end
// what it has begun, this one does: it promotes a learner that has caught up, and takes
// out one that never will: at whose addresses nobody listens, from which the leader has no
// message, or which takes no snapshot, for as long as an orphan may be waited for. A learner has no vote, so that
// the quorum does not depend on it.
func (p *planner) afterLearner(m cluster.Member) (Operation, *Hold) {
	voters, _ := p.obs.Remote.voters()
	seen := p.obs.Remote.Learner
	var op Operation
	switch {
	case seen.ID != m.ID:
	case seen.Ready >= promotionGrace && m.Healthy && m.Name != "" && !p.leads(m):
		op, _ = p.change(&plan.Promote{Name: m.Name, ExpectVoters: voters})
	case max(seen.Absent, seen.Unheard, seen.Refused) >= time.Duration(p.cfg.Timeouts.Orphan) && !m.Healthy:
		op, _ = p.change(&plan.Remove{ID: m.ID, ExpectName: m.Name, ExpectVoters: voters})
	}
	if op != nil {
		return op, nil
	}
	h := p.pending(m)
	h.Wait, h.Others = true, true
	return nil, h
}

// leads says that a learner is of a later minor version than a voter. Its own join looks
// into the copy of the data before it has it vote.
func (p *planner) leads(m cluster.Member) bool {
	low := p.obs.Remote.Lowest
	return !m.Version.IsZero() && !low.IsZero() && !low.AtLeast(m.Version.Major, m.Version.Minor)
}

// stuckGrace is how long a learner may run without serving before those that wait for it
// say what a person can do. A large copy takes longer, and is not stuck.
const stuckGrace = time.Minute

// pending is the hold of a learner that another machine has in the cluster. One that
// runs, and that the leader hears from, is neither promoted nor taken out: it may be copying.
func (p *planner) pending(m cluster.Member) *Hold {
	seen := p.obs.Remote.Learner
	if p.leads(m) {
		return hold(LearnerPending, "see whether its own join still runs",
			"another member is joining: %s, which runs etcd %s and can only be promoted by its own join; if that has ended, "+
				"run it again on its machine: etcdadm join %s; or remove the member, on a voter's machine: etcdadm remove %s",
			named(m), m.Version, p.voterURL(), m.ID)
	}
	if seen.ID != m.ID || seen.Behind < stuckGrace {
		return hold(LearnerPending, "if it does not come up: etcdadm remove "+m.ID.String()+", or wait for --orphan-timeout",
			"another member is joining: %s", named(m))
	}
	does, took, next := "has not caught up", seen.Behind, "it is copying the data, or cannot reach the voters"
	switch removed := "it is removed after --orphan-timeout"; {
	case seen.Unheard >= stuckGrace:
		does, took, next = "has sent the leader nothing", seen.Unheard, removed
	case seen.Refused >= stuckGrace:
		does, took, next = "has taken no snapshot from the leader, which tries again and again,", seen.Refused, removed
	}
	return hold(LearnerPending, "see etcd's log on its machine: "+next,
		"another member is joining: %s, whose etcd runs but %s for %s; if its own join has ended, continue "+
			"it on its machine: etcdadm join %s; or remove the member, on a voter's machine: etcdadm remove %s",
		named(m), does, took.Truncate(time.Second), p.voterURL(), m.ID)
}
