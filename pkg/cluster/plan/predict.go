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
func (p *prediction) predictMembers(op Operation) {
	switch op := op.(type) {
	case *AddLearner:
		p.Members = append(p.Members, cluster.Member{
			ID: p.nextID(), PeerURLs: op.PeerURLs, Learner: true, LearnerSince: p.At,
		})
	case *Promote:
		for i := range p.Members {
			if p.Members[i].Name == op.Name {
				p.Members[i].Learner, p.Members[i].LearnerSince = false, time.Time{}
			}
		}
	case *Remove:
		p.remove(op.ID)
	case *MemberUpdate:
		for i := range p.Members {
			if p.Members[i].ID == op.ID {
				p.Members[i].PeerURLs = op.PeerURLs
			}
		}
	case *MoveLeader:
		for _, m := range p.Members {
			if m.Name == op.To {
				p.Leader = m.ID
			}
		}
	}
}

// record adds an incarnation. One that was restored ends what ran before.
func (p *prediction) record(op *IncarnationCreate) {
	rec := cluster.Incarnation{Number: op.Number, Token: op.Token, Version: op.Version, Voters: op.Voters, At: p.At}
	if op.Backup != "" {
		rec.Restored = &cluster.Restored{Request: op.Request, Backup: op.Backup, Revision: op.Revision, Before: op.Before}
		p.Members, p.Leader = nil, 0
	}
	p.Store.Incarnations = append(p.Store.Incarnations, rec)
	p.Token = op.Token
	for _, n := range p.Nodes {
		if p.LeaseVoters.Token != op.Token && n.LeaseVoters.Token == op.Token {
			p.LeaseVoters = n.LeaseVoters
		}
	}
}

func (p *prediction) predictRestore(op Operation) {
	switch op := op.(type) {
	case *RestoreStage:
		p.node(op.Node).Staged = &cluster.Staged{
			Request: op.Request, Backup: op.Backup, Token: op.Token, Version: op.Version, Voters: op.Voters,
			Revision: op.Revision, Ready: true,
		}
	case *RestoreSwitch:
		p.changeOver(op)
	case *RestoreDiscard:
		p.node(op.Node).Staged = nil
	case *RequestClose:
		p.Store.Requests = slices.DeleteFunc(slices.Clone(p.Store.Requests), func(r cluster.Request) bool {
			return r.Name == op.Name
		})
	}
}

func (p *prediction) changeOver(op *RestoreSwitch) {
	n := p.node(op.Node)
	n.Process = cluster.Process{State: cluster.ProcessStopped, Since: p.At}
	if n.Disk.State == cluster.DiskData {
		n.SetAside = append(n.SetAside, cluster.SetAside{Name: freeName(n.SetAside, n.Disk.Token), At: p.At})
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
	if p.LeaseVoters.Token != s.Token {
		p.LeaseVoters = n.LeaseVoters
	}
}

// predictUpkeep covers the operations that leave the membership alone.
func (p *prediction) predictUpkeep(op Operation) {
	switch op := op.(type) {
	case *DataSetAside:
		n := p.node(op.Node)
		if n.Disk.State == cluster.DiskData {
			n.SetAside = append(n.SetAside, cluster.SetAside{Name: freeName(n.SetAside, op.Token), At: p.At})
		}
		n.Disk, n.Differs = cluster.Disk{State: cluster.DiskEmpty}, ""
		n.Assigned, n.Prepared, n.LeaseVoters = nil, nil, cluster.LeaseVoters{}
	case *DataDiscard:
		n := p.node(op.Node)
		n.SetAside = slices.DeleteFunc(n.SetAside, func(s cluster.SetAside) bool { return s.Name == op.Name })
	case *QuarantineSet:
		if a := p.node(op.Node).Assigned; a != nil {
			a.Quarantined = true
		}
	case *QuarantineLift:
		if a := p.node(op.Node).Assigned; a != nil {
			a.Quarantined = false
		}
	case *BackupTake:
		b := cluster.Backup{Name: p.At.UTC().Format(time.RFC3339) + "-000001", At: p.At}
		p.Store.Backups = append([]cluster.Backup{b}, p.Store.Backups...)
		p.takeSealed(op, b.Name)
	case *BackupVerify:
		p.checked(op.Name, false)
	case *BackupDrill:
		p.checked(op.Name, true)
	case *BackupPrune:
		p.Store.Backups = slices.DeleteFunc(p.Store.Backups, func(b cluster.Backup) bool {
			return slices.Contains(op.Remove, b.Name)
		})
		p.Store.Leftovers = slices.DeleteFunc(slices.Clone(p.Store.Leftovers), func(name string) bool {
			return slices.Contains(op.Remove, name)
		})
	}
}

// checked marks a backup as good.
func (p *prediction) checked(name string, drilled bool) {
	for i := range p.Store.Backups {
		b := &p.Store.Backups[i]
		if b.Name != name {
			continue
		}
		b.Verified = p.At
		if drilled {
			b.Drilled = p.At
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

// A prediction is an observation that may be changed without anyone else seeing.
type prediction struct{ cluster.Observation }

// clone copies what predictions change; the rest is shared.
func clone(obs cluster.Observation) *prediction {
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
	return &prediction{obs}
}

func (p *prediction) sort() {
	slices.SortFunc(p.Members, func(a, b cluster.Member) int {
		return cmp.Or(strings.Compare(string(a.Name), string(b.Name)), cmp.Compare(a.ID, b.ID))
	})
}

// node returns the node of that name; for an unknown one a temporary one.
func (p *prediction) node(name cluster.NodeName) *cluster.Node {
	for i := range p.Nodes {
		if p.Nodes[i].Name == name {
			return &p.Nodes[i]
		}
	}
	return &cluster.Node{}
}

func (p *prediction) nextID() cluster.MemberID {
	next := cluster.MemberID(1)
	for _, m := range p.Members {
		next = max(next, m.ID+1)
	}
	for _, n := range p.Nodes {
		next = max(next, n.Disk.MemberID+1)
	}
	return next
}

func (p *prediction) start(op *MemberStart) {
	n := p.node(op.Node)
	restored := n.Prepared != nil && n.Prepared.Backup != ""
	n.Prepared = nil
	n.Assigned = &cluster.Assigned{Token: op.Token, Version: op.Version, Quarantined: restored}
	n.Process = cluster.Process{State: cluster.ProcessRunning, Version: op.Version, Since: p.At}
	if op.AcceptData != 0 {
		n.Differs = ""
	}
	if n.LeaseVoters.Token != op.Token || op.Mode != StartNew && p.LeaseVoters.Token == op.Token {
		n.LeaseVoters = cluster.LeaseVoters{
			Token: op.Token, Term: p.LeaseVoters.Term, Seq: p.LeaseVoters.Seq, Names: p.LeaseVoters.Names,
		}
	}
	if op.Mode == StartNew {
		p.found(op)
	}
	for i := range p.Members {
		m := &p.Members[i]
		if m.Name != n.Name && (m.Name != "" || !overlap(m.PeerURLs, n.URLs.Peer)) {
			continue
		}
		m.Name, m.ClientURLs, n.Serving = n.Name, n.URLs.Client, m.PeerURLs
		n.PeerKeys = n.PeerKeys || cluster.SecureURLs(n.URLs.Peer)
		if p.Leader != 0 {
			markHealthy(m)
		}
		for _, o := range p.Members {
			m.Applied = max(m.Applied, o.Applied)
		}
		n.Disk = cluster.Disk{State: cluster.DiskData, Token: op.Token, MemberID: m.ID}
	}
	if p.Leader == 0 {
		p.wake()
	}
}

// markHealthy makes m one that serves.
func markHealthy(m *cluster.Member) {
	m.Healthy, m.UnhealthySince = true, time.Time{}
	m.Condition, m.Why, m.LateSince = cluster.Serving, "", time.Time{}
}

// wake makes the voters that run healthy, if they are a majority.
func (p *prediction) wake() {
	var running []int
	voters := 0
	for i, m := range p.Members {
		if m.Learner {
			continue
		}
		voters++
		if n := p.node(m.Name); n.Reachable && n.Process.State == cluster.ProcessRunning && n.Disk.MemberID == m.ID {
			running = append(running, i)
		}
	}
	if len(running) < cluster.Quorum(voters) {
		return
	}
	for _, i := range running {
		markHealthy(&p.Members[i])
	}
	p.elect()
}

// found makes the member list of a new cluster, when its first voter starts.
func (p *prediction) found(op *MemberStart) {
	if len(p.Members) > 0 {
		return
	}
	for _, s := range op.Peers {
		p.Members = append(p.Members, cluster.Member{
			ID: p.nextID(), Name: s.Name, PeerURLs: s.PeerURLs, UnhealthySince: p.At,
		})
	}
}

func (p *prediction) elect() {
	healthy, voters, first := 0, 0, cluster.MemberID(0)
	for _, m := range p.Members {
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
	p.Leader = 0
	if healthy >= cluster.Quorum(voters) {
		p.Leader = first
	}
}

func (p *prediction) stop(name cluster.NodeName) {
	n := p.node(name)
	if n.Assigned != nil {
		n.Assigned.Stopped = true
	}
	n.Process = cluster.Process{State: cluster.ProcessStopped, Since: p.At}
	for i := range p.Members {
		m := &p.Members[i]
		if m.ID != n.Disk.MemberID {
			continue
		}
		m.Healthy, m.UnhealthySince, m.Condition = false, p.At, cluster.Down
		if p.Leader == m.ID {
			p.elect()
		}
	}
}

func (p *prediction) remove(id cluster.MemberID) {
	p.Members = slices.DeleteFunc(p.Members, func(m cluster.Member) bool { return m.ID == id })
	if p.Leader == id {
		p.elect()
	}
}

func (p *prediction) writeLeaseVoters(op *LeaseVotersWrite) {
	p.LeaseVoters = cluster.LeaseVoters{
		Token: op.Token, Term: p.LeaseVoters.Term, Seq: p.LeaseVoters.Seq + 1, Names: op.Names,
	}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		// One that leaves gets it too, if it has a record to compare with.
		leaves := slices.Contains(op.Expect, n.Name) && n.LeaseVoters.Token == op.Token
		if n.Reachable && (slices.Contains(op.Names, n.Name) || leaves) {
			n.LeaseVoters = p.LeaseVoters
		}
	}
}
