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
func (w *world) handToManager() *Hold {
	h := w.obs.Handover
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
		return hold(NotRunning, "etcdadm status", "there is no member in %s to hand over", w.cfg.Paths.Data)
	case !here && old.Done:
		w.handing = handing{Journal: *old, over: true}
		if h.Assigned == nil {
			return hold(ManagerState, "etcd-manager-ctl status",
				"the member was handed over to %s, which no longer reports it", w.goal.Manager.ManagerDir)
		}
	case here && w.obs.Service.Active():
		why = w.agreeNow()
	case old != nil:
		why = w.resume()
	default:
		return hold(NotRunning, "start it where it was (etcdadm join ENDPOINT), so that its cluster can be asked",
			"the member in %s does not run: its service is %s", w.cfg.Paths.Data, w.obs.Service.State)
	}
	if why != nil {
		return why
	}
	return w.managerAuthorities()
}

// agreeNow makes the journal of what the cluster and the control store say.
func (w *world) agreeNow() *Hold {
	h, m := w.obs.Handover, w.goal.Manager
	j, why := described(w.cfg, w.obs)
	if why != nil {
		return why
	}
	if why := w.managerRuns(); why != nil {
		return why
	}
	j.ManagerDir = m.ManagerDir
	if old := h.Journal; old != nil && old.MemberID == j.MemberID && len(w.obs.Written) == 0 {
		// The file that had them is deleted already.
		j.Environment, j.MetricsURLs = old.Environment, old.MetricsURLs
	}
	if why := w.controlled(); why != nil {
		return why
	}
	if m.NewIncarnation {
		if why := w.nobodyCoordinates(); why != nil {
			return why
		}
	}
	if j.Agreement, why = agree(question{
		now: w.obs.At, self: j.Node, id: j.ClusterID, version: j.Version, voters: j.Peers,
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
		return DataTwice(w.cfg.Paths.Data, w.managerDataDir(j.Token))
	}
	w.handing = handing{Journal: *j, fresh: true}
	return nil
}

// controlled holds what needs the control store's incarnations.
func (w *world) controlled() *Hold {
	switch c := w.obs.Handover.Control; {
	case c == nil:
		return hold(StoreUnreachable, "check --backup-store", "the control store %s does not answer",
			w.goal.Manager.BackupStore)
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
func (w *world) nobodyCoordinates() *Hold {
	c := w.obs.Handover.Control
	age := w.obs.At.Sub(c.StatusAt)
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
func (w *world) resume() *Hold {
	h, j := w.obs.Handover, *w.obs.Handover.Journal
	if why := w.managerRuns(); why != nil {
		return why
	}
	if h.Assigned != nil && h.Assigned.Token != j.Token {
		return hold(ManagerState, "another "+flag, "the etcd-manager of %s has a member of incarnation %s",
			w.goal.Manager.ManagerDir, h.Assigned.Token)
	}
	there := h.There[j.Token]
	switch {
	case h.Here.Present && !h.Here.is(j):
		return notTheMembers(w.cfg.Paths.Data, j)
	case there.Present && !there.is(j):
		return notTheMembers(w.managerDataDir(j.Token), j)
	}
	if why := w.controlled(); why != nil {
		return why
	}
	records := h.Control.Incarnations
	if len(records) == 0 || records[len(records)-1].Token != j.Token {
		return hold(StoreForeign, "etcdadm handover from-manager",
			"the handover was begun in incarnation %s, which is not the newest in the store", j.Token)
	}
	w.handing = handing{Journal: j, over: j.Done}
	return nil
}

func notTheMembers(dir string, j Journal) *Hold {
	return hold(DataForeign, "", "%s no longer holds the data of member %s", dir, j.MemberID)
}

// managerDataDir is where the daemon has the data of an incarnation.
func (w *world) managerDataDir(t cluster.Token) string {
	return filepath.Join(w.obs.Handover.DataRoot, string(t))
}

// managerAuthorities holds what the daemon could not issue certificates with. An
// authority that is there and differs is not replaced: other machines may go by it.
func (w *world) managerAuthorities() *Hold {
	h := w.obs.Handover
	if h.Source.State != CAReady {
		return &Hold{
			Reason: CADiffers, Text: h.Source.Problem,
			Next: fmt.Sprintf("put ca.crt and ca.key into %s: etcd-manager issues its own certificates",
				w.cfg.Paths.Certificates),
		}
	}
	for _, a := range h.Others {
		if a.State != CAAbsent && a.State != CAReady {
			return w.differs(a, "--pki-dir")
		}
	}
	return nil
}

// differs holds an authority that is in the place of the source's copy.
func (w *world) differs(a Authority, flag string) *Hold {
	next := "move it away, or choose another " + flag
	if a.State != CAOther {
		return &Hold{Reason: CADiffers, Text: a.Problem, Next: next}
	}
	s := w.obs.Handover.Source
	return hold(CADiffers, next, "%s is not the certificate authority %s that the members trust",
		filepath.Join(a.Dir, a.Name+".crt"), filepath.Join(s.Dir, s.Name+".crt"))
}

// The phases of to-manager. Up to stop nothing has happened to the
// member; from there on only the journal is needed to go on.

func (w *world) copyAuthorities() (Operation, *Hold) {
	h := w.obs.Handover
	op := &CopyCA{From: h.Source}
	for _, a := range h.Others {
		if a.State == CAAbsent {
			op.Dir, op.Names = a.Dir, append(op.Names, a.Name)
		}
	}
	if len(op.Names) == 0 || w.finished() {
		return nil, nil
	}
	return op, nil
}

func (w *world) managerBinaries() (Operation, *Hold) {
	if w.handing.over || w.obs.Handover.Etcd {
		return nil, nil
	}
	v := w.handing.Version
	return &InstallBinaries{Version: v, Dir: filepath.Join(w.goal.Manager.EtcdDir, "etcd-v"+v.String())}, nil
}

func (w *world) recordIncarnation() (Operation, *Hold) {
	if a := w.handing.Agreement; w.handing.fresh && a.Create {
		return &RecordIncarnation{Record: a.Record, Move: w.moveThere()}, nil
	}
	return nil, nil
}

// writeJournal has what was decided on the disk before anything is changed. It is
// written again where the world has changed since.
func (w *world) writeJournal() (Operation, *Hold) {
	if !w.handing.fresh || sameJournal(w.obs.Handover.Journal, &w.handing.Journal) {
		return nil, nil
	}
	op := &WriteJournal{Path: w.cfg.Paths.Journal(), Journal: w.handing.Journal, Move: w.moveThere()}
	if w.goal.Action == FromManager {
		op.Move = w.moveHere()
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

func (w *world) stopForManager() (Operation, *Hold) {
	if s := w.obs.Service; w.obs.Handover.Here.Present && (s.Active() || s.Enabled) {
		return &StopService{}, nil
	}
	return nil, nil
}

func (w *world) dropStarters() (Operation, *Hold) {
	if w.handing.over || len(w.obs.Handover.Starters) == 0 {
		return nil, nil
	}
	return &RemoveFiles{w.obs.Handover.Starters}, nil
}

func (w *world) moveThere() MoveData {
	return MoveData{From: w.cfg.Paths.Data, To: w.managerDataDir(w.handing.Token), MemberID: w.handing.MemberID}
}

func (w *world) moveToManager() (Operation, *Hold) {
	if !w.obs.Handover.Here.Present {
		return nil, nil
	}
	op := w.moveThere()
	return &op, nil
}

func (w *world) assign() (Operation, *Hold) {
	if w.handing.over || w.obs.Handover.Assigned != nil {
		return nil, nil
	}
	return &AssignMember{Dir: w.goal.Manager.ManagerDir, Journal: w.handing.Journal}, nil
}

func (w *world) journalDone() (Operation, *Hold) {
	if w.handing.over {
		return nil, nil
	}
	j := w.handing.Journal
	j.Done = true
	return &WriteJournal{Path: w.cfg.Paths.Journal(), Journal: j}, nil
}
