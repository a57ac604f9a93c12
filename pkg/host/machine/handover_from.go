package machine

import (
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// takeFromManager decides about taking a member from the daemon.
func (p *planner) takeFromManager() *Hold {
	h, old := p.obs.Handover, p.obs.Handover.Journal
	if p.finished() {
		p.decided = handoverDecision{Journal: Journal{Direction: FromManager, Done: true}, over: true}
		return nil
	}
	if h.Assigned == nil && old == nil {
		return hold(ManagerState, flag, "the etcd-manager of %s has no member to hand back",
			p.goal.Manager.ManagerDir)
	}
	resumed := old != nil && old.Direction == FromManager
	p.decided = handoverDecision{Journal: FromManagerJournal(p.goal, h), fresh: !resumed}
	if resumed && old.Done {
		return nil
	}
	if why := p.managerRuns(); why != nil {
		return why
	}
	if a, j := h.Assigned, p.decided; a != nil && (a.Token != j.Token || a.Version != j.Version) {
		return hold(ManagerState, "etcdadm handover from-manager",
			"etcd-manager meanwhile runs something else: incarnation %s, etcd %s", a.Token, a.Version)
	}
	if !resumed {
		if why := p.mayGoBack(); why != nil {
			return why
		}
	}
	if why := p.ownAuthority(); why != nil {
		return why
	}
	if why := p.oneLocation(resumed); why != nil || resumed {
		return why
	}
	return p.awaited()
}

// finished says that etcdadm has the member, and nothing is to be handed back.
func (p *planner) finished() bool {
	h := p.obs.Handover
	return p.goal.Action == FromManager && h.Here.Present && h.Assigned == nil && h.Journal == nil
}

// FromManagerJournal describes the member that the daemon has and is to hand back: by an earlier journal of this
// direction as it is, or by what the daemon remembers. A handover to the daemon that
// was not finished is undone by what its own journal says.
func FromManagerJournal(goal Goal, h *Handover) Journal {
	j := Journal{Direction: FromManager, ManagerDir: goal.Manager.ManagerDir}
	if old := h.Journal; old != nil {
		j = *old
		if j.Direction == FromManager {
			return j
		}
		j.Direction, j.Done, j.Agreement = FromManager, false, Agreement{}
	}
	if a := h.Assigned; a != nil {
		j.Token, j.Version, j.Peers = a.Token, a.Version, h.Peers
	}
	return j
}

// mayGoBack holds a member that etcdadm could not run as it is.
func (p *planner) mayGoBack() *Hold {
	peers, a := p.decided.Peers, p.obs.Handover.Assigned
	i := slices.IndexFunc(peers, func(s cluster.InitialMember) bool { return s.Name == p.cfg.Name })
	switch {
	case a != nil && a.Quarantined:
		return hold(ManagerState, "etcd-manager-ctl status",
			"the member is quarantined: clients are kept away from it, but etcdadm would let them in")
	case i < 0:
		return hold(NameUnfit, "--name", "etcd-manager runs one of the members %s on this machine, but none has the name %s",
			namesOf(cluster.InitialMemberNames(peers)), p.cfg.Name)
	case !overlap(peers[i].PeerURLs, URLs(p.cfg).Peer):
		return hold(NameUnfit, "--bind-address and --peer-port", "member %s has the peer URL %s, but this machine's is %s",
			p.cfg.Name, strings.Join(peers[i].PeerURLs, ", "), URLs(p.cfg).Peer[0])
	}
	p.decided.Node = p.cfg.Name
	return nil
}

// ownAuthority holds a member whose certificates etcdadm could not issue: it has one
// authority for peers and clients.
func (p *planner) ownAuthority() *Hold {
	h := p.obs.Handover
	peers, own := h.Others[0], h.Others[1]
	for _, a := range []Authority{peers, h.Source} {
		if a.State != CAReady && a.State != CAOther {
			return &Hold{
				Reason: CADiffers, Text: a.Problem,
				Next: "name the directory of etcd-manager's certificate authorities with --pki-dir",
			}
		}
	}
	switch {
	case peers.State == CAOther:
		return hold(CADiffers,
			"this cluster has to stay with etcd-manager; or make a new one from its data: etcdadm snapshot save, then etcdadm init "+
				"--snapshot",
			"etcd-manager's authorities for peers and for clients differ (%s and %s in %s), but etcdadm has one "+
				"for both, so its members and the others would not trust each other", peers.Name, h.Source.Name, peers.Dir)
	case own.State == CABad || own.State == CAOther:
		return p.differs(own, "--certs-dir")
	}
	return nil // also where the key is kept elsewhere
}

// oneLocation makes sure that the data is in one place, the member's, used by
// nobody.
func (p *planner) oneLocation(resumed bool) *Hold {
	j := &p.decided.Journal
	to, from := p.cfg.Paths.Data, p.managerDataDir(j.Token)
	here, there := p.obs.Handover.Here, p.obs.Handover.There[j.Token]
	dir, data := from, there
	switch {
	case here.Present && there.Present:
		return DataTwice(to, from)
	case !here.Present && !there.Present:
		return hold(DataForeign, flag+" and --data-dir", "there is no data in %s or %s", from, to)
	case here.Present:
		dir, data = to, here
	}
	switch {
	case data.Problem != "":
		return hold(DataForeign, flag+" and --data-dir", "%s", data.Problem)
	case resumed && !data.is(*j):
		return notTheMembers(dir, *j)
	case there.Present && there.Busy:
		return DatabaseOpen(dir)
	}
	j.MemberID, j.ClusterID = data.MemberID, data.ClusterID
	return nil
}

// DatabaseOpen is the hold for data that a process has open.
func DatabaseOpen(dir string) *Hold {
	path := Paths{Data: dir}.Database()
	return hold(DataBusy, "fuser "+path+" shows which process", "a process has the database in %s open", dir)
}

// awaited makes sure that the cluster waits for the member. Without it, etcdadm
// starts it by itself only where the others have no quorum: two members, or one. Who
// could not be asked yet, for lack of certificates, is asked when they are there.
func (p *planner) awaited() *Hold {
	h, r, j := p.obs.Handover, p.obs.Remote, &p.decided.Journal
	others := len(j.Peers) - 1
	j.Alone = p.goal.Manager.Alone || others < 1
	if j.Alone || !h.Asked {
		return nil
	}
	switch known := slices.ContainsFunc(r.Members, func(m cluster.Member) bool { return m.ID == j.MemberID }); {
	case r.Answered && (!known || r.ClusterID != j.ClusterID):
		return hold(DataForeign, "make it a new member: etcdadm join --set-aside-data",
			"the other members belong to cluster %s and do not know member %s", r.ClusterID, j.MemberID)
	case r.Answered:
		return nil
	case others < cluster.Quorum(len(j.Peers)):
		j.Alone = true
		return nil
	}
	return hold(ClusterUnreachable, "name other members with --endpoints, or start this one anyway with --alone",
		"the other members do not answer: %s", r.Problem)
}

// The phases of from-manager. Up to the journal nothing has happened to the member.

// handedBack says that the member is etcdadm's, and only traces of the handover are left.
func (p *planner) handedBack() bool { return p.decided.over || p.decided.Done }

func (p *planner) unassign() (Operation, *Hold) {
	if p.handedBack() || p.obs.Handover.Assigned == nil {
		return nil, nil
	}
	return &UnassignMember{Dir: p.goal.Manager.ManagerDir}, nil
}

func (p *planner) moveHere() MoveData {
	op := p.moveThere()
	op.From, op.To = op.To, op.From
	if s := p.cfg.Service; s.User != "" || s.Group != "" {
		op.ChangeOwner = true
	}
	return op
}

func (p *planner) moveFromManager() (Operation, *Hold) {
	if p.handedBack() || !p.obs.Handover.There[p.decided.Token].Present {
		return nil, nil
	}
	op := p.moveHere()
	return &op, nil
}

func (p *planner) runMember() (Operation, *Hold) {
	if p.handedBack() {
		return nil, nil
	}
	j := p.decided.Journal
	op := &RunMember{Action: Join, Token: j.Token, Version: j.Version}
	if j.Alone {
		op.Action = Init // nobody is to be asked, as after an init
	}
	return op, nil
}

func (p *planner) endHandover() (Operation, *Hold) {
	if p.finished() {
		return nil, nil
	}
	return &EndHandover{Journal: p.cfg.Paths.Journal(), DataDir: p.managerDataDir(p.decided.Token)}, nil
}
