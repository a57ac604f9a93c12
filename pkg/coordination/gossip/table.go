package gossip

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

const (
	pushPullInterval = 15 * time.Second
	// conflictTTL is how long a conflict is visible after it was last seen.
	// The owner of a name in dispute shows it to one other node in every
	// pushPullInterval.
	conflictTTL = 4 * pushPullInterval
	// deadNodeTTL is how long a node is known after its death.
	deadNodeTTL = 24 * time.Hour
	// maxStrangers is how many nodes are known that others report and that have not
	// shown themselves: some more than join at once, and far less than one caller can
	// make up.
	maxStrangers = 64
	// maxSpoke bounds the names of callers that no news is of.
	maxSpoke = 1024
)

// A Peer is a node as the gossip sees it.
type Peer struct {
	Name cluster.NodeName
	// Address is where its daemon listens, ip:port.
	Address string
	// Alive says that it answers, or did so a moment ago.
	Alive bool
	// Proved says that it has spoken to this node itself, under the name that it
	// proved. The others come from a third node, which may have made them up.
	Proved bool
	// LastSeen is when it last sent something to this node, or when others said
	// that it is there; for this node itself it is now.
	LastSeen time.Time
	// Meta is what it says about itself.
	Meta []byte
	// Conflict is the address of a second daemon that uses the same name, empty
	// for none.
	Conflict string
}

// A table is what this node knows of the others. memberlist's own list cannot
// be read without a data race.
type table struct {
	self       cluster.NodeName
	onConflict func(Conflict)
	// rejoin begins to join a node, without waiting for it.
	rejoin  func(name cluster.NodeName, address string)
	changed chan struct{}

	mu    sync.Mutex
	peers map[cluster.NodeName]*entry
	// spoke are callers that no news has been of yet.
	spoke map[cluster.NodeName]bool
}

type entry struct {
	Peer
	conflictAt time.Time
	diedAt     time.Time
}

func newTable(self cluster.NodeName, onConflict func(Conflict)) *table {
	return &table{
		self:       self,
		onConflict: onConflict,
		changed:    make(chan struct{}, 1),
		peers:      make(map[cluster.NodeName]*entry),
		spoke:      make(map[cluster.NodeName]bool),
	}
}

func (t *table) signal() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// list returns a copy, by name, and forgets what is too old.
func (t *table) list() []Peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(t.peers, func(_ cluster.NodeName, e *entry) bool {
		return !e.Alive && now.Sub(e.diedAt) > deadNodeTTL
	})
	list := make([]Peer, 0, len(t.peers))
	for _, e := range t.peers {
		if e.Conflict != "" && now.Sub(e.conflictAt) > conflictTTL {
			e.Conflict = ""
		}
		p := e.Peer
		p.Meta = slices.Clone(p.Meta)
		if p.Name == t.self {
			p.LastSeen = now
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b Peer) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return list
}

// seen notes that a node has shown itself: it sent something, under the name that
// it proved, or answered where it was called by that name.
func (t *table) seen(name cluster.NodeName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.peers[name]
	switch {
	case e != nil:
		e.LastSeen = time.Now()
		if !e.Proved {
			e.Proved = true
			t.signal()
		}
	case len(t.spoke) < maxSpoke:
		t.spoke[name] = true
	}
}

// admits reports whether news of a node are taken: of one that is known, that has
// shown itself, or where not too many have not.
func (t *table) admits(name cluster.NodeName) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.peers[name] != nil || t.spoke[name] || name == t.self {
		return true
	}
	strangers := 0
	for _, e := range t.peers {
		if !e.Proved {
			strangers++
		}
	}
	return strangers < maxStrangers
}

func (t *table) alive(n *memberlist.Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := cluster.NodeName(n.Name)
	e := t.peers[name]
	if e == nil {
		e = &entry{Peer: Peer{Name: name, Proved: t.spoke[name] || name == t.self}}
		t.peers[name] = e
		delete(t.spoke, name)
	}
	e.Address, e.Alive, e.Meta, e.LastSeen = n.Address(), true, slices.Clone(n.Meta), time.Now()
	if e.Conflict == e.Address {
		e.Conflict = "" // it has moved there
	}
	if !e.Proved {
		t.rejoin(name, e.Address) // so that it shows itself, if it is there
		return
	}
	t.signal()
}

func (t *table) dead(name cluster.NodeName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.peers[name]
	if e == nil {
		return
	}
	if !e.Proved {
		delete(t.peers, name)
		return
	}
	e.Alive, e.diedAt = false, time.Now()
	if e.Conflict != "" && name != t.self {
		// Perhaps it has moved there. The address was refused while the old one
		// was alive, and would not be offered again for a while.
		t.rejoin(name, e.Conflict)
	}
	t.signal()
}

func (t *table) conflict(c Conflict) {
	t.mu.Lock()
	e, now := t.peers[c.Name], time.Now()
	fresh := e != nil && (e.Conflict != c.Other || now.Sub(e.conflictAt) > conflictTTL)
	if e != nil {
		e.Conflict, e.conflictAt = c.Other, now
	}
	t.mu.Unlock()
	if fresh {
		t.signal()
		t.onConflict(c)
	}
}

// A delegate hears what memberlist has to say. memberlist calls it with its
// lock held, so nothing here may call back.
type delegate struct {
	table *table
	meta  []byte
}

func (d *delegate) NodeMeta(int) []byte             { return d.meta }
func (d *delegate) NotifyMsg([]byte)                {}
func (d *delegate) GetBroadcasts(int, int) [][]byte { return nil }
func (d *delegate) LocalState(bool) []byte          { return nil }
func (d *delegate) MergeRemoteState([]byte, bool)   {}
func (d *delegate) NotifyJoin(n *memberlist.Node)   { d.table.alive(n) }
func (d *delegate) NotifyUpdate(n *memberlist.Node) { d.table.alive(n) }
func (d *delegate) NotifyLeave(n *memberlist.Node)  { d.table.dead(cluster.NodeName(n.Name)) }
func (d *delegate) NotifyConflict(a, b *memberlist.Node) {
	d.table.conflict(Conflict{Name: cluster.NodeName(a.Name), Existing: a.Address(), Other: b.Address()})
}

// NotifyAlive refuses news about nodes that cannot exist.
func (d *delegate) NotifyAlive(n *memberlist.Node) error {
	if err := cluster.NodeName(n.Name).Validate(); err != nil {
		return err
	}
	if ip, ok := netip.AddrFromSlice(n.Addr); !ok || ip.IsUnspecified() || n.Port == 0 {
		return errors.New("its address cannot be reached")
	}
	if !speaks(n) {
		return errors.New("it is announced with another protocol")
	}
	if !d.table.admits(cluster.NodeName(n.Name)) {
		return errors.New("too many nodes have not identified themselves")
	}
	return nil
}

// speaks reports whether n is said to speak what all our daemons do. With one that does
// not, true or made up, memberlist would let nobody join any more.
func speaks(n *memberlist.Node) bool {
	const ours = memberlist.ProtocolVersionMax
	return n.PMin <= ours && n.PCur == ours && n.PMax >= ours && n.DMin == 0 && n.DCur == 0
}
