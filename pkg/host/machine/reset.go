package machine

import (
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// leave takes this machine's member out of its cluster. The last voter stays:
// it is the cluster.
func (w *world) leave() (Operation, *Hold) {
	// What has left is not asked again: its etcd is about to end.
	if w.goal.SkipRemoveMember || w.traceless() {
		return nil, nil
	}
	if w.obs.Record.Action == Reset {
		if d := w.obs.Data; !w.obs.Record.Last || d.State == cluster.DiskEmpty || d.Discarded {
			return nil, nil
		}
		return nil, w.lastMember(cluster.Member{ID: w.obs.Data.MemberID, Name: w.cfg.Name})
	}
	if w.obs.Left && w.goal.KeepFiles {
		return nil, nil
	}
	if w.obs.Left {
		return &Remember{Record{Action: Reset}}, nil
	}
	if !w.obs.Remote.Answered {
		h := w.unreachable()
		h.Next = "name other members with --endpoints, or leave the member list as it is with --skip-remove-member (etcdadm remove " +
			"does it from another machine)"
		return nil, h
	}
	if d := w.obs.Data; d.State == cluster.DiskData && d.ClusterID != w.obs.Remote.ClusterID {
		return nil, hold(DataForeign,
			"name members of its own cluster with --endpoints, or leave the member list as it is with --skip-remove-member",
			"%s holds data of cluster %s, but the endpoints belong to cluster %s", w.cfg.Paths.Data, d.ClusterID,
			w.obs.Remote.ClusterID)
	}
	r := w.obs.Record
	if w.goal.KeepFiles && !r.Undoing {
		return &Remember{Record{Action: Join, Undoing: true}}, nil
	}
	m, ok := w.self()
	voters, _ := w.obs.Remote.voters()
	switch {
	case !ok && w.goal.KeepFiles:
		return nil, nil
	case !ok || voters == 1 && !m.Learner:
		if why := w.lastMember(m); ok && why != nil {
			return nil, why
		}
		if w.obs.Data.State == cluster.DiskEmpty && !w.obs.Service.Active() {
			return nil, nil // nothing of it is left that would need to know
		}
		return &Remember{Record{Action: Reset, Last: ok}}, nil
	}
	op, why := w.removeSafely(m)
	if why == nil && r.Others == "" && !w.goal.KeepFiles {
		// When it has left, its own etcd answers nothing any more.
		if r.Others = w.others(m); r.Others != "" {
			return &Remember{r}, nil
		}
	}
	return op, why
}

// lastMember is why the data of the last member of a cluster stays, nil where it may go.
func (w *world) lastMember(m cluster.Member) *Hold {
	if !w.goal.DiscardData || w.goal.Force || w.goal.KeepFiles {
		return nil
	}
	return hold(LastMember, "save it first: etcdadm snapshot save FILE; reset without --discard-data moves the data aside; "+
		"--force deletes it", "member %s is the last of its cluster: %s has all that the cluster holds", named(m),
		w.cfg.Paths.Data)
}

// others returns the client URLs of the members besides m.
func (w *world) others(m cluster.Member) string {
	var all []string
	for _, o := range w.obs.Remote.Members {
		if o.ID != m.ID {
			all = append(all, o.ClientURLs...)
		}
	}
	return strings.Join(all, ",")
}

// traceless says that nothing on the machine shows a member.
func (w *world) traceless() bool {
	written := len(w.obs.Written) > 0 && !w.goal.KeepFiles
	return w.obs.Data.State == cluster.DiskEmpty && !written && !w.obs.Service.Active() && w.obs.Record == (Record{})
}

// removeSafely removes a member, from the lead first.
func (w *world) removeSafely(m cluster.Member) (Operation, *Hold) {
	if m.ID == w.obs.Remote.Leader {
		to, ok := cluster.NextLeader(w.obs.Remote.Members, m.ID)
		if !ok {
			return nil, lacking("%s leads, and no other voter is healthy", named(m))
		}
		// The plan ends at a lost quorum: asked before the leader moves for nothing.
		if _, why := w.changeUnled(w.remove(m)); why != nil {
			return nil, why
		}
		return w.change(&plan.MoveLeader{To: to.Name})
	}
	return w.change(w.remove(m))
}

// changeUnled is change in a world without a leader to move first.
func (w *world) changeUnled(op plan.Operation) (Operation, *Hold) {
	unled := *w
	unled.obs.Remote.Leader = 0
	return unled.change(op)
}

func (w *world) dropData() (Operation, *Hold) {
	if w.obs.Data.State == cluster.DiskEmpty && !w.obs.Data.Discarded {
		return nil, nil
	}
	if why := w.running(); why != nil {
		return nil, why
	}
	if w.goal.DiscardData || w.obs.Data.Discarded {
		return &DiscardData{Path: w.cfg.Paths.Data, MemberID: w.obs.Data.MemberID}, nil
	}
	return &SetDataAside{Path: w.cfg.Paths.Data, MemberID: w.obs.Data.MemberID}, nil
}

func (w *world) dropFiles() (Operation, *Hold) {
	if w.goal.KeepFiles {
		return nil, nil
	}
	paths := slices.Clone(w.obs.PKI.Paths)
	if w.goal.RemoveCA {
		paths = append(paths, w.obs.PKI.CAPaths...)
	}
	for path := range w.obs.Files {
		paths = append(paths, path)
	}
	return removal(paths)
}

func (w *world) dropBinaries() (Operation, *Hold) {
	if w.goal.KeepFiles {
		return nil, nil
	}
	return removal(w.obs.Binaries.Paths)
}

func removal(paths []string) (Operation, *Hold) {
	if len(paths) == 0 {
		return nil, nil
	}
	sorted := slices.Clone(paths)
	slices.Sort(sorted)
	return &RemoveFiles{sorted}, nil
}

func (w *world) forget() (Operation, *Hold) {
	if w.obs.Record == (Record{}) {
		return nil, nil
	}
	return &Remember{}, nil
}

// removeOther takes the member that the goal names out of the cluster.
func (w *world) removeOther() (Operation, *Hold) {
	if !w.obs.Remote.Answered {
		return nil, w.unreachable()
	}
	m, ok := w.obs.Remote.member(w.goal.TargetID)
	if !ok {
		return nil, nil
	}
	if m.Healthy && !w.goal.Force {
		return nil, hold(MemberHealthy, "run etcdadm leave on its machine, or remove it here anyway with --force",
			"member %s is healthy", named(m))
	}
	return w.removeSafely(m)
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
