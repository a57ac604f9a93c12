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
func (w *world) self() (cluster.Member, bool) {
	d, r := w.obs.Data, w.obs.Remote
	if d.State == cluster.DiskData && d.ClusterID == r.ClusterID {
		if m, ok := r.member(d.MemberID); ok {
			return m, true
		}
	}
	if w.obs.Local != nil {
		if m, ok := r.member(w.obs.Local.ID); ok {
			return m, true
		}
	}
	return w.addressed()
}

// addressed returns the member that the list has at this machine's peer URLs.
func (w *world) addressed() (cluster.Member, bool) {
	mine := URLs(w.cfg).Peer
	if w.goal.Action == Reset && w.obs.Written["ETCD_INITIAL_ADVERTISE_PEER_URLS"] != "" {
		mine = strings.Split(w.obs.Written["ETCD_INITIAL_ADVERTISE_PEER_URLS"], ",")
	}
	for _, m := range w.obs.Remote.Members {
		if slices.ContainsFunc(m.PeerURLs, func(u string) bool { return slices.Contains(mine, u) }) {
			return m, true
		}
	}
	return cluster.Member{}, false
}

func (w *world) unreachable() *Hold {
	problem := w.obs.Remote.Problem
	if problem == "" {
		problem = "no member answers"
	}
	if w.obs.Remote.Differ {
		return hold(EndpointsDiffer, "name endpoints of one cluster", "%s", problem)
	}
	if w.obs.PKI.CA == CAAbsent && w.goal.Action == Join {
		_, why := w.certificates() // nobody can be asked, and none will come by waiting
		return why
	}
	if w.obs.Remote.Untrusted {
		return w.untrusted()
	}
	h := hold(ClusterUnreachable, "check the endpoints, ca.crt and the clocks; a learner cannot answer for its cluster",
		"the cluster does not answer: %s", problem)
	h.Wait, h.Others = true, true
	return h
}

// untrusted is the hold of a machine and endpoints that do not accept each other. They will
// not begin to, unless it is for a clock: nobody else is waited for.
func (w *world) untrusted() *Hold {
	next := "name client URLs of the cluster by names that their certificates are for, or put its ca.crt and ca.key into " +
		w.cfg.Paths.Certificates
	if w.obs.Remote.Clock {
		next += ", or set the clocks"
	}
	h := hold(ClusterUnreachable, next+"; then run the command again",
		"this machine and the endpoints do not accept each other: %s", w.obs.Remote.Problem)
	h.Wait = w.obs.Remote.Clock
	return h
}

// foreign returns why the data on the disk is not that of a current member, ""
// if it is.
func (w *world) foreign() string {
	d, r := w.obs.Data, w.obs.Remote
	if d.State != cluster.DiskData {
		return ""
	}
	switch _, current := r.member(d.MemberID); {
	case d.ClusterID != r.ClusterID:
		return fmt.Sprintf("%s holds data of cluster %s, but the endpoints belong to cluster %s", w.cfg.Paths.Data, d.ClusterID,
			r.ClusterID)
	case !current:
		return fmt.Sprintf("%s holds data of %s, which was removed from the cluster", w.cfg.Paths.Data, ofMember(d.MemberID))
	}
	return ""
}

// stop ends an etcd that is in the way. As a phase by itself it ends any; as a
// part of join only one whose data has to be moved.
func (w *world) stop() (Operation, *Hold) {
	if w.goal.Phase == "stop" {
		return w.stopService()
	}
	if w.obs.Remote.Answered && w.foreign() != "" && w.goal.SetAsideData {
		return w.stopService()
	}
	return nil, nil
}

func (w *world) stopService() (Operation, *Hold) {
	if w.obs.Service.Active() || w.obs.Service.Enabled {
		return &StopService{}, nil
	}
	return nil, nil
}

// refused is what the phase membership would refuse, reported before the ones that come before
// it issue certificates and install etcd: a version or a name that cannot be.
func (w *world) refused() *Hold {
	if !w.obs.Remote.Answered || w.obs.VersionOpen || slices.Contains(w.goal.Skip, "membership") {
		return nil
	}
	if _, why := w.membership(); why != nil && !why.Wait && !why.Momentary {
		return why
	}
	return nil
}

// membership makes the cluster's list have this machine's member, as a
// learner that has not started or with its own data on the disk.
func (w *world) membership() (Operation, *Hold) {
	if !w.obs.Remote.Answered {
		if w.comesBack() {
			return nil, nil
		}
		return nil, w.unreachable()
	}
	if why := w.untouched(); why != nil {
		return nil, why
	}
	if op, why := w.dropNeverCommitted(); op != nil || why != nil {
		return op, why
	}
	if why := w.foreign(); why != "" {
		if !w.goal.SetAsideData {
			return nil, hold(DataForeign,
				"if it is no longer needed: the same command with --set-aside-data, which moves it aside", "%s", why)
		}
		if w.obs.Service.Active() {
			return &StopService{}, nil
		}
		if why := w.running(); why != nil {
			return nil, why
		}
		return &SetDataAside{Path: w.cfg.Paths.Data, MemberID: w.obs.Data.MemberID}, nil
	}
	if w.obs.Data.State == cluster.DiskData {
		return nil, w.mayRun()
	}
	m, ok := w.addressed()
	if ok && started(m) {
		return w.replaceLost(m)
	}
	if ok {
		return nil, w.mayRun()
	}
	return w.add()
}

// before returns the lowest version that the data on the disk, or the cluster
// to join, has been run with; zero where nobody knows. What is installed and older than
// the data has not run it.
func (w *world) before() etcdversion.Version {
	low, is := w.obs.Remote.Lowest, w.obs.Data.Version
	if installed := w.obs.Binaries.Etcd; w.obs.Data.State == cluster.DiskData && !installed.IsZero() &&
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
func (w *world) comesBack() bool {
	r := w.obs.Record
	runs := r.Served || r.Action == Join && !w.obs.Data.Uncommitted
	return w.goal.Phase == "" && w.obs.Data.State == cluster.DiskData && runs && !r.Undoing &&
		w.obs.Written["ETCD_INITIAL_CLUSTER"] != "" && w.untouched() == nil
}

// mayRun holds a member of a version that its data or its cluster cannot take.
// etcd goes up one minor version at a time, and down only where it has prepared the
// member's data for that. (3.0 to 3.4 would even take newer data silently, and write
// to it.)
func (w *world) mayRun() *Hold {
	want, low := w.cfg.Version.Release(), w.before()
	if data := w.obs.Local; data != nil && !want.AtLeast(data.DataVersion().Major, data.DataVersion().Minor) {
		return w.older(want, runsAs(data))
	}
	if !low.IsZero() && !want.AtLeast(low.Major, low.Minor) {
		if w.prepared(want) {
			return nil
		}
		return w.older(want, low)
	}
	if why := w.fits(want); why != nil {
		return why
	}
	switch is := w.obs.Data.Version; {
	case low.IsZero() && is.Major == want.Major && is.Minor == want.Minor:
		return nil
	case low.IsZero():
		return w.stepsUp(want, low)
	case want.Major != low.Major || want.Minor > low.Minor+1:
		return hold(VersionStep, "upgrade one minor version at a time, with --version",
			"etcd %s cannot follow the cluster's %s", want, low)
	case want.Minor > low.Minor:
		return w.stepsUp(want, low)
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
func (w *world) prepared(want etcdversion.Version) bool {
	r := w.obs.Local
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
func (w *world) older(want, runs etcdversion.Version) *Hold {
	next := "--version=" + runs.String()
	if r := w.obs.Local; r != nil && r.Version.Minor-1 == want.Minor && want.AtLeast(3, 5) {
		next = fmt.Sprintf("to downgrade, run once for the cluster: %s downgrade enable %d.%d; some seconds later run the same command "+
			"again, on one machine after the other", w.cfg.Paths.ControlScript(), want.Major, want.Minor)
	}
	h := hold(VersionStep, next, "etcd %s is older than the cluster's %s", want, runs)
	// etcd has been given, and makes the data that of the earlier version within seconds.
	h.Wait = w.obs.Local != nil && w.obs.Local.Downgrade.AtLeast(3, 5) && w.obs.Local.Downgrade.Major == want.Major &&
		w.obs.Local.Downgrade.Minor == want.Minor
	return h
}

// lost holds what would start a member again without its data.
func (w *world) lost(m cluster.Member) *Hold {
	return hold(DataLost, "check whether a volume is missing; if the data is gone: the same command with "+
		"--replace-member, which removes the member and adds it again",
		"member %s has run on this machine, but %s is empty", named(m), w.cfg.Paths.Data)
}

func (w *world) replaceLost(m cluster.Member) (Operation, *Hold) {
	if !w.goal.ReplaceMember {
		return nil, w.lost(m)
	}
	if m.Healthy {
		return nil, hold(MemberHealthy, "find out which machine has this address: "+strings.Join(m.PeerURLs, ","),
			"member %s, which has this machine's peer URL, is healthy", named(m))
	}
	return w.change(w.remove(m))
}

func (w *world) remove(m cluster.Member) plan.Operation {
	voters, _ := w.obs.Remote.voters()
	return &plan.Remove{ID: m.ID, ExpectName: m.Name, ExpectVoters: voters}
}

// add adds the member as a learner. etcd allows one at a time, so two machines
// that join at once take turns.
func (w *world) add() (Operation, *Hold) {
	if why := w.mayRun(); why != nil {
		return nil, why
	}
	if why := w.nameTaken(); why != nil {
		return nil, why
	}
	for _, m := range w.obs.Remote.Members {
		if m.Learner {
			return w.afterLearner(m)
		}
	}
	if to := w.obs.Remote.Downgrade; !to.IsZero() {
		h := hold(NotYet, w.cfg.Paths.ControlScript()+" downgrade cancel, on a machine of the cluster, to enable it again "+
			"afterwards; or finish it first: etcdadm upgrade plan",
			"a downgrade to etcd %d.%d is enabled, and etcd takes no new member meanwhile", to.Major, to.Minor)
		h.Wait, h.Others = true, true
		return nil, h
	}
	voters, _ := w.obs.Remote.voters()
	return w.change(&plan.AddLearner{Node: w.cfg.Name, PeerURLs: URLs(w.cfg).Peer, ExpectVoters: voters})
}

// promotionGrace is how long a learner that serves may take to get its vote from the machine
// that it is of.
const promotionGrace = 10 * time.Second

// afterLearner waits for the learner of another machine. If that machine does not end
// what it has begun, this one does: it promotes a learner that has caught up, and takes
// out one that never will: at whose addresses nobody listens, from which the leader has no
// message, or which takes no snapshot, for as long as an orphan may be waited for. A learner has no vote, so that
// the quorum does not depend on it.
func (w *world) afterLearner(m cluster.Member) (Operation, *Hold) {
	voters, _ := w.obs.Remote.voters()
	seen := w.obs.Remote.Learner
	var op Operation
	switch {
	case seen.ID != m.ID:
	case seen.Ready >= promotionGrace && m.Healthy && m.Name != "" && !w.leads(m):
		op, _ = w.change(&plan.Promote{Name: m.Name, ExpectVoters: voters})
	case max(seen.Absent, seen.Unheard, seen.Refused) >= time.Duration(w.cfg.Timeouts.Orphan) && !m.Healthy:
		op, _ = w.change(&plan.Remove{ID: m.ID, ExpectName: m.Name, ExpectVoters: voters})
	}
	if op != nil {
		return op, nil
	}
	h := w.pending(m)
	h.Wait, h.Others = true, true
	return nil, h
}

// leads says that a learner is of a later minor version than a voter. Its own join looks
// into the copy of the data before it has it vote.
func (w *world) leads(m cluster.Member) bool {
	low := w.obs.Remote.Lowest
	return !m.Version.IsZero() && !low.IsZero() && !low.AtLeast(m.Version.Major, m.Version.Minor)
}

// stuckGrace is how long a learner may run without serving before those that wait for it
// say what a person can do. A large copy takes longer, and is not stuck.
const stuckGrace = time.Minute

// pending is the hold of a learner that another machine has in the cluster. One that
// runs, and that the leader hears from, is neither promoted nor taken out: it may be copying.
func (w *world) pending(m cluster.Member) *Hold {
	seen := w.obs.Remote.Learner
	if w.leads(m) {
		return hold(LearnerPending, "see whether its own join still runs",
			"another member is joining: %s, which runs etcd %s and can only be promoted by its own join; if that has ended, "+
				"run it again on its machine: etcdadm join %s; or remove the member, on a voter's machine: etcdadm remove %s",
			named(m), m.Version, w.voterURL(), m.ID)
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
		named(m), does, took.Truncate(time.Second), w.voterURL(), m.ID)
}
