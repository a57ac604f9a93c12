package machine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// An UpgradePlan is the way of a cluster without daemons to another version of etcd: the
// operations of the daemons' plan, as lines for its machines.
type UpgradePlan struct {
	// Versions are what all members run, one after the other.
	Versions []etcdversion.Version
	Steps    []UpgradeStep
	Holds    []plan.Hold
	Warnings []string
	// Done says that all members run the version.
	Done bool
}

// An UpgradeStep is one line, and the machine on which it is to be run.
type UpgradeStep struct {
	// On is the member of the machine, URL a client URL of it.
	On  cluster.NodeName `json:"on"`
	URL string           `json:"url"`
	// Line is the command line, Note says what to know of it.
	Line string `json:"line"`
	Note string `json:"note,omitempty"`
}

// PlanUpgrade returns the steps to a version. hazards is what is in the data of this
// machine's member.
func PlanUpgrade(cfg Config, obs Observation, to etcdversion.Version, hazards []cluster.Hazard) (UpgradePlan, error) {
	p := &planner{goal: Goal{Action: Join}, cfg: cfg, obs: obs}
	if !etcdconf.FlagsKnown(to) {
		return UpgradePlan{}, hold(VersionStep, "choose a version that this etcdadm knows, such as --to="+DefaultVersion.String(),
			"what etcd %s does not tolerate is unknown", to)
	}
	if !obs.Remote.Answered {
		return UpgradePlan{}, p.unreachable()
	}
	p.cfg.Version = to
	seen := p.asNodes(between(to))
	if self, ok := p.self(); ok {
		for i := range seen.Nodes {
			if n := &seen.Nodes[i]; n.Disk.MemberID == self.ID {
				n.Hazards = hazards
			}
		}
	}
	spec := p.versionSpec(to)
	made, err := plan.MakeVersions(spec, seen)
	if err != nil {
		return UpgradePlan{}, fmt.Errorf("plan: %w", err)
	}
	up := UpgradePlan{Holds: made.Holds, Done: true}
	for _, n := range seen.Nodes {
		up.Done = up.Done && n.Assigned.Version == to
	}
	up.Done = up.Done && obs.Remote.Downgrade.IsZero()
	leader := obs.Remote.Leader
	for _, op := range made.Operations {
		up.add(p, op, &leader)
	}
	if below := plan.BelowFloor(spec, seen); below != "" {
		up.Warnings = append(up.Warnings, below+"; each machine checks its own member's data before it changes")
	}
	return up, nil
}

// between are the versions that are taken on the way to another one, beside those that
// members run: the newest patch that etcdadm knows of, and the oldest from which etcd
// advises to go on, as a daemon fetches them.
func between(to etcdversion.Version) []etcdversion.Version {
	list := []etcdversion.Version{DefaultVersion}
	for minor := range to.Minor + 8 {
		if least := (etcdversion.Version{Major: to.Major, Minor: minor}).UpgradeFloor(); !least.IsZero() {
			list = append(list, least)
		}
	}
	return list
}

// add appends what an operation is by hand. leader is who leads by then.
func (up *UpgradePlan) add(p *planner, op plan.Operation, leader *cluster.MemberID) {
	self, _ := p.self()
	here := UpgradeStep{On: self.Name, URL: firstURL(self)}
	switch op := op.(type) {
	case *plan.MemberChangeVersion:
		m, _ := p.obs.Remote.member(op.ExpectMemberID)
		s := UpgradeStep{On: m.Name, URL: firstURL(m), Line: p.joinLine(m, op.To)}
		if !slices.Contains(up.Versions, op.To) {
			up.Versions = append(up.Versions, op.To)
		}
		if m.ID == *leader {
			s.Note = "it leads now, and comes last: its leadership is moved away first"
			*leader = 0
		}
		up.Steps = append(up.Steps, s)
	case *plan.DowngradeEnable:
		here.Line = fmt.Sprintf("%s downgrade enable %d.%d", p.cfg.Paths.ControlScript(), op.To.Major, op.To.Minor)
		here.Note = "once for the cluster: etcd makes the data of all members older"
		up.Steps = append(up.Steps, here)
	case *plan.DowngradeCancel:
		here.Line, here.Note = p.cfg.Paths.ControlScript()+" downgrade cancel", "a downgrade that is not wanted any more"
		up.Steps = append(up.Steps, here)
	case *plan.MoveLeader, *plan.MemberForceSnapshot:
		// join does so itself: who leads then need not be who was foreseen.
	}
}

func firstURL(m cluster.Member) string {
	if len(m.ClientURLs) == 0 {
		return ""
	}
	return m.ClientURLs[0]
}

// joinLine is the line that changes a member on its machine: it asks the other members.
func (p *planner) joinLine(m cluster.Member, to etcdversion.Version) string {
	var urls []string
	for _, o := range p.obs.Remote.Members {
		if u := firstURL(o); o.ID != m.ID && u != "" && !o.Learner {
			urls = append(urls, u)
		}
	}
	if len(urls) == 0 {
		urls = []string{firstURL(m)}
	}
	return fmt.Sprintf("etcdadm join --version=%s %s", to, strings.Join(urls, ","))
}

// unsaved warns, before a member changes its version, that no backup is known by hand.
func (p *planner) unsaved() []Finding {
	if _, changes := p.changing(); !changes {
		return nil
	}
	to := p.cfg.Version.Release()
	return warning(SaveLine(to), "whether there is a fresh backup is not known here, and etcd %s is about to run on this data", to)
}

// SaveLine takes a snapshot before a change to a version.
func SaveLine(to etcdversion.Version) string {
	return fmt.Sprintf("etcdadm snapshot save /root/etcd-before-%s.db", to)
}

// leaderLast warns of a leader that is changed before followers are.
func (p *planner) leaderLast() []Finding {
	self, changes := p.changing()
	if !changes || self.ID != p.obs.Remote.Leader {
		return nil
	}
	var before []cluster.NodeName
	for _, m := range p.obs.Remote.Members {
		if m.ID != self.ID && !m.Learner && m.Version == self.Version {
			before = append(before, m.Name)
		}
	}
	if len(before) == 0 {
		return nil
	}
	return warning("change them first", "this machine's member leads, and %s run etcd %s, too: the leader is best changed last, "+
		"or the leadership moves once more", listed(before), self.Version)
}
