package plan

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// What is left of a restore that was decided, and never began.

// uncommittedFor returns the record of a restore for the request that never began: one
// of the newest, of which too little is left, or one after which what was there before
// got a newer record.
func (l *view) uncommittedFor(name string) *cluster.Incarnation {
	list := l.obs.Store.Incarnations
	newest := true
	for i := len(list) - 1; i >= 0; i-- {
		newest = newest && l.obs.Uncommitted(list[i])
		if list[i].Restored == nil || list[i].Restored.Request != name {
			continue
		}
		again := slices.ContainsFunc(list[i+1:], func(later cluster.Incarnation) bool {
			return slices.ContainsFunc(list[:i], func(e cluster.Incarnation) bool { return e.Token == later.Token })
		})
		if newest || again {
			return &list[i]
		}
	}
	return nil
}

// recordAgain returns the operation that writes a newer record of what was there before
// a restore that never began, nil where it is not needed. Nodes that know nothing
// themselves hold a coordinator to the newest record: by that of such a restore nobody
// can be it, and they would stage nothing for another one, and discard nothing.
func (l *view) recordAgain() Operation {
	newest, present := newestRecord(l.obs), l.record()
	if newest == nil || present == nil || newest.Number == present.Number || l.obs.Store.RecordsProblem != "" {
		return nil
	}
	op := &IncarnationCreate{
		Number: l.nextNumber(), Token: present.Token, Version: l.version(), Voters: l.initialMembers(),
	}
	switch {
	case len(l.obs.Members) == 0:
		if l.obs.LeaseVoters.Token != present.Token {
			return nil // nobody could coordinate by it, either
		}
		op.Voters, op.Version = present.Voters, present.Version
	case l.obs.Token != present.Token:
		return nil
	}
	return op
}

// firstRecord returns the first record of an incarnation that has one. A later one does
// not report when it began.
func (l *view) firstRecord(token cluster.Token) cluster.Incarnation {
	i := slices.IndexFunc(l.obs.Store.Incarnations, func(i cluster.Incarnation) bool { return i.Token == token })
	return l.obs.Store.Incarnations[i]
}
