package sim

import (
	"slices"
	"strconv"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// ask queues a request for a restore, or for a backup. Now and then the backup
// is one that is not there, and the size another one.
func (w *world) ask(f Fault) {
	r := cluster.Request{At: w.now, Kind: cluster.RequestBackup}
	if slices.ContainsFunc(w.store.requests, func(q cluster.Request) bool { return q.Kind == cluster.RequestRestore }) {
		return
	}
	w.asked++
	r.Name = "r" + strconv.Itoa(w.asked)
	if f.Kind == RestoreAsked {
		r.Kind, r.Backup, r.SkipBackup = cluster.RequestRestore, "gone", f.N%3 == 0
		if n := len(w.store.backups); n > 0 && f.N%9 != 0 {
			r.Backup = w.store.backups[f.N%n].Name
		}
		if f.N%4 == 0 {
			r.MemberCount = 1 + f.N%min(len(w.nodes), cluster.MaxMembers)
		}
	}
	w.store.requests = append(slices.Clone(w.store.requests), r)
}

// resume ends a pause.
func (w *world) resume() {
	w.store.requests = slices.DeleteFunc(slices.Clone(w.store.requests), func(r cluster.Request) bool {
		return r.Kind == cluster.RequestPause
	})
}

// wanted is what the store says of the backup that is to be restored.
func (w *world) wanted() *cluster.Source {
	for _, r := range w.store.requests {
		decided := slices.ContainsFunc(w.store.incarnations, func(i cluster.Incarnation) bool {
			return i.Restored != nil && i.Restored.Request == r.Name
		})
		switch {
		case r.Kind != cluster.RequestRestore || decided:
		case r.Sealed:
			return w.sealedSource(r)
		default:
			return &cluster.Source{Request: r.Name, Backup: r.Backup, Version: version}
		}
	}
	return nil
}

func (w *world) closeRequest(by *node, op *plan.RequestClose) error {
	if w.unreadable(by) {
		return errUnreachable
	}
	w.store.requests = slices.DeleteFunc(slices.Clone(w.store.requests), func(r cluster.Request) bool {
		return r.Name == op.Name
	})
	return nil
}

// decideRestore writes the record of a restored incarnation. From then on what
// ran before is at its end, wherever it still runs.
func (w *world) decideRestore(by *node, op *plan.IncarnationCreate) error {
	for _, s := range op.Voters {
		n := w.node(s.Name)
		if n == nil || n.staged == nil || !n.staged.Ready || n.staged.Token != op.Token {
			w.violate("restore", "%s has not restored %s when %s is decided on", s.Name, op.Backup, op.Token)
		}
	}
	for _, i := range w.store.incarnations {
		if i.Restored != nil && i.Restored.Revision >= op.Revision {
			w.violate("restore", "%s begins with revision %d, %s began with %d", op.Token, op.Revision, i.Token,
				i.Restored.Revision)
		}
		if i.Restored != nil && i.Restored.Request == op.Request {
			w.violate("restore", "request %s is carried out twice", op.Request)
		}
	}
	// Where all that showed it have gone back, too, or do not answer, nobody can know.
	token := w.carried[op.Request]
	if g := w.group(token); g != nil && token != op.Token && g.commit > 0 && w.seesDataOf(by, token, op.Request) {
		w.violate("restore", "request %s, by which %s began, is carried out again as %s", op.Request, token, op.Token)
	}
	w.carried[op.Request] = op.Token
	w.checkSealed(by, op)
	w.store.incarnations = append(slices.Clone(w.store.incarnations), cluster.Incarnation{
		Number: op.Number, Token: op.Token, Version: op.Version, Voters: op.Voters, At: w.now,
		Restored: &cluster.Restored{Request: op.Request, Backup: op.Backup, Revision: op.Revision, Before: op.Before},
	})
	for _, g := range w.groups {
		if !g.ended {
			g.ended, g.over = true, op.Token
		}
		g.forgotten = false
	}
	return nil
}

func (w *world) restore(n *node, op plan.Operation) error {
	switch op := op.(type) {
	case *plan.RestoreStage:
		if n.staged != nil && n.staged.Token == op.Token {
			return nil
		}
		if n.prepared != nil && n.prepared.Token == op.Token || n.assigned != nil && n.assigned.Token == op.Token {
			return errRefuse
		}
		if n.staged != nil && n.staged.Token != op.Replaces {
			return &plan.StaleError{Want: string(op.Replaces), Got: string(n.staged.Token)}
		}
		n.staged = &cluster.Staged{
			Request: op.Request, Backup: op.Backup, Token: op.Token, Version: op.Version, Voters: op.Voters,
			Revision: op.Revision,
		}
	case *plan.RestoreDiscard:
		if n.staged != nil && n.staged.Token == op.Token {
			n.staged = nil
		}
	case *plan.RestoreSwitch:
		return w.changeOver(n, op)
	}
	return nil
}

func (w *world) changeOver(n *node, op *plan.RestoreSwitch) error {
	s := n.staged
	switch {
	case n.assigned != nil && n.assigned.Token == op.Token, n.prepared != nil && n.prepared.Token == op.Token:
		return nil
	case n.assigned == nil && n.disk.data && n.disk.token == op.Token:
		return nil // it has been there, and lost its memory of it
	case n.assigned != nil && n.assigned.Token != op.ExpectToken:
		return errRefuse
	case s != nil && s.Token == op.Token && !s.Ready:
		return errRefuse
	}
	var votes lease.Durable
	if s != nil && s.Token == op.Token {
		var err error
		if votes, err = n.grantor.Durable.Prepare(op.Token, cluster.InitialMemberNames(s.Voters)); err != nil {
			return err
		}
	}
	if n.disk.data && n.disk.token != op.Token {
		w.checkMoved(n)
		n.setAside = append(slices.Clone(n.setAside), cluster.SetAside{
			Name: string(n.disk.token) + ".r" + strconv.Itoa(w.step), At: n.wall(w.now),
		})
	}
	if n.disk.token != op.Token {
		n.disk = disk{}
	}
	n.assigned, n.prepared, n.process = nil, nil, cluster.ProcessStopped
	if s == nil || s.Token != op.Token {
		return nil
	}
	n.grantor.Durable = votes
	n.prepared = &cluster.Prepared{Token: s.Token, Version: s.Version, Voters: s.Voters, Backup: s.Backup}
	n.restored, n.staged, n.mark = s.Token, nil, max(n.mark, s.Revision)
	n.switched = append(n.switched, s.Token)
	return nil
}

// stage lets the nodes go on with what they restore.
func (w *world) stage() {
	for _, n := range w.nodes {
		if n.staged != nil && !n.staged.Ready && n.up && (w.quiet || w.chance(2)) {
			s := *n.staged
			s.Problem, s.Refused = w.cannotStage(n)
			s.Ready = s.Problem == ""
			n.staged = &s
		}
	}
}

// leaving reports whether n still runs an incarnation that a restore has ended.
func (w *world) leaving(n *node) bool {
	if n.assigned == nil {
		return false
	}
	g := w.group(n.assigned.Token)
	return g != nil && g.ended
}

// resurrect is a second record of what runs: the restore that had ended it never
// began, and never can. Fewer of its voters than a majority may still have what it was
// to begin with: it is of no use to them.
func (w *world) resurrect(token cluster.Token) {
	g := w.group(token)
	if g != nil && !g.ended || g == nil && !w.recorded(token) || len(w.store.incarnations) == 0 {
		return
	}
	rec := w.store.incarnations[len(w.store.incarnations)-1]
	newest, waiting := rec.Token, 0
	if newest == token {
		return
	}
	for _, n := range w.nodes {
		if n.disk.data && n.disk.token == newest {
			w.violate("restore", "%s has data of %s, which was restored, when %s gets a newer record", n.name, newest, token)
		}
		if n.staged != nil && n.staged.Token == newest || n.prepared != nil && n.prepared.Token == newest {
			waiting++
		}
	}
	if waiting >= cluster.Quorum(len(rec.Voters)) {
		w.violate("restore", "%d of %d have what was restored as %s when %s gets a newer record", waiting, len(rec.Voters),
			newest, token)
	}
	if g != nil {
		w.reviveGroup(g) // who has begun with what is forgotten may have gone just now
		g.ended = false
	}
}
