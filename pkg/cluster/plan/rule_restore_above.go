package plan

import (
	"fmt"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A seenToken is a revision that something shows, and what to do if it leaves no room
// above it.
type seenToken struct {
	revision cluster.Revision
	by, next string
}

// roomAbove reports whether a restored cluster can begin above all that was seen and
// still be backed up and restored afterwards. If not it holds for each that shows it
// more: one of them may be damage, or somebody else's.
func (l *view) roomAbove() bool {
	room, top := true, l.highestBegin()
	for _, s := range l.seenTokens() {
		if s.revision > top-aboveAll {
			room = false
			l.hold(RecordInvalid, "%s revision %d, and this cluster is not restored above %d: %s", s.by, s.revision, top, s.next)
		}
	}
	return room
}

// highestBegin returns the highest revision that a restored cluster may begin with: what
// only the store shows may be anybody's, and must leave room for later restores.
func (l *view) highestBegin() cluster.Revision {
	own := l.obs.Revision
	for _, n := range l.obs.Nodes {
		own = max(own, n.Revision)
	}
	if own < cluster.MaxLeap/2 {
		return cluster.MaxLeap
	}
	return cluster.MaxBegin
}

// seenTokens returns what Observation.HighWater is the highest of.
func (l *view) seenTokens() []seenToken {
	const byHand = "if that is so, restore by hand with etcdadm snapshot restore --bump-revision=N, and restart all clients"
	list := []seenToken{
		{l.obs.Store.Revision, "control/revision says that clients have seen",
			"delete control/revision from the store; it is written again from what the members report"},
		{l.obs.Revision, "the members report", byHand},
	}
	if src := l.obs.Store.Source; src != nil {
		list = append(list, seenToken{src.Revision, "backup " + src.Backup + " is described with", "restore another backup"})
		if src.Seen > src.Revision {
			list = append(list, seenToken{src.Seen, "the newest backup is described with",
				"delete that backup from the store if it is not this cluster's"})
		}
	}
	for _, i := range l.obs.Store.Incarnations {
		if i.Restored != nil {
			list = append(list, seenToken{i.Restored.Revision, fmt.Sprintf("the record of incarnation %d begins with", i.Number),
				fmt.Sprintf("delete control/incarnations/%d from the store if it belongs to no incarnation that ever existed",
					i.Number)})
		}
	}
	for _, n := range l.obs.Nodes {
		list = append(list, seenToken{n.Revision, fmt.Sprintf("%s has seen", n.Name), byHand})
	}
	return list
}
