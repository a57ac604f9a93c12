package machine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A Comparison is what the voters' digests at one revision say of their data.
type Comparison struct {
	Revision cluster.Revision `json:"revision,omitempty"`
	// Unlike are the members whose data is not that of Like.
	Like   []cluster.NodeName `json:"like,omitempty"`
	Unlike []cluster.NodeName `json:"unlike,omitempty"`
	// Problem says why nothing could be compared, empty where something was.
	Problem string `json:"problem,omitempty"`
}

// changing returns this machine's member where it serves, and is to be restarted with
// another version. One that does not serve is no loss, and may need that version to come
// back.
func (p *planner) changing() (cluster.Member, bool) {
	l, builds := p.obs.Local, p.goal.Action == Join || p.goal.Action == Init
	if !builds || p.obs.VersionOpen || !healthy(l) || l.Learner || l.Version.IsZero() || !p.obs.Remote.Answered ||
		l.Version == p.cfg.Version.Release() {
		return cluster.Member{}, false
	}
	self, ok := p.self()
	return self, ok && self.ID == l.ID && !self.Learner
}

// Compares says whether the members' data has to be compared now: this machine's member
// would be the first of a change of the version, and nothing else holds it.
func Compares(goal Goal, cfg Config, obs Observation) bool {
	p := &planner{goal: goal, cfg: cfg, obs: obs}
	_, changes := p.changing()
	return changes && p.sameVersion() && p.mayRun() == nil && p.ruled() == nil
}

// sameVersion says that there is more than one voter, and that all run one version: digests of
// two versions may differ though the data does not.
func (p *planner) sameVersion() bool {
	voters, _ := p.obs.Remote.voters()
	first := p.obs.Local.Version
	return voters > 1 && !slices.ContainsFunc(p.obs.Remote.Members, func(m cluster.Member) bool {
		return m.Version != first
	})
}

// gates holds a member that serves from being restarted with another version. They are
// those of the daemons.
func (p *planner) gates() *Hold {
	if _, changes := p.changing(); !changes {
		return nil
	}
	if why := p.ruled(); why != nil || !p.sameVersion() {
		return why
	}
	return p.equal()
}

// ruled holds by the rules and the invariants of the daemons' plan. That the leadership is
// moved first is a step of its own.
func (p *planner) ruled() *Hold {
	self, _ := p.changing()
	spec, obs := p.versionSpec(p.cfg.Version.Release()), p.asNodes(nil)
	for _, h := range plan.VersionHolds(spec, obs) {
		return p.fromRule(h)
	}
	if obs.Leader == self.ID {
		obs.Leader = 0
	}
	err := plan.Check(spec, obs, &plan.MemberChangeVersion{
		Node: self.Name, ExpectToken: handToken, ExpectMemberID: self.ID, ExpectVersion: self.Version, To: spec.EtcdVersion,
	})
	var breaks *plan.UnsafeError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &breaks):
		return hold(VersionStep, "etcdadm status", "%v", err)
	case breaks.Invariant == "quorum":
		return lacking("%s", breaks.Text)
	}
	h := hold(VersionStep, "etcdadm upgrade plan --to="+spec.EtcdVersion.String(), "%s", breaks.Text)
	// After a downgrade has been enabled, etcd makes the data of all members older within seconds.
	to, want := obs.Downgrade, spec.EtcdVersion
	if breaks.Passes || !to.IsZero() && to.Major == want.Major && to.Minor == want.Minor {
		h.Reason, h.Wait = NotYet, true
	}
	return h
}

// fromRule says what a person without daemons can do about a hold of a rule.
func (p *planner) fromRule(h plan.Hold) *Hold {
	switch h.Reason {
	case plan.QuorumMargin:
		return lacking("%s", h.Text)
	case plan.LearnerBehind:
		why := hold(LearnerPending, "wait for its join, or remove it: etcdadm status, then etcdadm remove with its ID", "%s", h.Text)
		why.Momentary = true // its vote may be on its way
		return why
	case plan.Alarm:
		return hold(Alarm, "etcdadm alarm list; when its reason is gone (for NOSPACE: compact, and etcdadm defrag), "+
			"etcdadm alarm disarm", "%s", h.Text)
	case plan.DiskFull:
		return hold(DiskFull, "make room", "%s", h.Text)
	}
	why := hold(NotYet, "etcdadm status", "%s", h.Text)
	why.Wait = true
	return why
}

// equal holds where the members' data differs, or that is unknown.
func (p *planner) equal() *Hold {
	c := p.obs.Remote.Compared
	switch {
	case c == nil:
		return nil // it was not asked for
	case c.Problem != "" && p.goal.AcceptVersionRisk != "":
		return nil
	case c.Problem != "":
		h := hold(NotCompared, "run the command again, or go on without: --accept-version-risk=REASON",
			"the members' data could not be compared before the change of the version: %s", c.Problem)
		h.Wait = true
		return h
	case len(c.Unlike) > 0:
		h := hold(DataDiffers, "find out which is right (etcdctl.sh endpoint hashkv --cluster), and have the others join again with "+
			"an empty data directory: etcdadm reset and etcdadm join on their machines",
			"at revision %d the data of %s is not that of %s, and after a change of the version nobody could know",
			c.Revision, listed(c.Unlike), listed(c.Like))
		h.Momentary = true // as in the daemons, one reading is not enough
		return h
	}
	return nil
}

func listed(names []cluster.NodeName) string {
	words := make([]string, len(names))
	for i, n := range names {
		words[i] = string(n)
	}
	return strings.Join(words, " and ")
}

// moveLeader moves the leadership away from this machine's member before it is restarted with
// another version.
func (p *planner) moveLeader() (Operation, *Hold) {
	self, changes := p.changing()
	voters, _ := p.obs.Remote.voters()
	if !changes || voters < 2 || self.ID != p.obs.Remote.Leader {
		return nil, nil
	}
	to, ok := cluster.NextLeader(p.obs.Remote.Members, self.ID)
	if !ok {
		return nil, lacking("%s leads, and no other voter is healthy", named(self))
	}
	return p.change(&plan.MoveLeader{To: to.Name})
}

// settled waits, behind a change of the version, for what etcd's leader does by itself as
// soon as all members run the version of a downgrade: it ends it. A further one is refused
// before that.
func (p *planner) settled() *Hold {
	to := p.obs.Remote.Downgrade
	if to.IsZero() || slices.ContainsFunc(p.obs.Remote.Members, func(m cluster.Member) bool {
		return m.Version.Major != to.Major || m.Version.Minor != to.Minor
	}) {
		return nil
	}
	h := hold(NotYet, "etcdadm status", "the downgrade to etcd %d.%d is finished, and etcd will notice that within seconds", to.Major,
		to.Minor)
	h.Wait = true
	return h
}

// handToken stands for the one incarnation of a cluster of which nobody keeps records.
const handToken cluster.Token = "by-hand"

// versionSpec asks for a version, and for as many members as there are.
func (p *planner) versionSpec(to etcdversion.Version) cluster.Spec {
	voters, _ := p.obs.Remote.voters()
	return cluster.Spec{MemberCount: voters, EtcdVersion: to, Policy: cluster.Policy{Unbacked: true, FixedSpec: true}}
}

// asNodes is the cluster as the rules about versions see it: each member is a node that
// reports what its member says. What only the member's own machine knows, its binaries and
// its data, counts as fit: that machine checks itself before it changes. has are further
// versions that can be had.
func (p *planner) asNodes(has []etcdversion.Version) cluster.Observation {
	r := p.obs.Remote
	obs := cluster.Observation{
		At: p.obs.At, Token: handToken, Leader: r.Leader, ClusterVersion: r.ClusterVersion, Downgrade: r.Downgrade,
		Members: slices.SortedFunc(slices.Values(r.Members), func(a, b cluster.Member) int {
			return strings.Compare(string(a.Name)+" "+a.ID.String(), string(b.Name)+" "+b.ID.String())
		}),
	}
	has = append(slices.Clone(has), p.cfg.Version.Release())
	for _, m := range obs.Members {
		if !m.Version.IsZero() {
			has = append(has, m.Version)
		}
	}
	slices.SortFunc(has, etcdversion.Version.Compare)
	has = slices.Compact(has)
	for _, m := range obs.Members {
		name, runs := m.Name, m.Version
		if name == "" {
			name = cluster.NodeName(fmt.Sprintf("member %s", m.ID))
		}
		if runs.IsZero() {
			runs = r.Lowest
		}
		n := cluster.Node{
			Name: name, Reachable: true, URLs: cluster.URLs{Peer: m.PeerURLs, Client: m.ClientURLs}, Versions: has,
			Disk:     cluster.Disk{State: cluster.DiskData, Token: handToken, MemberID: m.ID},
			Assigned: &cluster.Assigned{Token: handToken, Version: runs},
			Process:  cluster.Process{State: cluster.ProcessRunning, Version: runs},
			Hazards:  cluster.NoHazards(), OldLog: cluster.Hazard{Kind: cluster.HazardOldLog, State: cluster.HazardAbsent},
		}
		if self, ok := p.self(); ok && self.ID == m.ID {
			n.FreeBytes = p.obs.Host.FreeBytes
		}
		obs.Nodes = append(obs.Nodes, n)
	}
	return obs
}
