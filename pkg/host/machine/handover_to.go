package machine

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// handToManager decides about handing a member to the daemon. An etcd that runs under
// etcdadm is checked afresh: nothing has happened to it, whatever an old journal says.
func (p *planner) handToManager() *Hold {
	h := p.obs.Handover
	here, old := h.Here.Present, h.Journal
	if old != nil && old.Direction == FromManager {
		if !old.Done {
			return hold(Unfinished, "etcdadm handover from-manager",
				"a handover from etcd-manager was begun but is not finished")
		}
		old = nil // only its journal is left
	}
	var why *Hold
	switch {
	case !here && old == nil:
		return hold(NotRunning, "etcdadm status", "there is no member in %s to hand over", p.cfg.Paths.Data)
	case !here && old.Done:
		p.decided = handoverDecision{Journal: *old, over: true}
		if h.Assigned == nil {
			return hold(ManagerState, "etcd-manager-ctl status",
				"the member was handed over to %s, which no longer reports it", p.goal.Manager.ManagerDir)
		}
	case here && p.obs.Service.Active():
		why = p.agreeNow()
	case old != nil:
		why = p.resume()
	default:
		return hold(NotRunning, "start it where it was (etcdadm join ENDPOINT), so that its cluster can be asked",
			"the member in %s does not run: its service is %s", p.cfg.Paths.Data, p.obs.Service.State)
	}
	if why != nil {
		return why
	}
	return p.managerAuthorities()
}

// agreeNow makes the journal of what the cluster and the control store say.
func (p *planner) agreeNow() *Hold {
	h, m := p.obs.Handover, p.goal.Manager
	j, why := described(p.cfg, p.obs)
	if why != nil {
		return why
	}
	if why := p.managerRuns(); why != nil {
		return why
	}
	j.ManagerDir = m.ManagerDir
	if old := h.Journal; old != nil && old.MemberID == j.MemberID && len(p.obs.Written) == 0 {
		// The file that had them is deleted already.
		j.Environment, j.MetricsURLs = old.Environment, old.MetricsURLs
	}
	if why := p.controlled(); why != nil {
		return why
	}
	if m.NewIncarnation {
		if why := p.nobodyCoordinates(); why != nil {
			return why
		}
	}
	if j.Agreement, why = agree(question{
		now: p.obs.At, self: j.Node, id: j.ClusterID, version: j.Version, voters: j.Peers,
		kept: h.Kept, renew: m.NewIncarnation, control: *h.Control,
	}); why != nil {
		return why
	}
	j.Token = j.Agreement.Record.Token
	if h.Assigned != nil {
		return hold(ManagerState, "etcdadm handover from-manager, or another "+flag,
			"the etcd-manager of %s already has a member of incarnation %s", m.ManagerDir, h.Assigned.Token)
	}
	if names := j.Agreement.LeaseVoters; len(names) > 0 {
		if _, err := h.Kept.Prepare(j.Token, names); err != nil {
			return hold(LeaseVotersLost, "", "%v", err)
		}
	}
	if h.There[j.Token].Present {
		return DataTwice(p.cfg.Paths.Data, p.managerDataDir(j.Token))
	}
	p.decided = handoverDecision{Journal: *j, fresh: true}
	return nil
}

// controlled holds what needs the control store's incarnations.
func (p *planner) controlled() *Hold {
	switch c := p.obs.Handover.Control; {
	case c == nil:
		return hold(StoreUnreachable, "check --backup-store", "the control store %s does not answer",
			p.goal.Manager.BackupStore)
	case c.Unreadable != "":
		return hold(StoreForeign, "check control/incarnations in the store",
			"the store has an incarnation record that cannot be read: %s", c.Unreadable)
	}
	return nil
}

// maxCoordinatorStatusAge is for how long after its last status a coordinator may be at
// work: it writes one every two minutes.
const maxCoordinatorStatusAge = 5 * time.Minute

// nobodyCoordinates holds a new incarnation while a coordinator of the old
// one publishes its status.
func (p *planner) nobodyCoordinates() *Hold {
	c := p.obs.Handover.Control
	age := p.obs.At.Sub(c.StatusAt)
	if c.Coordinator == "" || age >= maxCoordinatorStatusAge {
		return nil
	}
	return hold(ManagerState,
		"run etcdadm handover from-manager on the machines that a daemon runs, and wait until the status is old",
		"%s coordinates the cluster, or did %s ago; no new incarnation can begin meanwhile", c.Coordinator,
		age.Round(time.Second))
}

// resume goes on where an earlier run was cut off, after etcd was stopped. It
// needs no answer of the cluster.
func (p *planner) resume() *Hold {
	h, j := p.obs.Handover, *p.obs.Handover.Journal
	if why := p.managerRuns(); why != nil {
		return why
	}
	if h.Assigned != nil && h.Assigned.Token != j.Token {
		return hold(ManagerState, "another "+flag, "the etcd-manager of %s has a member of incarnation %s",
			p.goal.Manager.ManagerDir, h.Assigned.Token)
	}
	there := h.There[j.Token]
	switch {
	case h.Here.Present && !h.Here.is(j):
		return notTheMembers(p.cfg.Paths.Data, j)
	case there.Present && !there.is(j):
		return notTheMembers(p.managerDataDir(j.Token), j)
	}
	if why := p.controlled(); why != nil {
		return why
	}
	records := h.Control.Incarnations
	if len(records) == 0 || records[len(records)-1].Token != j.Token {
		return hold(StoreForeign, "etcdadm handover from-manager",
			"the handover was begun in incarnation %s, which is not the newest in the store", j.Token)
	}
	p.decided = handoverDecision{Journal: j, over: j.Done}
	return nil
}

func notTheMembers(dir string, j Journal) *Hold {
	return hold(DataForeign, "", "%s no longer holds the data of member %s", dir, j.MemberID)
}

// managerDataDir is where the daemon has the data of an incarnation.
func (p *planner) managerDataDir(t cluster.Token) string {
	return filepath.Join(p.obs.Handover.DataRoot, string(t))
}

// managerAuthorities holds what the daemon could not issue certificates with. An
// authority that is there and differs is not replaced: other machines may go by it.
func (p *planner) managerAuthorities() *Hold {
	h := p.obs.Handover
	if h.Source.State != CAReady {
		return &Hold{
			Reason: CADiffers, Text: h.Source.Problem,
			Next: fmt.Sprintf("put ca.crt and ca.key into %s: etcd-manager issues its own certificates",
				p.cfg.Paths.Certificates),
		}
	}
	for _, a := range h.Others {
		if a.State != CAAbsent && a.State != CAReady {
			return p.differs(a, "--pki-dir")
		}
	}
	return nil
}

// differs holds an authority that is in the place of the source's copy.
func (p *planner) differs(a Authority, flag string) *Hold {
	next := "move it away, or choose another " + flag
	if a.State != CAOther {
		return &Hold{Reason: CADiffers, Text: a.Problem, Next: next}
	}
	s := p.obs.Handover.Source
	return hold(CADiffers, next, "%s is not the certificate authority %s that the members trust",
		filepath.Join(a.Dir, a.Name+".crt"), filepath.Join(s.Dir, s.Name+".crt"))
}

// The phases of to-manager. Up to stop nothing has happened to the
// member; from there on only the journal is needed to go on.

func (p *planner) copyAuthorities() (Operation, *Hold) {
	h := p.obs.Handover
	op := &CopyCA{From: h.Source}
	for _, a := range h.Others {
		if a.State == CAAbsent {
			op.Dir, op.Names = a.Dir, append(op.Names, a.Name)
		}
	}
	if len(op.Names) == 0 || p.finished() {
		return nil, nil
	}
	return op, nil
}

func (p *planner) managerBinaries() (Operation, *Hold) {
	if p.decided.over || p.obs.Handover.Etcd {
		return nil, nil
	}
	v := p.decided.Version
	return &InstallBinaries{Version: v, Dir: filepath.Join(p.goal.Manager.EtcdDir, "etcd-v"+v.String())}, nil
}

func (p *planner) recordIncarnation() (Operation, *Hold) {
	if a := p.decided.Agreement; p.decided.fresh && a.Create {
		return &RecordIncarnation{Record: a.Record, Move: p.moveThere()}, nil
	}
	return nil, nil
}

// writeJournal has what was decided on the disk before anything is changed. It is
// written again where the world has changed since.
func (p *planner) writeJournal() (Operation, *Hold) {
	if !p.decided.fresh || sameJournal(p.obs.Handover.Journal, &p.decided.Journal) {
		return nil, nil
	}
	op := &WriteJournal{Path: p.cfg.Paths.Journal(), Journal: p.decided.Journal, Move: p.moveThere()}
	if p.goal.Action == FromManager {
		op.Move = p.moveHere()
	}
	return op, nil
}

func sameJournal(a, b *Journal) bool {
	if a == nil {
		return false
	}
	// As bytes: what was read and what was decided differ in places of times.
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

func (p *planner) stopForManager() (Operation, *Hold) {
	if s := p.obs.Service; p.obs.Handover.Here.Present && (s.Active() || s.Enabled) {
		return &StopService{}, nil
	}
	return nil, nil
}

func (p *planner) dropStarters() (Operation, *Hold) {
	if p.decided.over || len(p.obs.Handover.Starters) == 0 {
		return nil, nil
	}
	return &RemoveFiles{p.obs.Handover.Starters}, nil
}

func (p *planner) moveThere() MoveData {
	return MoveData{From: p.cfg.Paths.Data, To: p.managerDataDir(p.decided.Token), MemberID: p.decided.MemberID}
}

func (p *planner) moveToManager() (Operation, *Hold) {
	if !p.obs.Handover.Here.Present {
		return nil, nil
	}
	op := p.moveThere()
	return &op, nil
}

func (p *planner) assign() (Operation, *Hold) {
	if p.decided.over || p.obs.Handover.Assigned != nil {
		return nil, nil
	}
	return &AssignMember{Dir: p.goal.Manager.ManagerDir, Journal: p.decided.Journal}, nil
}

func (p *planner) journalDone() (Operation, *Hold) {
	if p.decided.over {
		return nil, nil
	}
	j := p.decided.Journal
	j.Done = true
	return &WriteJournal{Path: p.cfg.Paths.Journal(), Journal: j}, nil
}
