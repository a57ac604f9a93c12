package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

var version = etcdversion.Must("3.6.16")

// A world is everything there is. Nothing in it is what a planner believes.
type world struct {
	config Config
	seed   uint64
	source *rand.PCG
	rand   *rand.Rand

	step   int
	now    time.Time
	quiet  bool // no more faults
	spec   cluster.Spec
	nodes  []*node // by name
	shared *store
	store  *store // that of the node that acts, as a rule the shared one
	past   []store
	apart  []*store // those that nodes have, or had, of their own
	groups []*group
	// written is the most that each member has written and acknowledged to its leader.
	written map[cluster.MemberID]uint64
	carried map[string]cluster.Token // what was restored by a request last

	nextMember cluster.MemberID
	nonces     int
	asked      int  // restores
	helped     bool // by an operator
	network    network
	lastActor  *node
	published  *published  // what a coordinator has published last
	armed      []FaultKind // faults that wait for the next operation
	delayed    []delayed
	changed    bool // an operation has succeeded in this step
	// promotedGone says that the node of the next new voter goes forever.
	promotedGone bool
	recordBehind bool // see RecordBehind

	ops    int
	skew   time.Duration // the most that a clock was wrong
	orders []lateOrder
	late   bool // the next order comes late
	// arriving says that what is obeyed is an order that comes late.
	arriving bool
	broken   *violation
	// before is the version that the spec asked for before, done what an operator has done.
	before etcdversion.Version
	done   map[plan.Reason]int
	// allowed are the sealed restores that operators have asked for.
	allowed map[string]bool
	log     []string
}

// A node is a machine. What is on its disk goes with the disk.
type node struct {
	name cluster.NodeName
	urls cluster.URLs
	up   bool
	gone bool // forever
	side int  // of a partition
	// since is when the daemon started.
	since time.Time
	boot  cluster.Token

	disk     disk
	prepared *cluster.Prepared
	// staged is a restore beside what runs; restored is the incarnation whose
	// restored data waits for its first start; switched are all that it ever changed
	// over to, which others remember when the machine is gone.
	staged   *cluster.Staged
	restored cluster.Token
	switched []cluster.Token
	assigned *cluster.Assigned
	setAside []cluster.SetAside
	mark     cluster.Revision // no revision above it was seen here
	// grantor is the node's vote for the coordinator, vote what it remembers of the last
	// one, candidate the daemon that asks for it, in its runs-th run.
	grantor   lease.Grantor
	vote      *lease.Vote
	candidate lease.Candidate
	runs      int

	// memory is what the daemon has seen last, nil where it has forgotten it, read
	// what it has read in the store; failures are the operations that failed.
	// of is the term of the coordinator of whom memory has its times.
	memory   *cluster.Observation
	of       cluster.Term
	read     *cluster.Store
	failures []failure
	clock    clock
	ports    map[cluster.MemberID]port
	// own is the store of a node that has not the shared one, up to a step; stale is
	// what it reads instead, and cutTo the step up to which it reads nothing.
	own, stale          *store
	ownTo, staleTo, cut int
	// asked are the answers of a slow store, the oldest first, that are under way: lag of
	// them, up to step lagTo.
	asked      []*store
	lag, lagTo int
	images     []image
	wentBack   bool // to one of them

	process cluster.ProcessState
	slow    bool // a learner here does not catch up
	until   int  // the step at which it is up again
	slowTo  int
	failsTo int // the step up to which operations on it fail
	// unseen is how long it takes until anybody can see that the disk hangs.
	unseen time.Duration
	// hung is since when its disk hangs, zero for not at all, hungTo the step up to
	// which; slowDiskTo is that up to which it is slow.
	hung               time.Time
	hungTo, slowDiskTo int
	versioned
}

// A disk is the etcd data on a node.
type disk struct {
	data    bool
	corrupt bool
	behind  bool // older than what the member has acknowledged to the others
	token   cluster.Token
	id      cluster.MemberID
	known   bool // the daemon has asked the member for its id
	joining bool // etcd has not run yet, and asks the others whether it may
	index   uint64
	// members is the member list as this member has applied it last.
	members []member
	content
}

// A store is the control store.
type store struct {
	down, emptied bool
	specMissing   bool
	downTo        int
	created       time.Time
	incarnations  []cluster.Incarnation
	backups       []cluster.Backup // newest first
	made          map[string]time.Time
	taken         map[string]snapshot
	requests      []cluster.Request
	mark          cluster.Revision // no member has reported a coordinator of one above it
}

// A failure is an operation that has failed, and when it may be tried again.
type failure struct {
	line, text string
	retry      time.Time
	wait       time.Duration
}

// What is published is the observation of a coordinator in a term, in a store.
type published struct {
	obs  cluster.Observation
	term cluster.Term
	in   *store
}

// A delayed operation was planned, and is carried out later.
type delayed struct {
	by  *node
	op  plan.Operation
	due int
}

// A violation is a broken invariant.
type violation struct{ invariant, text string }

func (w *world) violate(invariant, format string, args ...any) {
	if w.broken == nil {
		w.broken = &violation{invariant, fmt.Sprintf(format, args...)}
	}
}

func (w *world) logf(format string, args ...any) {
	if w.config.Record {
		w.log = append(w.log, fmt.Sprintf("%4d %s  ", w.step, w.now.UTC().Format("15:04:05"))+fmt.Sprintf(format, args...))
	}
}

var names = []cluster.NodeName{"a", "b", "c", "d", "e", "f", "g", "h"}

// urls holds the addresses of the nodes by name; they never change.
var urls = func() []cluster.URLs {
	list := make([]cluster.URLs, len(names))
	for i, n := range names {
		list[i] = cluster.URLs{Peer: []string{"https://" + string(n) + ":2380"}, Client: []string{
			"https://" + string(n) + ":4001",
		}, Quarantine: []string{"https://" + string(n) + ":8001"}}
	}
	return list
}()

func newWorld(seed uint64, c Config) *world {
	if c.Next == nil {
		c.Next = plan.Next
	}
	w := &world{
		config: c, seed: seed, source: rand.NewPCG(seed, 0),
		now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), nextMember: 1, shared: &store{},
		written: map[cluster.MemberID]uint64{}, carried: map[string]cluster.Token{},
	}
	w.store = w.shared
	w.rand = rand.New(w.source)
	count := 1 + w.rand.IntN(5) + w.rand.IntN(3)
	for i := range count {
		w.addNode(i)
	}
	sizes := []int{1, 2, 3, 3, 3, 3, 4, 5, 5, 7}
	w.spec = cluster.Spec{MemberCount: sizes[w.rand.IntN(len(sizes))], EtcdVersion: version}
	// Short enough that histories see the end of them.
	w.spec.Policy = cluster.Policy{
		SetAsideMax: 1, SetAsideKeep: time.Hour, HourlyRetention: 70 * time.Minute, DailyRetention: 80 * time.Minute,
		VerifyInterval: 40 * time.Minute, DrillInterval: 3 * time.Hour,
	}
	if w.spec.MemberCount > count {
		w.spec.MemberCount = count
	}
	if c.Versions {
		from := universe
		if c.Sealed {
			from = sealedFrom
		}
		w.spec.EtcdVersion = from[w.dice().IntN(len(from))]
		w.before = w.spec.EtcdVersion
	}
	return w
}

func (w *world) addNode(i int) {
	n := &node{name: names[i], urls: urls[i], up: true, boot: "boot", process: cluster.ProcessStopped}
	n.has = versions
	if w.config.Versions {
		n.has = universe
	}
	n.runDaemon(w)
	w.nodes = append(w.nodes, n)
}

// reseed starts the random source of a step.
func (w *world) reseed() { w.source.Seed(w.seed, uint64(w.step)+1) }

// chance is true in one of n cases.
func (w *world) chance(n int) bool { return w.rand.IntN(n) == 0 }

func (w *world) node(name cluster.NodeName) *node {
	for _, n := range w.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

func (w *world) recorded(token cluster.Token) bool {
	return slices.ContainsFunc(w.store.incarnations, func(i cluster.Incarnation) bool { return i.Token == token })
}

// reboot is what a machine does when it comes up: its daemon remembers nothing.
func (n *node) reboot(w *world) {
	n.up, n.process = true, cluster.ProcessStopped
	n.clock.frozen, n.clock.doubt = time.Time{}, false
	n.runDaemon(w)
	n.boot += "'"
	if len(n.boot) > 12 {
		n.boot = "boot"
	}
}

func (n *node) shutdown() { n.up, n.process = false, cluster.ProcessStopped }

// loseDisk takes everything that the machine has written.
func (n *node) loseDisk() {
	n.disk, n.prepared, n.assigned, n.setAside = disk{}, nil, nil, nil
	n.grantor.Durable = lease.Durable{}
	n.staged, n.restored, n.mark, n.change, n.seen = nil, "", 0, nil, nil
	n.process = cluster.ProcessStopped
}
