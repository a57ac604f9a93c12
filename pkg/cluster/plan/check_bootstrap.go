package plan

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func (c checker) prepare(op *MemberPrepare) error {
	n, err := c.node(op.Node)
	if err != nil {
		return err
	}
	if n.Disk.State != cluster.DiskEmpty || n.Assigned != nil {
		return unsafe("bootstrap", "%s has data or an assignment", op.Node)
	}
	if n.Prepared != nil && n.Prepared.Backup != "" {
		return unsafe("bootstrap", "%s has restored %s as incarnation %s", op.Node, n.Prepared.Backup, n.Prepared.Token)
	}
	if n.Prepared != nil && n.Prepared.Token != op.Token && len(c.obs.Store.Incarnations) == 0 &&
		c.notOfStore() > 0 {
		return unsafe("bootstrap", "%s has promised %s, which may have been decided on in another store", op.Node,
			n.Prepared.Token)
	}
	if len(c.obs.Store.Incarnations) > 0 && n.Prepared == nil {
		// When the record was made, every initial member had a promise. One without has
		// lost its disk, and perhaps a vote that it gave.
		return unsafe("fresh-disk", "%s has no promise to change", op.Node)
	}
	if p := n.Prepared; len(c.obs.Store.Incarnations) > 0 && p.Token != op.Token &&
		!slices.Contains(p.Earlier, op.Token) {
		// As above: it has lost its disk, and made another promise since.
		return unsafe("fresh-disk", "%s has promised %s, and never %s", op.Node, p.Token, op.Token)
	}
	if rec := newestRecord(c.obs); rec != nil && rec.Restored != nil && rec.Token == op.Token {
		return unsafe("fresh-disk", "incarnation %s begins with restored data, which %s has not", op.Token, op.Node)
	}
	return c.untouched(op.Token)
}

// untouched makes sure that nothing shows an incarnation other than token. A restore
// that never began, and never can, shows nothing.
func (c checker) untouched(token cluster.Token) error {
	if problem := c.obs.Store.RecordsProblem; problem != "" {
		return unsafe("bootstrap", "the store has incarnation records that cannot be read: %s", problem)
	}
	if n := len(c.obs.Store.Incarnations); n > 0 {
		if newest := c.obs.Store.Incarnations[n-1]; newest.Token != token && !c.followsNothing(token) {
			return unsafe("bootstrap", "incarnation %d has another token", newest.Number)
		}
		return nil // the record has decided, whatever turns up later
	}
	for _, n := range c.obs.Nodes {
		if n.Disk.State == cluster.DiskData && n.Disk.Token != token || n.Disk.State == cluster.DiskUnreadable {
			return unsafe("bootstrap", "node %s has data of another incarnation", n.Name)
		}
	}
	switch {
	case !c.obs.Store.Created.IsZero():
		return unsafe("bootstrap", "the store has the marker of an earlier cluster")
	case len(c.obs.Store.Backups) > 0:
		return unsafe("bootstrap", "the store has backups of an earlier cluster")
	case !c.obs.Store.Reachable || !c.obs.Store.BackupsKnown:
		return unsafe("bootstrap", "the store cannot be read")
	case c.policy.OnRequest && !c.bootstrapAsked():
		return unsafe("bootstrap", "no node's disk asks for a new cluster")
	}
	return nil
}

func (c checker) create(op *IncarnationCreate) error {
	if op.Backup != "" || op.Request != "" || op.Revision != 0 {
		return c.createRestored(op)
	}
	if len(c.obs.Members) > 0 && c.obs.Store.RecordsProblem == "" {
		if op.Token != c.obs.Token {
			return unsafe("bootstrap", "a cluster with another token is running")
		}
		if err := c.takesOver(op); err != nil {
			return err
		}
		return c.recordAgain(op)
	}
	if c.followsNothing(op.Token) {
		return c.recordAgain(op)
	}
	if err := c.untouched(op.Token); err != nil {
		return err
	}
	if err := c.staticMajority(); err != nil {
		return err
	}
	if err := c.oneStore(op); err != nil {
		return err
	}
	for _, s := range op.Voters {
		n, err := c.node(s.Name)
		if err != nil {
			return err
		}
		if !n.Reachable || n.Prepared == nil || n.Prepared.Token != op.Token {
			return unsafe("bootstrap", "%s has not promised", s.Name)
		}
	}
	return nil
}

func (c checker) staticMajority() error {
	list, answer := c.policy.StaticNodes, 0
	for _, n := range c.obs.Nodes {
		if n.Reachable && slices.Contains(list, n.Name) {
			answer++
		}
	}
	if len(list) > 0 && answer < cluster.Quorum(len(list)) {
		return unsafe("bootstrap", "%d of %d listed nodes answer", answer, len(list))
	}
	return nil
}
