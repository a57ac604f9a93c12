package operate

import (
	"cmp"
	"context"
	"crypto/tls"
	"slices"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// apartGrace is how long a member may take to connect to one that has just started: it tries ten
// times a second.
const apartGrace = 3 * time.Second

// Apart returns the pairs of healthy members of which the first does not reach the peer port of the
// second, as its own etcd says. It takes longer only where there are any. What a member does not
// say, as one of 3.3, is no pair.
func (m *Machine) Apart(ctx context.Context, members []cluster.Member) []machine.Apart {
	conf, err := m.credentials()
	if err != nil {
		return nil
	}
	defer m.pending.ask("the members, which are asked whether they reach each other")()
	ctx, cancel := context.WithTimeout(ctx, apartGrace+askTimeout)
	defer cancel()
	for began := time.Now(); ; {
		pairs := m.withConnected(ctx, apart(ctx, conf, members), members)
		if len(pairs) == 0 || time.Since(began) > apartGrace || wait.For(ctx, 2*pause) != nil {
			return pairs
		}
	}
}

// withConnected puts what this machine's kernel shows of the connections to its own member over what the
// etcds of the others say.
func (m *Machine) withConnected(ctx context.Context, pairs []machine.Apart, members []cluster.Member) []machine.Apart {
	peers := machine.URLs(m.cfg).Peer
	i := slices.IndexFunc(members, func(o cluster.Member) bool {
		return o.Healthy && cluster.SharePeerURL(o.PeerURLs, peers)
	})
	if i < 0 {
		return pairs
	}
	own := members[i]
	others := slices.DeleteFunc(slices.Clone(members), func(o cluster.Member) bool { return o.ID == own.ID || !o.Healthy })
	seen := m.connected(ctx, others)
	for _, o := range others {
		pair := machine.Apart{From: name(o), To: name(own), URLs: own.PeerURLs}
		same := func(p machine.Apart) bool { return p.From == pair.From && p.To == pair.To }
		switch seen[o.ID] {
		case machine.Reached:
			pairs = slices.DeleteFunc(pairs, same)
		case machine.NotReached:
			if !slices.ContainsFunc(pairs, same) {
				pairs = append(pairs, pair)
			}
		}
	}
	return pairs
}

// apart is Apart as of now.
func apart(ctx context.Context, conf *tls.Config, members []cluster.Member) []machine.Apart {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	healthy := slices.DeleteFunc(slices.Clone(members), func(m cluster.Member) bool {
		return !m.Healthy || len(m.ClientURLs) == 0
	})
	found := make([][]machine.Apart, len(healthy))
	var all sync.WaitGroup
	for i, from := range healthy {
		all.Go(func() {
			active, err := etcdclient.ActivePeers(ctx, from.ClientURLs[0], conf, from.ID)
			if err != nil {
				return // it answered a moment ago, and says nothing now
			}
			for _, to := range healthy {
				if to.ID != from.ID && reach(active, nil, from, to.ID) == machine.NotReached {
					found[i] = append(found[i], machine.Apart{From: name(from), To: name(to), URLs: to.PeerURLs})
				}
			}
		})
	}
	all.Wait()
	return slices.Concat(found...)
}

func name(m cluster.Member) string { return cmp.Or(string(m.Name), m.ID.String()) }
