package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
)

var (
	errUnreachable = errors.New("no answer")
	errRefuse      = errors.New("refused")
)

// do carries op out for the coordinator on by, whose observation was obs. Where it
// returns an error, nothing has happened.
func (w *world) do(by *node, obs *cluster.Observation, op plan.Operation) error {
	term, err := w.confirm(by, obs, op)
	if err != nil {
		return err
	}
	defer w.at(by)()
	if name, ok := plan.Target(op); ok {
		n := w.node(name)
		if n == nil || !w.reaches(by, n) || n.hangs() || !w.quiet && w.step < n.failsTo {
			return errUnreachable
		}
		if c, ok := op.(*plan.MemberChangeVersion); ok && !w.othersServe(by, c) {
			return fmt.Errorf("not all other voters serve: %w", errRefuse)
		}
		o := order{by: by, term: term, leaseVoters: w.claim(by), op: op}
		if w.late {
			l := lateOrder{to: n, run: n.runs, order: o, due: w.step + 1 + w.rand.IntN(20), mayWait: w.mayWait(op)}
			w.late, w.orders = false, append(w.orders, l)
			return errUnreachable
		}
		return w.obey(n, o)
	}
	switch op := op.(type) {
	case *plan.IncarnationCreate:
		return w.createIncarnation(by, op)
	case *plan.IncarnationMark:
		if w.unreadable(by) {
			return errUnreachable
		}
		w.store.created = w.now
		return nil
	case *plan.SpecWrite:
		if w.unreadable(by) {
			return errUnreachable
		}
		if op.Request != "" {
			w.followed(op)
		}
		w.store.specMissing = false
		return nil
	case *plan.RequestClose:
		return w.closeRequest(by, op)
	case *plan.BackupPrune:
		return w.prune(by, obs, op)
	case *plan.LeaseVotersWrite:
		return w.writeLeaseVoters(by, op)
	}
	g := w.group(obs.Token)
	if g == nil || !w.serves(g, by) {
		return errUnreachable
	}
	return w.reconfigure(by, g, op)
}

func (w *world) createIncarnation(by *node, op *plan.IncarnationCreate) error {
	if w.unreadable(by) {
		return errUnreachable
	}
	for _, i := range w.store.incarnations {
		if i.Number == op.Number {
			if i.Token == op.Token {
				return nil
			}
			return fmt.Errorf("incarnation %d exists: %w", op.Number, errRefuse)
		}
	}
	if op.Backup != "" {
		return w.decideRestore(by, op)
	}
	w.checkBootstrap(op)
	w.resurrect(op.Token)
	list := slices.Clone(w.store.incarnations)
	w.store.incarnations = append(list, cluster.Incarnation{
		Number: op.Number, Token: op.Token, Version: op.Version, Voters: op.Voters, At: w.now,
	})
	// A store is listed by number: records are written in another order where it was emptied.
	slices.SortFunc(w.store.incarnations, func(a, b cluster.Incarnation) int { return a.Number - b.Number })
	return nil
}

// prune looks for the backup that is to stay first: what was observed may be of the past.
func (w *world) prune(by *node, obs *cluster.Observation, op *plan.BackupPrune) error {
	if w.unreadable(by) {
		return errUnreachable
	}
	if !w.config.Trusting && !w.stays(obs.Store.Backups, op.Remove) {
		return fmt.Errorf("the backup that is to stay is not there: %w", errRefuse)
	}
	if len(w.store.backups) > 0 && slices.Contains(op.Remove, w.store.backups[0].Name) {
		w.violate("newest", "the newest backup %s was pruned", w.store.backups[0].Name)
	}
	w.store.backups = slices.DeleteFunc(slices.Clone(w.store.backups), func(b cluster.Backup) bool {
		return slices.Contains(op.Remove, b.Name)
	})
	return nil
}

// stays reports whether the store has the newest good backup of a list, without those that are to
// go.
func (w *world) stays(listed []cluster.Backup, remove []string) bool {
	for _, b := range listed { // newest first
		if !b.Damaged && !slices.Contains(remove, b.Name) {
			return slices.ContainsFunc(w.store.backups, func(o cluster.Backup) bool { return o.Name == b.Name })
		}
	}
	return true
}

// reconfigure changes the member list through the leader of g.
func (w *world) reconfigure(by *node, g *group, op plan.Operation) error {
	switch op := op.(type) {
	case *plan.AddLearner:
		host := w.node(op.Node)
		for _, m := range g.members {
			if m.host == host {
				return nil
			}
			if m.learner {
				return fmt.Errorf("too many learners: %w", errRefuse)
			}
		}
		w.checkBackup(by, "member added")
		w.endHidden(g)
		g.members = append(slices.Clone(g.members), member{id: w.nextMember, host: host, learner: true, healthy: w.now})
		w.nextMember++
	case *plan.Promote:
		return w.promote(g, op)
	case *plan.Remove:
		m := g.find(op.ID)
		if m == nil {
			return nil
		}
		if !m.learner {
			w.checkRemoval(by, g, m)
		}
		id := m.id
		g.members = slices.DeleteFunc(slices.Clone(g.members), func(m member) bool { return m.id == id })
		if g.leader == id {
			g.leader = 0
		}
	case *plan.DowngradeEnable, *plan.DowngradeCancel:
		return w.downgrade(g, op)
	case *plan.MoveLeader:
		for _, m := range g.members {
			if m.name == op.To && !m.learner && w.follows(g, &m) && w.mayLead(g, &m) {
				g.leader = m.id
				return nil
			}
		}
		return errRefuse
	default:
		return fmt.Errorf("%s: %w", plan.KindOf(op).Path, errRefuse)
	}
	sortMembers(g.members)
	w.apply(g)
	return nil
}

// apply sends the members that follow the leader the new member list.
func (w *world) apply(g *group) {
	for i := range g.members {
		if m := &g.members[i]; w.follows(g, m) {
			m.host.disk.members = g.members
		}
	}
}

func (w *world) promote(g *group, op *plan.Promote) error {
	for i, m := range g.members {
		if m.name != op.Name {
			continue
		}
		// etcd compares indexes and asks for nothing else.
		if m.learner && m.host.disk.index < g.commit*9/10 {
			return fmt.Errorf("the learner is not in sync with the leader: %w", errRefuse)
		}
		g.members = slices.Clone(g.members)
		g.members[i].learner = false
		w.apply(g)
		return nil
	}
	return errRefuse
}

// obey has n carry an order out.
func (w *world) obey(n *node, o order) error {
	defer w.at(n)()
	if err := w.entitled(n, o); err != nil {
		return err
	}
	switch op := o.op.(type) {
	case *plan.MemberPrepare:
		if n.disk.data || n.assigned != nil || n.prepared != nil && n.prepared.Backup != "" {
			return errRefuse
		}
		d, err := n.grantor.Durable.Prepare(op.Token, cluster.InitialMemberNames(op.Voters))
		if err != nil {
			return err
		}
		n.grantor.Durable = d
		p := cluster.Prepared{Token: op.Token, Version: op.Version, Voters: op.Voters}.After(n.prepared)
		n.prepared = &p
	case *plan.MemberStart:
		return w.start(n, op, o.leaseVoters)
	case *plan.MemberChangeVersion:
		return w.changeVersion(n, op, len(o.leaseVoters.Names))
	case *plan.MemberForceSnapshot:
		return w.forceSnapshot(n, op)
	case *plan.MemberStop:
		if n.assigned == nil {
			n.process = cluster.ProcessStopped
			return nil
		}
		if !w.config.Trusting && (n.assigned.Token != op.ExpectToken || n.disk.known && n.disk.id != op.ExpectMemberID) {
			return errRefuse
		}
		a := *n.assigned
		a.Stopped = true
		n.assigned, n.process = &a, cluster.ProcessStopped
	case *plan.LeaseVotersRecover:
		return w.recoverLeaseVoters(n, op)
	case *plan.LeaseVotersAdopt:
		return w.adoptLeaseVoters(n, op)
	case *plan.DataSetAside:
		return w.moveAside(n, op)
	case *plan.DataDiscard:
		n.setAside = slices.DeleteFunc(slices.Clone(n.setAside), func(s cluster.SetAside) bool {
			return s.Name == op.Name && plan.MomentOf(s.At) == op.ExpectAt
		})
	case *plan.QuarantineSet:
		return n.quarantine(true)
	case *plan.QuarantineLift:
		w.checkOpened(n)
		return n.quarantine(false)
	case *plan.BackupTake:
		return w.backup(n, op)
	case *plan.BackupVerify, *plan.BackupDrill:
		return w.inspect(n, op)
	case *plan.RestoreStage, *plan.RestoreSwitch, *plan.RestoreDiscard:
		return w.restore(n, op)
	default:
		return fmt.Errorf("%s: %w", plan.KindOf(o.op).Path, errRefuse)
	}
	return nil
}

func (n *node) quarantine(on bool) error {
	if n.assigned == nil {
		return errRefuse
	}
	a := *n.assigned
	a.Quarantined = on
	n.assigned = &a
	return nil
}

func (w *world) backup(n *node, op *plan.BackupTake) error {
	if w.unreadable(n) {
		return errUnreachable
	}
	if n.assigned == nil || n.process != cluster.ProcessRunning {
		return errRefuse
	}
	if w.config.Sealed && !w.reports(w.group(n.disk.token), n) {
		return errUnreachable // it is taken behind a read through the quorum
	}
	at := n.wall(w.now)
	name := retention.Name(at, w.step)
	list := append([]cluster.Backup{{Name: name, At: at.Truncate(time.Second)}}, w.store.backups...)
	slices.SortStableFunc(list, func(a, b cluster.Backup) int { return b.At.Compare(a.At) })
	w.store.backups = list
	if w.store.made == nil {
		w.store.made, w.store.taken = map[string]time.Time{}, map[string]snapshot{}
	}
	w.store.made[name], w.store.taken[name] = w.now, n.snapshot(op.Reason)
	return nil
}

func (w *world) inspect(by *node, op plan.Operation) error {
	if w.unreadable(by) {
		return errUnreachable
	}
	list := slices.Clone(w.store.backups)
	for i := range list {
		if v, ok := op.(*plan.BackupVerify); ok && v.Name == list[i].Name {
			list[i].Verified, list[i].Damaged = w.now, w.chance(9)
		}
		if d, ok := op.(*plan.BackupDrill); ok && d.Name == list[i].Name {
			list[i].Drilled = w.now
		}
	}
	w.store.backups = list
	return nil
}

func (w *world) moveAside(n *node, op *plan.DataSetAside) error {
	if n.process != cluster.ProcessStopped {
		return errRefuse
	}
	if n.disk.data {
		id := n.disk.id
		if !n.disk.known {
			id = 0
		}
		if !w.config.Trusting && (n.disk.token != op.Token || id != op.ExpectMemberID) {
			return errRefuse
		}
		w.checkMoved(n)
		aside := cluster.SetAside{Name: string(op.Token) + "." + strconv.FormatInt(w.now.UnixNano(), 36), At: n.wall(w.now)}
		n.setAside = append(slices.Clone(n.setAside), aside)
	}
	n.disk, n.assigned, n.prepared, n.change, n.seen = disk{}, nil, nil, nil, nil
	return nil
}
