package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/daemon/observe"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// heardOf is what the daemons that answered a person's command know of the cluster.
type heardOf struct {
	mu       sync.Mutex
	reported map[cluster.NodeName]cluster.Known
	peers    map[cluster.NodeName]observe.Peer
	// coordinator is the daemon that holds the lease, by what it says itself, of the latest term.
	coordinator cluster.NodeName
	term        cluster.Term
}

// maxHeard bounds how many daemons others can name.
const maxHeard = 64

func (h *heardOf) note(from cluster.NodeName, a cluster.Answer) {
	if a.Known == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reported == nil {
		h.reported, h.peers = map[cluster.NodeName]cluster.Known{}, map[cluster.NodeName]observe.Peer{}
	}
	h.reported[from] = *a.Known
	if l := a.Node.Lease; l.Holder == from && l.Running && l.Term >= h.term {
		h.coordinator, h.term = from, l.Term
	}
	for _, p := range slices.Concat(a.Known.Peers, a.Known.Records) {
		if _, known := h.peers[p.Name]; !known && p.Name != "" && p.Address != "" && len(h.peers) < maxHeard {
			h.peers[p.Name] = observe.Peer{Name: p.Name, Address: p.Address, Unreachable: p.Unreachable}
		}
	}
}

// count returns how many daemons have said what they know, and how many they name.
func (h *heardOf) count() (reported, named int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.reported), len(h.peers)
}

// named returns the daemons that others name, by name.
func (h *heardOf) named() []observe.Peer {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.SortedFunc(maps.Values(h.peers), func(a, b observe.Peer) int { return cmp.Compare(a.Name, b.Name) })
}

// best returns what the coordinator says, else the daemon that has read the store last, or,
// where none can read it, the first one; ok is false where none does. All read what people ask
// for each second, and the list of backups each minute at most: the coordinator knows what it
// has taken since.
func (h *heardOf) best() (node cluster.NodeName, known cluster.Known, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k, reported := h.reported[h.coordinator]; reported && k.StoreProblem == "" {
		return h.coordinator, k, true
	}
	for _, name := range slices.Sorted(maps.Keys(h.reported)) {
		k := h.reported[name]
		reads, later := k.StoreProblem == "", known.StoreProblem != "" || k.StoreAge < known.StoreAge
		if !ok || reads && later {
			node, known, ok = name, k, true
		}
	}
	return node, known, ok
}

// peers are the seeds, the nodes with a record in the store, and those that daemons name.
func (c *Client) peers() []observe.Peer {
	list := append([]observe.Peer(nil), c.seeds...)
	add := func(p observe.Peer) {
		if !slices.ContainsFunc(list, func(k observe.Peer) bool { return k.Name == p.Name }) {
			list = append(list, p)
		}
	}
	for _, r := range c.view.Records() {
		add(observe.Peer{Name: r.Name, Address: r.Address})
	}
	for _, p := range c.heard.named() {
		add(p)
	}
	return list
}

// answer is what the store says. To who only looks, a daemon's word of it is better than
// none.
func (c *Client) answer(ctx context.Context) observe.StoreAnswer {
	own := c.view.Answer(ctx)
	c.reads.Store(own.Err == nil)
	node, known, reported := c.heard.best()
	if own.Err == nil || !c.showing || !reported {
		return own
	}
	a := observe.StoreAnswer{Store: known.Store}
	for _, r := range known.Records {
		a.Records = append(a.Records, observe.Record{Name: r.Name, Address: r.Address, Boot: r.Boot})
	}
	if known.StoreProblem != "" {
		a.Err = fmt.Errorf("as node %s sees it: %s", node, known.StoreProblem)
	}
	return a
}

// Observe observes once, for who only looks, and returns the spec that the store reports,
// with the policy that the coordinator works by. It asks all daemons that those know which
// answer, and takes their word for a store that it has not, or that does not answer.
func (c *Client) Observe(ctx context.Context) (cluster.Spec, cluster.Observation, error) {
	return c.observe(ctx, true)
}

// rounds bounds how often an observation is repeated because it has shown more daemons.
const rounds = 3

// observe observes once; show says that it is for people to see.
func (c *Client) observe(ctx context.Context, show bool) (cluster.Spec, cluster.Observation, error) {
	// Who to ask is in the store: its answer has to be there first.
	if err := c.readStore(ctx, show); err != nil && len(c.seeds) == 0 {
		return cluster.Spec{}, cluster.Observation{}, c.nobody(err)
	}
	if c.prev.At.IsZero() {
		c.prev = c.published(ctx).Observation
	}
	c.showing = show
	obs := c.prev
	for round := range rounds {
		reported, named := c.heard.count()
		obs = c.fleet.Observe(ctx, obs)
		nowReported, nowNamed := c.heard.count()
		// A member on an unknown machine is asked itself by the next observation.
		more := nowNamed > named || show && nowReported > reported && !c.reads.Load()
		again := more || round == 0 && len(c.prev.Members) == 0 && len(unasked(obs)) > 0
		if !again || ctx.Err() != nil {
			break
		}
	}
	for _, i := range unasked(obs) {
		m := &obs.Members[i]
		m.Condition, m.Why = cluster.Unknown, "no daemon that answers knows its machine"
		m.UnhealthySince = time.Time{}
	}
	c.prev = obs
	obs.Gaps = append(c.awayGaps(obs.Gaps), c.unnamed(obs)...)
	return c.spec(ctx), obs, ctx.Err()
}

// storeTime is how long a store is waited for by who looks only, and has daemons to ask.
const storeTime = 4 * time.Second

// readStore has the view read the store, and remembers why it could not.
func (c *Client) readStore(ctx context.Context, show bool) error {
	began := time.Now()
	if show && len(c.seeds) > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, storeTime)
		defer cancel()
	}
	err := c.view.Answer(ctx).Err
	c.away = ""
	if err != nil && c.store != nil {
		c.away = fmt.Sprintf("%s was tried for %s: %v", store.Shown(c.o.BackupStore),
			time.Since(began).Round(100*time.Millisecond), err)
		err = fmt.Errorf("store %s: %w", store.Shown(c.o.BackupStore), err)
	}
	return err
}

// awayGaps are the gaps with what became of the command's own store, where that does not
// answer.
func (c *Client) awayGaps(gaps []cluster.Gap) []cluster.Gap {
	gaps = slices.Clone(gaps)
	if c.away == "" || c.reads.Load() {
		return gaps
	}
	if _, _, reported := c.heard.best(); reported && c.showing {
		return append(gaps, cluster.Gap{Source: "store from here", Text: c.away})
	}
	for i := range gaps {
		if gaps[i].Source == "store" {
			gaps[i].Text = c.away
		}
	}
	return gaps
}

// unasked returns the members that nobody has asked: their machines are not known, and they
// did not answer themselves.
func unasked(obs cluster.Observation) (list []int) {
	for i, m := range obs.Members {
		known := slices.ContainsFunc(obs.Nodes, func(n cluster.Node) bool { return n.Name == m.Name })
		if m.Condition == cluster.Down && !known {
			list = append(list, i)
		}
	}
	return list
}

// spec is the spec in the store, else, for who only looks, the one that a daemon works by.
func (c *Client) spec(ctx context.Context) cluster.Spec {
	spec := cluster.Spec{Policy: c.published(ctx).Spec.Policy.WithDefaults()}
	if f := c.view.Spec(); f != nil {
		return f.Over(spec)
	}
	if _, known, reported := c.heard.best(); reported && c.showing && known.Spec.MemberCount > 0 {
		known.Spec.Policy = known.Spec.Policy.WithDefaults()
		return known.Spec
	}
	return spec
}

// A published status, as far as it is of use here.
type published struct {
	Term        cluster.Term        `json:"term"`
	Spec        cluster.Spec        `json:"spec"`
	Observation cluster.Observation `json:"observation"`
}

func (c *Client) published(ctx context.Context) published {
	var p published
	if c.store == nil || c.away != "" {
		return p
	}
	b, err := c.store.Status(ctx)
	if err != nil || json.Unmarshal(b, &p) != nil {
		return published{}
	}
	p.Observation = observe.Remembered(p.Observation, p.Term, time.Now())
	return p
}
