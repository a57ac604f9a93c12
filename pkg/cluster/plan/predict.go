package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// Predict returns what obs becomes when op succeeds. It is a model of etcd for
// people who read a plan; the daemon never acts on it, it observes again. Tests
// compare it with real processes.
//
// Time does not pass in a prediction, and members become healthy at once, as
// soon as a majority of the voters runs.
func Predict(obs cluster.Observation, op Operation) cluster.Observation {
	w := clone(obs)
	switch op := op.(type) {
	case *MemberPrepare:
		n := w.node(op.Node)
		p := cluster.Prepared{Token: op.Token, Version: op.Version, Voters: op.Voters}.After(n.Prepared)
		n.Prepared = &p
		n.LeaseVoters = cluster.LeaseVoters{Token: op.Token, Names: cluster.InitialMemberNames(op.Voters)}
		if w.LeaseVoters.Term == 0 && w.LeaseVoters.Seq == 0 {
			w.LeaseVoters = n.LeaseVoters
		}
	case *IncarnationCreate:
		w.record(op)
	case *IncarnationMark:
		w.Store.Created = w.At
		if rec := newestRecord(obs); rec != nil && rec.At.After(w.At) {
			w.Store.Created = rec.At
		}
	case *SpecWrite:
		w.Store.SpecMissing = false
	case *MemberStart:
		w.start(op)
	case *MemberStop:
		w.stop(op.Node)
	case *MemberChangeVersion:
		w.changeVersion(op)
	case *MemberForceSnapshot:
		w.forceSnapshot(op)
	case *DowngradeEnable:
		w.enableDowngrade(op)
	case *DowngradeCancel:
		w.cancelDowngrade()
	case *LeaseVotersWrite:
		w.writeLeaseVoters(op)
	case *LeaseVotersRecover:
		w.LeaseVoters = cluster.LeaseVoters{Token: op.Token, Term: op.Term, Names: op.Names}
		w.node(op.Node).LeaseVoters = w.LeaseVoters
	case *LeaseVotersAdopt:
		w.LeaseVoters = cluster.LeaseVoters{Token: op.Token, Names: slices.Sorted(slices.Values(op.Names))}
		w.node(op.Node).LeaseVoters = w.LeaseVoters
	default:
		w.predictMembers(op)
		w.predictRestore(op)
		w.predictUpkeep(op)
	}
	w.sort()
	return w.Observation
}

// predictMembers changes the member list, or who leads.
func (w *world) predictMembers(op Operation) {
	switch op := op.(type) {
	case *AddLearner:
		w.Members = append(w.Members, cluster.Member{
			ID: w.nextID(), PeerURLs: op.PeerURLs, Learner: true, LearnerSince: w.At,
		})
	case *Promote:
		for i := range w.Members {
			if w.Members[i].Name == op.Name {
				w.Members[i].Learner, w.Members[i].LearnerSince = false, time.Time{}
			}
		}
	case *Remove:
		w.remove(op.ID)
	case *MemberUpdate:
		for i := range w.Members {
			if w.Members[i].ID == op.ID {
				w.Members[i].PeerURLs = op.PeerURLs
			}
		}
	case *MoveLeader:
		for _, m := range w.Members {
			if m.Name == op.To {
				w.Leader = m.ID
			}
		}
	}
}

// record adds an incarnation. One that was restored ends what ran before.
func (w *world) record(op *IncarnationCreate) {
	rec := cluster.Incarnation{Number: op.Number, Token: op.Token, Version: op.Version, Voters: op.Voters, At: w.At}
	if op.Backup != "" {
		rec.Restored = &cluster.Restored{Request: op.Request, Backup: op.Backup, Revision: op.Revision, Before: op.Before}
		w.Members, w.Leader = nil, 0
	}
	w.Store.Incarnations = append(w.Store.Incarnations, rec)
	w.Token = op.Token
	for _, n := range w.Nodes {
		if w.LeaseVoters.Token != op.Token && n.LeaseVoters.Token == op.Token {
			w.LeaseVoters = n.LeaseVoters
		}
	}
}

func (w *world) predictRestore(op Operation) {
	switch op := op.(type) {
	case *RestoreStage:
		w.node(op.Node).Staged = &cluster.Staged{
			Request: op.Request, Backup: op.Backup, Token: op.Token, Version: op.Version, Voters: op.Voters,
			Revision: op.Revision, Ready: true,
		}
	case *RestoreSwitch:
		w.changeOver(op)
	case *RestoreDiscard:
		w.node(op.Node).Staged = nil
	case *RequestClose:
		w.Store.Requests = slices.DeleteFunc(slices.Clone(w.Store.Requests), func(r cluster.Request) bool {
			return r.Name == op.Name
		})
	}
}

func (w *world) changeOver(op *RestoreSwitch) {
	n := w.node(op.Node)
	n.Process = cluster.Process{State: cluster.ProcessStopped, Since: w.At}
	if n.Disk.State == cluster.DiskData {
		n.SetAside = append(n.SetAside, cluster.SetAside{Name: freeName(n.SetAside, n.Disk.Token), At: w.At})
	}
	n.Disk, n.Assigned, n.Differs = cluster.Disk{State: cluster.DiskEmpty}, nil, ""
	s := n.Staged
	if s == nil || s.Token != op.Token {
		n.LeaseVoters = cluster.LeaseVoters{}
		return
	}
	n.Prepared = &cluster.Prepared{Token: s.Token, Version: s.Version, Voters: s.Voters, Backup: s.Backup}
	n.Revision, n.Staged = max(n.Revision, s.Revision), nil
	n.LeaseVoters = cluster.LeaseVoters{Token: s.Token, Names: cluster.InitialMemberNames(s.Voters)}
	if w.LeaseVoters.Token != s.Token {
		w.LeaseVoters = n.LeaseVoters
	}
}

// predictUpkeep covers the operations that leave the membership alone.
func (w *world) predictUpkeep(op Operation) {
	switch op := op.(type) {
	case *DataSetAside:
		n := w.node(op.Node)
		if n.Disk.State == cluster.DiskData {
			n.SetAside = append(n.SetAside, cluster.SetAside{Name: freeName(n.SetAside, op.Token), At: w.At})
		}
		n.Disk, n.Differs = cluster.Disk{State: cluster.DiskEmpty}, ""
		n.Assigned, n.Prepared, n.LeaseVoters = nil, nil, cluster.LeaseVoters{}
	case *DataDiscard:
		n := w.node(op.Node)
		n.SetAside = slices.DeleteFunc(n.SetAside, func(s cluster.SetAside) bool { return s.Name == op.Name })
	case *QuarantineSet:
		if a := w.node(op.Node).Assigned; a != nil {
			a.Quarantined = true
		}
	case *QuarantineLift:
		if a := w.node(op.Node).Assigned; a != nil {
			a.Quarantined = false
		}
	case *BackupTake:
		b := cluster.Backup{Name: w.At.UTC().Format(time.RFC3339) + "-000001", At: w.At}
		w.Store.Backups = append([]cluster.Backup{b}, w.Store.Backups...)
		w.takeSealed(op, b.Name)
	case *BackupVerify:
		w.checked(op.Name, false)
	case *BackupDrill:
		w.checked(op.Name, true)
	case *BackupPrune:
		w.Store.Backups = slices.DeleteFunc(w.Store.Backups, func(b cluster.Backup) bool {
			return slices.Contains(op.Remove, b.Name)
		})
		w.Store.Leftovers = slices.DeleteFunc(slices.Clone(w.Store.Leftovers), func(name string) bool {
			return slices.Contains(op.Remove, name)
		})
	}
}

// checked marks a backup as good.
func (w *world) checked(name string, drilled bool) {
	for i := range w.Store.Backups {
		b := &w.Store.Backups[i]
		if b.Name != name {
			continue
		}
		b.Verified = w.At
		if drilled {
			b.Drilled = w.At
		}
	}
}

// freeName returns the name of the next directory with data of token.
func freeName(list []cluster.SetAside, token cluster.Token) string {
	name := string(token)
	for i := 1; slices.ContainsFunc(list, func(s cluster.SetAside) bool { return s.Name == name }); i++ {
		name = fmt.Sprintf("%s.%d", token, i)
	}
	return name
}

// A world is an observation that may be changed without anyone else seeing.
type world struct{ cluster.Observation }

// clone copies what predictions change; the rest is shared.
func clone(obs cluster.Observation) *world {
	obs.Nodes = slices.Clone(obs.Nodes)
	for i := range obs.Nodes {
		if a := obs.Nodes[i].Assigned; a != nil {
			c := *a
			obs.Nodes[i].Assigned = &c
		}
		obs.Nodes[i].SetAside = slices.Clone(obs.Nodes[i].SetAside)
	}
	obs.Members = slices.Clone(obs.Members)
	obs.Store.Incarnations = slices.Clone(obs.Store.Incarnations)
	obs.Store.Backups = slices.Clone(obs.Store.Backups)
	return &world{obs}
}

func (w *world) sort() {
	slices.SortFunc(w.Members, func(a, b cluster.Member) int {
		return cmp.Or(strings.Compare(string(a.Name), string(b.Name)), cmp.Compare(a.ID, b.ID))
	})
}

// node returns the node of that name; for an unknown one a temporary one.
func (w *world) node(name cluster.NodeName) *cluster.Node {
	for i := range w.Nodes {
		if w.Nodes[i].Name == name {
			return &w.Nodes[i]
		}
	}
	return &cluster.Node{}
}

func (w *world) nextID() cluster.MemberID {
	next := cluster.MemberID(1)
	for _, m := range w.Members {
		next = max(next, m.ID+1)
	}
	for _, n := range w.Nodes {
		next = max(next, n.Disk.MemberID+1)
	}
	return next
}

func (w *world) start(op *MemberStart) {
	n := w.node(op.Node)
	restored := n.Prepared != nil && n.Prepared.Backup != ""
	n.Prepared = nil
	n.Assigned = &cluster.Assigned{Token: op.Token, Version: op.Version, Quarantined: restored}
	n.Process = cluster.Process{State: cluster.ProcessRunning, Version: op.Version, Since: w.At}
	if op.AcceptData != 0 {
		n.Differs = ""
	}
	if n.LeaseVoters.Token != op.Token || op.Mode != StartNew && w.LeaseVoters.Token == op.Token {
		n.LeaseVoters = cluster.LeaseVoters{
			Token: op.Token, Term: w.LeaseVoters.Term, Seq: w.LeaseVoters.Seq, Names: w.LeaseVoters.Names,
		}
	}
	if op.Mode == StartNew {
		w.found(op)
	}
	for i := range w.Members {
		m := &w.Members[i]
		if m.Name != n.Name && (m.Name != "" || !overlap(m.PeerURLs, n.URLs.Peer)) {
			continue
		}
		m.Name, m.ClientURLs, n.Serving = n.Name, n.URLs.Client, m.PeerURLs
		n.PeerKeys = n.PeerKeys || cluster.SecureURLs(n.URLs.Peer)
		if w.Leader != 0 {
			markHealthy(m)
		}
		for _, o := range w.Members {
			m.Applied = max(m.Applied, o.Applied)
		}
		n.Disk = cluster.Disk{State: cluster.DiskData, Token: op.Token, MemberID: m.ID}
	}
	if w.Leader == 0 {
		w.wake()
	}
}

// markHealthy makes m one that serves.
func markHealthy(m *cluster.Member) {
	m.Healthy, m.UnhealthySince = true, time.Time{}
	m.Condition, m.Why, m.LateSince = cluster.Serving, "", time.Time{}
}

// wake makes the voters that run healthy, if they are a majority.
func (w *world) wake() {
	var running []int
	voters := 0
	for i, m := range w.Members {
		if m.Learner {
			continue
		}
		voters++
		if n := w.node(m.Name); n.Reachable && n.Process.State == cluster.ProcessRunning && n.Disk.MemberID == m.ID {
			running = append(running, i)
		}
	}
	if len(running) < cluster.Quorum(voters) {
		return
	}
	for _, i := range running {
		markHealthy(&w.Members[i])
	}
	w.elect()
}

// found makes the member list of a new cluster, when its first voter starts.
func (w *world) found(op *MemberStart) {
	if len(w.Members) > 0 {
		return
	}
	for _, s := range op.Peers {
		w.Members = append(w.Members, cluster.Member{
			ID: w.nextID(), Name: s.Name, PeerURLs: s.PeerURLs, UnhealthySince: w.At,
		})
	}
}

func (w *world) elect() {
	healthy, voters, first := 0, 0, cluster.MemberID(0)
	for _, m := range w.Members {
		if m.Learner {
			continue
		}
		voters++
		if m.Healthy {
			healthy++
			if first == 0 {
				first = m.ID
			}
		}
	}
	w.Leader = 0
	if healthy >= cluster.Quorum(voters) {
		w.Leader = first
	}
}

func (w *world) stop(name cluster.NodeName) {
	n := w.node(name)
	if n.Assigned != nil {
		n.Assigned.Stopped = true
	}
	n.Process = cluster.Process{State: cluster.ProcessStopped, Since: w.At}
	for i := range w.Members {
		m := &w.Members[i]
		if m.ID != n.Disk.MemberID {
			continue
		}
		m.Healthy, m.UnhealthySince, m.Condition = false, w.At, cluster.Down
		if w.Leader == m.ID {
			w.elect()
		}
	}
}

func (w *world) remove(id cluster.MemberID) {
	w.Members = slices.DeleteFunc(w.Members, func(m cluster.Member) bool { return m.ID == id })
	if w.Leader == id {
		w.elect()
	}
}

func (w *world) writeLeaseVoters(op *LeaseVotersWrite) {
	w.LeaseVoters = cluster.LeaseVoters{
		Token: op.Token, Term: w.LeaseVoters.Term, Seq: w.LeaseVoters.Seq + 1, Names: op.Names,
	}
	for i := range w.Nodes {
		n := &w.Nodes[i]
		// One that leaves gets it too, if it has a record to compare with.
		leaves := slices.Contains(op.Expect, n.Name) && n.LeaseVoters.Token == op.Token
		if n.Reachable && (slices.Contains(op.Names, n.Name) || leaves) {
			n.LeaseVoters = w.LeaseVoters
		}
	}
}
