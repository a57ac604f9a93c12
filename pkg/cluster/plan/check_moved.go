package plan

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// update makes sure that a member that is looked for elsewhere is the only one that
// others may not find for a while.
func (c checker) update(op *MemberUpdate) error {
	i := slices.IndexFunc(c.obs.Members, func(m cluster.Member) bool { return m.ID == op.ID })
	if i < 0 {
		return &StaleError{Want: "member " + op.ID.String(), Got: "none"}
	}
	m := c.obs.Members[i]
	if slices.Equal(m.PeerURLs, op.PeerURLs) {
		return nil // nothing to do
	}
	if !slices.Equal(m.PeerURLs, op.ExpectPeerURLs) {
		return &StaleError{Want: "peer URLs " + strings.Join(op.ExpectPeerURLs, ","), Got: strings.Join(m.PeerURLs, ",")}
	}
	now, then := cluster.SecureURLs(m.PeerURLs), cluster.SecureURLs(op.PeerURLs)
	if now && !then {
		return unsafe("quorum", "%s would give up TLS, and the others would not find it", m.Name)
	}
	if keyless := c.obs.Keyless(); !now && then && len(keyless) > 0 {
		return unsafe("quorum", "%s has no keys, and could not call %s with TLS", keyless[0], m.Name)
	}
	for _, o := range c.obs.Members {
		if o.ID != op.ID && cluster.SharePeerURL(o.PeerURLs, op.PeerURLs) {
			return unsafe("quorum", "etcd looks for %s there", fmt.Sprintf("%s (%s)", o.Name, o.ID))
		}
	}
	return c.settled(op.ID.String())
}

// listensElsewhere reports whether the others look for m, by the record, at schemes and
// ports of its machine n that it does not listen on.
func (c checker) listensElsewhere(n cluster.Node, m cluster.Member) bool {
	if n.Serving == nil || !cluster.SharePeerURL(n.URLs.Peer, m.PeerURLs) {
		return false
	}
	places := func(urls []string) map[string]bool {
		set := map[string]bool{}
		for _, text := range urls {
			if u, err := url.Parse(cluster.NormalURL(text)); err == nil {
				set[u.Scheme+":"+u.Port()] = true
			}
		}
		return set
	}
	return !maps.Equal(places(n.Serving), places(m.PeerURLs))
}

// restart makes sure that the others are a majority without a member that is started
// again, or that there are none.
func (c checker) restart(m cluster.Member) error { return c.settled(m.ID.String()) }

// settled makes sure that all voters are healthy, and that no member but the one of
// that id waits to be started for the URLs on record.
func (c checker) settled(id string) error {
	if c.obs.Leader == 0 {
		return unsafe("quorum", "there is no leader")
	}
	for _, m := range c.obs.Members {
		switch {
		case m.Learner:
			return unsafe("one-change", "member %s is still a learner", m.ID)
		case !m.Healthy:
			return unsafe("quorum", "%s is not healthy", m.Name)
		}
		n, err := c.node(m.Name)
		if m.ID.String() != id && err == nil && c.listensElsewhere(n, m) {
			return unsafe("one-change", "%s has yet to be restarted with its new peer URLs", m.Name)
		}
	}
	return nil
}
