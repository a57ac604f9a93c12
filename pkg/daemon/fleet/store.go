package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/daemon/observe"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// StoreView keeps what the control store said last, so that observations can be
// frequent and requests to the store rare. It is asked in the background: an answer
// that takes longer than an observation is there for the next one, and nothing that was read is
// read again for that.
type StoreView struct {
	store *store.Store
	now   func() time.Time
	quit  chan struct{}
	// closing closes quit.
	closing sync.Once
	// fetch says whose signatures count.
	fetch backup.FetchOptions

	mu     sync.Mutex
	answer observe.StoreAnswer
	spec   *store.SpecFile
	polled time.Time
	// every is how old an answer may be.
	every time.Duration
	// polls are shared with who orders this node: see Since.
	polls *polls
	// taken is the number of the last poll that was taken in. after says that only a
	// poll with a higher number counts: it is the last that began before the store was
	// changed. stale says that no such poll has been taken in yet.
	taken, after int
	stale        bool
	// heard is when the store last answered.
	heard   time.Time
	catalog *catalog
	// source is the backup of the first restore that is yet to be decided on, and
	// asking what finds out.
	source *cluster.Source
	asking *task[cluster.Source]
	// waited is when a store that fails was last given all the time it wanted.
	waited time.Time
	// last is what the store said last. It is read without the lock, which is held
	// while an observation waits.
	last atomic.Pointer[heard]
	// answered is the last answer, to be read in the same way.
	answered atomic.Pointer[lastAnswer]
}

// heard is what a poll said that began at that time.
type heard struct {
	view  store.View
	began time.Time
}

// Heard returns what the store said last, and when the poll began that said so;
// the zero time for never. It does not wait.
func (v *StoreView) Heard() (store.View, time.Time) {
	if h := v.last.Load(); h != nil {
		return h.view, h.began
	}
	return store.View{}, time.Time{}
}

// Since returns what the store says by a poll that began at the moment or later. It waits
// for that until ctx ends, which is as long as what it is for may take: first for the poll
// under way, if that began earlier, and then for the next one. All who wait share them, so a
// store of which a poll takes long is not asked more often for that.
func (v *StoreView) Since(ctx context.Context, moment time.Time) (store.View, error) {
	if v.store == nil {
		return store.View{}, errNoStore
	}
	return v.polls.since(ctx, moment)
}

// NewStoreView returns a view that reads the store at most once in every.
func NewStoreView(s *store.Store, every time.Duration, now func() time.Time) *StoreView {
	quit := make(chan struct{})
	v := &StoreView{store: s, every: every, now: now, quit: quit, catalog: &catalog{store: s, now: now, quit: quit}}
	v.polls = &polls{ask: v.poll, now: now, quit: quit}
	return v
}

// poll reads the control objects, and remembers what they say.
func (v *StoreView) poll(ctx context.Context) (store.View, error) {
	began := v.now()
	view, err := v.store.Poll(ctx)
	if err == nil {
		v.last.Store(&heard{view, began})
	}
	return view, err
}

// Vet has backups count only if their files say what they are, and a trusted
// signer has signed them where there is one. It must be called before the first
// Answer.
func (v *StoreView) Vet(fetch backup.FetchOptions) {
	v.fetch = fetch
	if v.store != nil {
		v.catalog.vet = (&backup.Vetter{Store: v.store, Fetch: fetch}).Vet
	}
}

// Close ends what goes on in the background.
func (v *StoreView) Close() { v.closing.Do(func() { close(v.quit) }) }

// Every changes how old an answer may be.
func (v *StoreView) Every(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.every = d
}

// Stale makes the next observation read the store, and the backups of the day too.
func (v *StoreView) Stale() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.polled, v.stale, v.after = time.Time{}, true, v.polls.begun()
	v.catalog.stale = true
}

// Relist makes the next observation read the backups of the day, as they are by now.
func (v *StoreView) Relist() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.polled, v.catalog.stale = time.Time{}, true
}

// Expire makes the next observation read the store.
func (v *StoreView) Expire() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.polled, v.after = time.Time{}, v.polls.begun()
}

// Changed is Stale for who has changed backups: they are checked again.
func (v *StoreView) Changed(names ...string) {
	v.Stale()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.catalog.again = append(v.catalog.again, names...)
}

// Pruned is Stale for who has deleted backups.
func (v *StoreView) Pruned(names ...string) {
	v.Stale()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, name := range names {
		gone := part{prefix: name + "/"}
		v.catalog.learn(gone)
		v.catalog.deleted = append(v.catalog.deleted, gone)
		v.catalog.leftovers = slices.DeleteFunc(slices.Clone(v.catalog.leftovers), func(n string) bool { return n == name })
	}
}

// Spec returns the spec in the store, nil where there is none or it is not
// known.
func (v *StoreView) Spec() *store.SpecFile {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.spec
}

// Records returns the nodes that have published themselves, as of the last
// answer.
func (v *StoreView) Records() []observe.Record {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.answer.Records
}

// Answer returns what the store says, or said a moment ago. After a failure it
// returns what it said before, with the error.
func (v *StoreView) Answer(ctx context.Context) observe.StoreAnswer {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.now().Sub(v.polled) < v.every && !v.polled.IsZero() {
		return v.answer
	}
	ctx, cancel := v.timeout(ctx)
	defer cancel()
	v.answer.Err = v.read(ctx)
	v.answered.Store(&lastAnswer{v.answer, v.spec, v.now()})
	return v.answer
}

const (
	// failingTimeout is how long a store that failed, or is slow, is waited for, and
	// failingRetryInterval how often it gets its full time all the same: a store that
	// hangs shall not make every observation slow.
	failingTimeout       = 300 * time.Millisecond
	failingRetryInterval = 15 * time.Second
	// slowTime is how old an answer of a store that is being asked may become.
	slowTime = 30 * time.Second
	// pollTime bounds a poll in the background.
	pollTime = time.Minute
)

func (v *StoreView) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if v.answer.Err == nil && !v.merelyOld() || v.now().Sub(v.waited) >= failingRetryInterval {
		v.waited = v.now()
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, failingTimeout)
}

// merelyOld reports whether the last answer is good enough as long as the next
// one is on its way.
func (v *StoreView) merelyOld() bool {
	return !v.stale && v.answer.Err == nil && !v.heard.IsZero() && v.now().Sub(v.heard) < slowTime
}

var (
	// errNoStore is what a view without a store says.
	errNoStore = errors.New("no store is given (--backup-store)")
	errLate    = fmt.Errorf("%w: it has not answered yet, and is being waited for", store.ErrUnreachable)
)

func (v *StoreView) read(ctx context.Context) error {
	if v.store == nil {
		v.polled = v.now()
		return errNoStore
	}
	view, err := v.ask(ctx)
	if errors.Is(err, errLate) && v.merelyOld() {
		v.readSource(ctx)
		v.catalog.read(ctx, &v.answer.Store)
		return nil
	}
	if err != nil {
		return err
	}
	if v.lost(view) {
		v.catalog.forget()
	}
	v.spec = view.Spec
	v.answer.Store = cluster.Store{
		Location:     v.store.Location(),
		Created:      view.Created,
		Incarnations: view.Incarnations,
		Requests:     Requests(view),
		Problems:     view.Problems,
		Revision:     view.Revision,
	}
	if view.RevisionErr != nil {
		v.answer.Store.RevisionProblem = view.RevisionErr.Error()
	}
	v.answer.Store.SpecMissing = view.Spec == nil && view.SpecErr == nil
	if view.IncarnationsErr != nil {
		v.answer.Store.RecordsProblem = view.IncarnationsErr.Error()
	}
	if view.SpecErr != nil {
		v.answer.Store.SpecProblem = view.SpecErr.Error()
	}
	v.answer.Records = nil
	for _, n := range view.Nodes {
		v.answer.Records = append(v.answer.Records, observe.Record{Name: n.Name, Address: n.Address, Boot: n.Boot})
	}
	v.readSource(ctx)
	v.catalog.read(ctx, &v.answer.Store)
	return nil
}

// ask polls, or waits for the poll under way. Of what began before the store was changed
// only the end is waited for, so that a store that hangs has one poll at a time.
func (v *StoreView) ask(ctx context.Context) (store.View, error) {
	fresh := func(p *poll) bool {
		return p.number > v.taken && v.now().Sub(p.finished) < v.every
	}
	p := v.polls.join(ctx, fresh)
	if p.over(ctx) && p.number <= v.after {
		p = v.polls.join(ctx, func(p *poll) bool { return p.number > v.after })
	}
	if !p.over(ctx) || p.number <= v.after {
		return store.View{}, errLate
	}
	v.taken, v.polled, v.stale = p.number, v.now(), false
	if p.err == nil {
		v.heard = v.now()
	}
	return p.value, p.err
}

// lost reports whether something is gone from the store that nobody removes:
// then the backups may be gone too.
func (v *StoreView) lost(view store.View) bool {
	was := v.answer.Store
	return !was.Created.IsZero() && view.Created.IsZero() || len(view.Incarnations) < len(was.Incarnations) ||
		v.spec != nil && view.Spec == nil
}

// Requests returns the queued requests, the existing tool's restore commands
// among them, without those that have ended and could not be deleted.
func Requests(view store.View) []cluster.Request {
	list := slices.Clone(view.Requests)
	for _, c := range view.Commands {
		list = append(list, cluster.Request{
			Name: c.Name, Kind: cluster.RequestRestore, At: c.At, Backup: c.Backup,
			MemberCount: c.Spec.MemberCount, EtcdVersion: c.Spec.EtcdVersion,
		})
	}
	list = slices.DeleteFunc(list, func(r cluster.Request) bool {
		return slices.Contains(view.ClosedNames, r.Name)
	})
	slices.SortStableFunc(list, func(a, b cluster.Request) int { return a.At.Compare(b.At) })
	return list
}

// Decided reports whether an incarnation was restored for a request: it is
// queued until that serves its clients.
func Decided(records []cluster.Incarnation, r cluster.Request) bool {
	return slices.ContainsFunc(records, func(i cluster.Incarnation) bool {
		return i.Restored != nil && i.Restored.Request == r.Name
	})
}
