package lease

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A world is a simulation of the lease in virtual time: daemons whose clocks
// run at different speeds, restart, stand still and lose their disks, a network
// that loses, repeats and delays, and holders that change the lease voters.
type world struct {
	rng       *rand.Rand
	now       time.Duration
	queue     events
	nodes     []*daemon
	groups    map[cluster.NodeName]int // partition; nodes of one group can talk
	calm      bool                     // no more faults
	bootstrap Durable
	broken    broken
	rests     bool // holders ask for short and for long leases, in turn
	persons   bool // who campaigns in the storm need not be a lease voter

	violation      string
	leases, passed int          // rounds of holders that were won; changes of lease voters
	last           cluster.Term // of the newest lease
}

// broken switches off one rule each. A simulation that does not notice proves
// nothing.
type broken struct {
	oldRecords   bool // grantors grant on records older than their own
	running      bool // grantors forget a running lease
	restart      bool // grantors do not keep quiet after a restart
	margin       bool // holders count on the whole time
	fromAnswer   bool // holders count from the answer
	bigSteps     bool // changes of several names at once
	lostDisks    bool // lease voters lose their disks and go on as if new
	blankJoin    bool // nodes join without the present record
	oneMajority  bool // a change needs no majority of the old names
	unstamped    bool // a won campaign is a lease, before the record is stamped
	forgottenOwn bool // a grant is not on disk when it is answered
}

// The times of the simulated daemons. They are not those of the product: the
// rules hold for any, and the seeds of [TestBrokenRulesAreNoticed] are for these.
const (
	simTTL   = MaxTTL
	simRound = 800 * time.Millisecond
)

type daemon struct {
	w          *world
	name       cluster.NodeName
	rate       float64
	disk       Durable
	g          Grantor
	c          *Candidate
	boot       int
	up, paused bool
	backlog    []func()
	round      *Round
}

type event struct {
	at  time.Duration
	seq int
	do  func()
}
type events struct {
	list []event
	seq  int
}

func (q *events) Len() int           { return len(q.list) }
func (q *events) Less(i, j int) bool { return q.list[i].at < q.list[j].at }
func (q *events) Swap(i, j int)      { q.list[i], q.list[j] = q.list[j], q.list[i] }
func (q *events) Push(x any)         { q.list = append(q.list, x.(event)) }
func (q *events) Pop() any {
	e := q.list[len(q.list)-1]
	q.list = q.list[:len(q.list)-1]
	return e
}

func (w *world) after(d time.Duration, do func()) {
	w.queue.seq++
	heap.Push(&w.queue, event{w.now + d, w.queue.seq, do})
}

func (w *world) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(w.rng.Int64N(int64(hi-lo)))
}

func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

func newWorld(seed uint64, b broken) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), broken: b, groups: map[cluster.NodeName]int{}}
	n := 1 + w.rng.IntN(7)
	initialMembers := 1 + w.rng.IntN(n)
	for i := range n {
		d := &daemon{w: w, name: cluster.NodeName(rune('a' + i)), rate: 0.95 + w.rng.Float64()/10}
		w.nodes = append(w.nodes, d)
	}
	var first []cluster.NodeName
	for _, d := range w.nodes[:initialMembers] {
		first = append(first, d.name)
	}
	for i, d := range w.nodes {
		if i < initialMembers {
			d.disk, _ = Durable{}.Prepare("tok", first)
			w.bootstrap = d.disk
		}
		d.start()
		w.after(w.between(0, time.Second), d.tick)
	}
	w.after(w.between(0, 4*time.Second), w.fault)
	return w
}

func (w *world) run(until time.Duration) {
	for w.violation == "" && w.now < until && w.queue.Len() > 0 {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
	}
}

// clock is the daemon's monotonic clock: its own zero, its own speed.
func (d *daemon) clock() time.Time {
	return t0.Add(time.Duration(float64(d.w.now) * d.rate)).Add(time.Duration(d.name[0]) * time.Hour)
}

func (d *daemon) start() {
	d.up, d.paused, d.backlog, d.round = true, false, nil, nil
	d.boot++
	d.g = Start(d.clock(), "c", d.disk)
	if d.w.broken.restart {
		d.g.Until = time.Time{}
	}
	d.c = &Candidate{Cluster: "c", Name: d.name, Boot: cluster.Token(fmt.Sprint(d.name, d.boot)), TTL: simTTL}
	d.c.Enter("tok")
}

// do runs f on the daemon as it is now: not at all if it has restarted by then,
// later if it is paused.
func (d *daemon) do(boot int, f func()) {
	switch {
	case !d.up || d.boot != boot:
	case d.paused:
		d.backlog = append(d.backlog, f)
	default:
		f()
	}
}

func (w *world) fault() {
	w.after(w.between(100*time.Millisecond, 4*time.Second), w.fault)
	if w.calm {
		return
	}
	d := w.nodes[w.rng.IntN(len(w.nodes))]
	switch w.rng.IntN(6) {
	case 0: // partition
		for _, d := range w.nodes {
			w.groups[d.name] = w.rng.IntN(2)
		}
	case 1: // heal
		clear(w.groups)
	case 2, 3: // restart
		d.up = false
		w.after(w.between(0, 2*time.Second), d.start)
		if w.broken.lostDisks && w.chance(0.5) {
			d.disk = w.bootstrap
		}
	case 4, 5: // stop the process and let it go on
		boot := d.boot
		d.paused = true
		w.after(w.between(0, 6*time.Second), func() { d.resume(boot) })
	}
}

func (d *daemon) resume(boot int) {
	if d.boot != boot || !d.paused {
		return
	}
	d.paused = false
	for _, f := range d.backlog {
		f()
	}
	d.backlog = nil
}

// tick is the daemon's own life: renew, change, give back, or try its luck.
func (d *daemon) tick() {
	w := d.w
	w.after(w.between(200*time.Millisecond, time.Second), d.tick)
	if !d.up || d.paused || d.round != nil {
		return
	}
	for _, o := range w.nodes { // everybody's record, where an observation finds it
		if o == d || w.calm {
			d.c.Learn(o.g.LeaseVoters(), o.g.Durable.Term)
		}
	}
	if w.rests {
		d.c.TTL = DefaultTTL
		if w.now/turnTime%2 == 0 {
			d.c.TTL = RestTTL
		}
	}
	_, _, held := d.c.Held(d.clock())
	switch {
	case !held:
		if !w.calm && w.chance(0.3) || w.calm && d.next() {
			d.begin(d.c.Campaign(d.clock()))
		}
		return
	case !w.calm && w.chance(0.4):
		d.change()
	case !w.calm && w.chance(0.05):
		req, nodes, _ := d.c.Release()
		for _, n := range nodes {
			w.send(d, n, req, func(Reply) {})
		}
		return
	}
	d.begin(d.c.Renew(d.clock()))
}

// leaseVoter reports whether the daemon is one by the newest record that it has
// seen: its own may be so old that it is not in it yet.
func (d *daemon) leaseVoter() bool { return slices.Contains(d.c.Known().Names, d.name) }

// next reports whether a lease voter is the next to try when all is calm: as
// ranks do, it keeps them apart.
func (d *daemon) next() bool {
	return d.leaseVoter() && d.w.nodes[int(d.w.now/turnTime)%len(d.w.nodes)] == d
}

const turnTime = 4 * time.Second

func (d *daemon) change() {
	record, _ := d.c.Record()
	next := record.Names
	for range 1 + d.w.rng.IntN(d.steps()) {
		n := d.w.nodes[d.w.rng.IntN(len(d.w.nodes))].name
		if i := slices.Index(next, n); i < 0 {
			if !d.join(n, record) {
				return
			}
			next = append(slices.Clone(next), n)
		} else if len(next) > 1 {
			next = slices.Delete(slices.Clone(next), i, i+1)
		}
	}
	if d.w.broken.bigSteps && len(d.c.before.Names) == 0 {
		e := cluster.LeaseVoters{Token: "tok", Term: d.c.term, Seq: d.c.record.Seq + 2, Names: sorted(next)}
		d.c.before, d.c.record = d.c.record, e
		return
	}
	_ = d.c.Change(d.clock(), next)
}

// join carries out the operation that makes a node ready to become a lease voter,
// and reports whether it is.
func (d *daemon) join(name cluster.NodeName, record cluster.LeaseVoters) bool {
	n := d.w.nodes[name[0]-'a']
	if len(d.c.before.Names) > 0 || !n.up {
		return false
	}
	if d.w.broken.blankJoin {
		record = d.w.bootstrap.LeaseVoters
	}
	disk, err := n.disk.Join(name, record)
	if err == nil {
		n.disk, n.g.Durable = disk, disk
	}
	return err == nil
}

func (d *daemon) steps() int {
	if d.w.broken.bigSteps {
		return 4
	}
	return 1
}

func (d *daemon) begin(r *Round, err error) {
	if err != nil {
		return
	}
	if d.w.broken.oneMajority {
		r.sets = r.sets[:1]
	}
	d.round = r
	boot := d.boot
	for _, n := range r.Nodes() {
		d.w.send(d, n, r.Request, func(reply Reply) {
			if d.round == r {
				d.c.Note(r, n, reply)
				d.finish(r)
			}
		})
	}
	d.w.after(simRound, func() {
		d.do(boot, func() {
			if d.round == r {
				d.round = nil
			}
		})
	})
}

func (d *daemon) finish(r *Round) {
	before := d.c.before.Names
	if !d.c.Finish(r) {
		if r.Lost() {
			d.round = nil
		}
		return
	}
	d.round = nil
	if r.campaign {
		if d.w.broken.unstamped {
			d.c.until = r.sent.Add(simTTL - Margin(simTTL))
			d.w.check(d)
			d.change()
		}
		d.begin(d.c.Renew(d.clock()))
		return
	}
	d.breakTime()
	d.w.leases++
	d.w.check(d)
	if now, changing := d.c.Record(); len(before) > 0 && !changing {
		d.w.passed++
		if _, _, held := d.c.Held(d.clock()); held {
			d.w.removed(before, now.Names)
		}
	}
}

func (d *daemon) breakTime() {
	if d.w.broken.margin {
		d.c.until = d.c.until.Add(Margin(simTTL))
	}
	if d.w.broken.fromAnswer {
		d.c.until = d.clock().Add(simTTL - Margin(simTTL))
	}
}

// removed lets a node that is no lease voter any more lose its disk and come back.
func (w *world) removed(before, now []cluster.NodeName) {
	for _, d := range w.nodes {
		if slices.Contains(before, d.name) && !slices.Contains(now, d.name) && w.chance(0.5) {
			d.disk = Durable{}
			d.start()
		}
	}
}

// check looks for another daemon that believes it holds, just after d got time.
func (w *world) check(d *daemon) {
	term, _, ok := d.c.Held(d.clock())
	if !ok {
		return
	}
	for _, o := range w.nodes {
		other, _, ok := o.c.Held(o.clock())
		if o != d && o.up && ok {
			w.violation = fmt.Sprintf("at %v %s holds term %d and %s holds term %d", w.now, d.name, term, o.name, other)
		}
	}
	if w.last < term && d.c.Succeeds() < w.last {
		w.violation = fmt.Sprintf("at %v %s holds term %d after term %d, and takes it to be after term %d", w.now,
			d.name, term, w.last, d.c.Succeeds())
	}
	w.last = max(w.last, term)
}

func (w *world) delay() time.Duration {
	if !w.calm && w.chance(0.05) {
		return w.between(0, 3*time.Second)
	}
	return w.between(time.Millisecond, 30*time.Millisecond)
}

func (w *world) lost(a, b cluster.NodeName) bool {
	return w.groups[a] != w.groups[b] || !w.calm && w.chance(0.05)
}

func (w *world) send(from *daemon, to cluster.NodeName, req Request, answer func(Reply)) {
	d := w.nodes[to[0]-'a']
	boot := from.boot
	for range 1 + w.rng.IntN(10)/9 { // now and then a message arrives twice
		if w.lost(from.name, to) {
			continue
		}
		w.after(w.delay(), func() {
			d.do(d.boot, func() {
				reply := d.decide(req)
				if !w.lost(from.name, to) {
					w.after(w.delay(), func() { from.do(boot, func() { answer(reply) }) })
				}
			})
		})
	}
}

func (d *daemon) decide(req Request) Reply {
	b, g := d.w.broken, d.g
	req.Entitled = d.w.persons || req.Holder == d.name
	if b.running {
		g.Until = time.Time{}
	}
	own := g.Durable.LeaseVoters
	if b.bigSteps || b.oldRecords && Newer(own, req.LeaseVoters) {
		g.Durable.LeaseVoters.Names = req.LeaseVoters.Names
		g.Durable.LeaseVoters.Term, g.Durable.LeaseVoters.Seq = 0, 0
	}
	next, reply := g.Decide(d.clock(), req)
	if next.Durable.LeaseVoters.Term == 0 || b.oldRecords && Newer(own, next.Durable.LeaseVoters) {
		next.Durable.LeaseVoters = own
	}
	d.g = next
	if !b.forgottenOwn {
		d.disk = next.Durable
	}
	return reply
}

func (w *world) String() string {
	var b strings.Builder
	for _, d := range w.nodes {
		fmt.Fprintf(&b, "%s: up=%v paused=%v rate=%.3f disk=%+v\n", d.name, d.up, d.paused, d.rate, d.disk)
	}
	return b.String()
}
