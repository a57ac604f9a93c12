package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// drains is the first version of etcd that is known to answer what it has begun when it is asked
// to end, and to vote meanwhile. 3.5.0 and those before break it off, where clients use TLS.
var drains = etcdversion.Must("3.5.21")

// minProcessAge is how long the processes of all voters have to have run before one is drained. etcd refuses
// to remove a voter where too few have been connected for 5 s, and the process that was
// drained would end for nothing, and be younger than that when it is tried again.
const minProcessAge = 10 * time.Second

// DrainFor returns the order to be given right before op removes a voter that clients use: what
// they have asked of it would fail. It is nil where there is none: what is closed to clients
// already has none. It is a courtesy, which keeps no removal back: where the node may not be
// able to carry it out, or the last try to remove the member failed, the member is removed as it is.
func DrainFor(obs cluster.Observation, op Operation) *MemberDrain {
	remove, ok := op.(*Remove)
	if !ok || remove.ID == obs.Leader {
		return nil
	}
	line := Line(op)
	if slices.ContainsFunc(obs.Failures, func(f cluster.Failure) bool { return f.Line == line }) {
		return nil // its process would end for nothing again
	}
	l := newView(cluster.Spec{}, obs)
	if !l.ran(minProcessAge) {
		return nil
	}
	for _, m := range l.voters {
		n := l.nodeOf(m)
		switch {
		case m.ID != remove.ID || !l.serves(m):
		case n == nil || !n.Reachable || n.Storage.Bad() || n.FactsAge > maxFactsAge:
		case !l.runsMember(n, m) || n.Assigned.Quarantined || m.Version.Compare(drains) < 0:
		default:
			return &MemberDrain{Node: n.Name, ExpectToken: n.Assigned.Token, ExpectMemberID: m.ID}
		}
	}
	return nil
}

// Undrained says why [DrainFor] has no order for a voter that clients use and that op removes, and
// whose node could be given one. It is nil where there is an order, or none is needed.
func Undrained(obs cluster.Observation, op Operation) (cluster.NodeName, error) {
	remove, ok := op.(*Remove)
	if !ok || remove.ID == obs.Leader || DrainFor(obs, op) != nil {
		return "", nil
	}
	l := newView(cluster.Spec{}, obs)
	for _, m := range l.voters {
		n := l.nodeOf(m)
		if m.ID != remove.ID || !l.serves(m) || n == nil || !n.Reachable || !l.runsMember(n, m) || n.Assigned.Quarantined {
			continue
		}
		if !m.Version.IsZero() && m.Version.Compare(drains) < 0 {
			return n.Name, fmt.Errorf("etcd %s may break off what clients have asked when it is asked to end, %s and later do not",
				m.Version, drains)
		}
		if err := l.young(minProcessAge); err != nil {
			return n.Name, err
		}
	}
	return "", nil
}

// young says which voter that serves is not known to have run for so long, nil for none.
func (l *view) young(d time.Duration) error {
	for _, m := range l.voters {
		n := l.nodeOf(m)
		switch {
		case !l.serves(m):
		case n == nil || n.Process.Since.IsZero():
			return fmt.Errorf("it is not known for how long the etcd of %s has run, and etcd may refuse removals at first", m.Name)
		case l.obs.At.Sub(n.Process.Since) < d:
			return fmt.Errorf("the etcd of %s has run for %s, and until it has for %s etcd may refuse removals", m.Name,
				l.obs.At.Sub(n.Process.Since).Round(time.Second), d)
		}
	}
	return nil
}

// ran reports whether the processes of all voters that serve are known to have run for so long.
func (l *view) ran(d time.Duration) bool {
	return !slices.ContainsFunc(l.voters, func(m cluster.Member) bool {
		n := l.nodeOf(m)
		return l.serves(m) && (n == nil || n.Process.Since.IsZero() || l.obs.At.Sub(n.Process.Since) < d)
	})
}
