package machine

import (
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// takeFromManager decides about taking a member from the daemon.
func (w *world) takeFromManager() *Hold {
	h, old := w.obs.Handover, w.obs.Handover.Journal
	if w.finished() {
		w.handing = handing{Journal: Journal{Direction: FromManager, Done: true}, over: true}
		return nil
	}
	if h.Assigned == nil && old == nil {
		return hold(ManagerState, flag, "the etcd-manager of %s has no member to hand back",
			w.goal.Manager.ManagerDir)
	}
	resumed := old != nil && old.Direction == FromManager
	w.handing = handing{Journal: backJournal(w.goal, h), fresh: !resumed}
	if resumed && old.Done {
		return nil
	}
	if why := w.managerRuns(); why != nil {
		return why
	}
	if a, j := h.Assigned, w.handing; a != nil && (a.Token != j.Token || a.Version != j.Version) {
		return hold(ManagerState, "etcdadm handover from-manager",
			"etcd-manager meanwhile runs something else: incarnation %s, etcd %s", a.Token, a.Version)
	}
	if !resumed {
		if why := w.mayGoBack(); why != nil {
			return why
		}
	}
	if why := w.ownAuthority(); why != nil {
		return why
	}
	if why := w.oneLocation(resumed); why != nil || resumed {
		return why
	}
	return w.awaited()
}

// finished says that etcdadm has the member, and nothing is to be handed back.
func (w *world) finished() bool {
	h := w.obs.Handover
	return w.goal.Action == FromManager && h.Here.Present && h.Assigned == nil && h.Journal == nil
}

// backJournal describes the member that the daemon has: by an earlier journal of this
// direction as it is, or by what the daemon remembers. A handover to the daemon that
// was not finished is taken back by what its own journal says.
func backJournal(goal Goal, h *Handover) Journal {
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

// BackJournal returns what is known of the member that is to be taken back.
func BackJournal(goal Goal, h *Handover) Journal { return backJournal(goal, h) }

// mayGoBack holds a member that etcdadm could not run as it is.
func (w *world) mayGoBack() *Hold {
	peers, a := w.handing.Peers, w.obs.Handover.Assigned
	i := slices.IndexFunc(peers, func(s cluster.InitialMember) bool { return s.Name == w.cfg.Name })
	switch {
	case a != nil && a.Quarantined:
		return hold(ManagerState, "etcd-manager-ctl status",
			"the member is quarantined: clients are kept away from it, but etcdadm would let them in")
	case i < 0:
		return hold(NameUnfit, "--name", "etcd-manager runs one of the members %s on this machine, but none has the name %s",
			namesOf(cluster.InitialMemberNames(peers)), w.cfg.Name)
	case !overlap(peers[i].PeerURLs, URLs(w.cfg).Peer):
		return hold(NameUnfit, "--bind-address and --peer-port", "member %s has the peer URL %s, but this machine's is %s",
			w.cfg.Name, strings.Join(peers[i].PeerURLs, ", "), URLs(w.cfg).Peer[0])
	}
	w.handing.Node = w.cfg.Name
	return nil
}

// ownAuthority holds a member whose certificates etcdadm could not issue: it has one
// authority for peers and clients.
func (w *world) ownAuthority() *Hold {
	h := w.obs.Handover
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
		return w.differs(own, "--certs-dir")
	}
	return nil // also where the key is kept elsewhere
}

// oneLocation makes sure that the data is in one place, the member's, used by
// nobody.
func (w *world) oneLocation(resumed bool) *Hold {
	j := &w.handing.Journal
	to, from := w.cfg.Paths.Data, w.managerDataDir(j.Token)
	here, there := w.obs.Handover.Here, w.obs.Handover.There[j.Token]
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
func (w *world) awaited() *Hold {
	h, r, j := w.obs.Handover, w.obs.Remote, &w.handing.Journal
	others := len(j.Peers) - 1
	j.Alone = w.goal.Manager.Alone || others < 1
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

// takenBack says that the member is etcdadm's, and only traces of the handover are left.
func (w *world) takenBack() bool { return w.handing.over || w.handing.Done }

func (w *world) unassign() (Operation, *Hold) {
	if w.takenBack() || w.obs.Handover.Assigned == nil {
		return nil, nil
	}
	return &UnassignMember{Dir: w.goal.Manager.ManagerDir}, nil
}

func (w *world) moveHere() MoveData {
	op := w.moveThere()
	op.From, op.To = op.To, op.From
	if s := w.cfg.Service; s.User != "" || s.Group != "" {
		op.ChangeOwner = true
	}
	return op
}

func (w *world) moveFromManager() (Operation, *Hold) {
	if w.takenBack() || !w.obs.Handover.There[w.handing.Token].Present {
		return nil, nil
	}
	op := w.moveHere()
	return &op, nil
}

func (w *world) runMember() (Operation, *Hold) {
	if w.takenBack() {
		return nil, nil
	}
	j := w.handing.Journal
	op := &RunMember{Action: Join, Token: j.Token, Version: j.Version}
	if j.Alone {
		op.Action = Init // nobody is to be asked, as after an init
	}
	return op, nil
}

func (w *world) endHandover() (Operation, *Hold) {
	if w.finished() {
		return nil, nil
	}
	return &EndHandover{Journal: w.cfg.Paths.Journal(), DataDir: w.managerDataDir(w.handing.Token)}, nil
}
