package machine

import (
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// leave takes this machine's member out of its cluster. The last voter stays:
// it is the cluster.
func (p *planner) leave() (Operation, *Hold) {
	// What has left is not asked again: its etcd is about to end.
	if p.goal.SkipRemoveMember || p.traceless() {
		return nil, nil
	}
	if p.obs.Record.Action == Reset {
		if d := p.obs.Data; !p.obs.Record.Last || d.State == cluster.DiskEmpty || d.Discarded {
			return nil, nil
		}
		return nil, p.lastMember(cluster.Member{ID: p.obs.Data.MemberID, Name: p.cfg.Name})
	}
	if p.obs.Left && p.goal.KeepFiles {
		return nil, nil
	}
	if p.obs.Left {
		return &Remember{Record{Action: Reset}}, nil
	}
	if !p.obs.Remote.Answered {
		h := p.unreachable()
		h.Next = "name other members with --endpoints, or leave the member list as it is with --skip-remove-member (etcdadm remove " +
			"does it from another machine)"
		return nil, h
	}
	if d := p.obs.Data; d.State == cluster.DiskData && d.ClusterID != p.obs.Remote.ClusterID {
		return nil, hold(DataForeign,
			"name members of its own cluster with --endpoints, or leave the member list as it is with --skip-remove-member",
			"%s holds data of cluster %s, but the endpoints belong to cluster %s", p.cfg.Paths.Data, d.ClusterID,
			p.obs.Remote.ClusterID)
	}
	r := p.obs.Record
	if p.goal.KeepFiles && !r.Undoing {
		return &Remember{Record{Action: Join, Undoing: true}}, nil
	}
	m, ok := p.self()
	voters, _ := p.obs.Remote.voters()
	switch {
	case !ok && p.goal.KeepFiles:
		return nil, nil
	case !ok || voters == 1 && !m.Learner:
		if why := p.lastMember(m); ok && why != nil {
			return nil, why
		}
		if p.obs.Data.State == cluster.DiskEmpty && !p.obs.Service.Active() {
			return nil, nil // nothing of it is left that would need to know
		}
		return &Remember{Record{Action: Reset, Last: ok}}, nil
	}
	op, why := p.removeSafely(m)
	if why == nil && r.Others == "" && !p.goal.KeepFiles {
		// When it has left, its own etcd answers nothing any more.
		if r.Others = p.others(m); r.Others != "" {
			return &Remember{r}, nil
		}
	}
	return op, why
}

// lastMember is why the data of the last member of a cluster stays, nil where it may go.
func (p *planner) lastMember(m cluster.Member) *Hold {
	if !p.goal.DiscardData || p.goal.Force || p.goal.KeepFiles {
		return nil
	}
	return hold(LastMember, "save it first: etcdadm snapshot save FILE; reset without --discard-data moves the data aside; "+
		"--force deletes it", "member %s is the last of its cluster: %s has all that the cluster holds", named(m),
		p.cfg.Paths.Data)
}

// others returns the client URLs of the members besides m.
func (p *planner) others(m cluster.Member) string {
	var all []string
	for _, o := range p.obs.Remote.Members {
		if o.ID != m.ID {
			all = append(all, o.ClientURLs...)
		}
	}
	return strings.Join(all, ",")
}

// traceless says that nothing on the machine shows a member.
func (p *planner) traceless() bool {
	written := len(p.obs.Written) > 0 && !p.goal.KeepFiles
	return p.obs.Data.State == cluster.DiskEmpty && !written && !p.obs.Service.Active() && p.obs.Record == (Record{})
}

// removeSafely removes a member, from the lead first.
func (p *planner) removeSafely(m cluster.Member) (Operation, *Hold) {
	if m.ID == p.obs.Remote.Leader {
		to, ok := cluster.NextLeader(p.obs.Remote.Members, m.ID)
		if !ok {
			return nil, lacking("%s leads, and no other voter is healthy", named(m))
		}
		// The plan ends at a lost quorum: asked before the leader moves for nothing.
		if _, why := p.changeUnled(p.remove(m)); why != nil {
			return nil, why
		}
		return p.change(&plan.MoveLeader{To: to.Name})
	}
	return p.change(p.remove(m))
}

// changeUnled is change in a world without a leader to move first.
func (p *planner) changeUnled(op plan.Operation) (Operation, *Hold) {
	unled := *p
	unled.obs.Remote.Leader = 0
	return unled.change(op)
}

func (p *planner) dropData() (Operation, *Hold) {
	if p.obs.Data.State == cluster.DiskEmpty && !p.obs.Data.Discarded {
		return nil, nil
	}
	if why := p.running(); why != nil {
		return nil, why
	}
	if p.goal.DiscardData || p.obs.Data.Discarded {
		return &DiscardData{Path: p.cfg.Paths.Data, MemberID: p.obs.Data.MemberID}, nil
	}
	return &SetDataAside{Path: p.cfg.Paths.Data, MemberID: p.obs.Data.MemberID}, nil
}

func (p *planner) dropFiles() (Operation, *Hold) {
	if p.goal.KeepFiles {
		return nil, nil
	}
	paths := slices.Clone(p.obs.PKI.Paths)
	if p.goal.RemoveCA {
		paths = append(paths, p.obs.PKI.CAPaths...)
	}
	for path := range p.obs.Files {
		paths = append(paths, path)
	}
	return removal(paths)
}

func (p *planner) dropBinaries() (Operation, *Hold) {
	if p.goal.KeepFiles {
		return nil, nil
	}
	return removal(p.obs.Binaries.Paths)
}

func removal(paths []string) (Operation, *Hold) {
	if len(paths) == 0 {
		return nil, nil
	}
	sorted := slices.Clone(paths)
	slices.Sort(sorted)
	return &RemoveFiles{sorted}, nil
}

func (p *planner) forget() (Operation, *Hold) {
	if p.obs.Record == (Record{}) {
		return nil, nil
	}
	return &Remember{}, nil
}

// removeOther takes the member that the goal names out of the cluster.
func (p *planner) removeOther() (Operation, *Hold) {
	if !p.obs.Remote.Answered {
		return nil, p.unreachable()
	}
	m, ok := p.obs.Remote.member(p.goal.TargetID)
	if !ok {
		return nil, nil
	}
	if m.Healthy && !p.goal.Force {
		return nil, hold(MemberHealthy, "run etcdadm leave on its machine, or remove it here anyway with --force",
			"member %s is healthy", named(m))
	}
	return p.removeSafely(m)
}

// Settle finds the member that a goal names, in the first observation: when it has been
// removed, its name is nobody's any more. An id that the list does not have is
// done already; a name that it does not have may be misspelt.
func Settle(goal Goal, obs Observation) (Goal, *Hold) {
	if goal.Action != Remove || goal.TargetID != 0 || !obs.Remote.Answered {
		return goal, nil
	}
	var found []cluster.Member
	id, err := cluster.ParseMemberID(goal.Target)
	for _, m := range obs.Remote.Members {
		if string(m.Name) == goal.Target || err == nil && m.ID == id || slices.Contains(m.PeerURLs, goal.Target) {
			found = append(found, m)
		}
	}
	switch {
	case len(found) == 1:
		goal.TargetID = found[0].ID
	case len(found) > 1:
		return goal, hold(MemberUnknown, "use its ID: etcdadm status", "%d members have the name %s", len(found),
			goal.Target)
	case err == nil && len(goal.Target) > 8: // hardly a name
		goal.TargetID = id
	default:
		return goal, hold(MemberUnknown, "list the members: etcdadm status", "the cluster has no member %s", goal.Target)
	}
	return goal, nil
}
