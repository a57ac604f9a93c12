package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/observe"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// backupsEvery is how often the list of backups is read again. The daemon
// knows of those that it took itself; others come from etcd-backup or a person.
const backupsEvery = 15 * time.Minute

// StoreView keeps what the control store said last, so that looks can be
// frequent and requests to the store rare.
type StoreView struct {
	store *store.Store
	now   func() time.Time

	mu     sync.Mutex
	answer observe.StoreAnswer
	spec   *store.SpecFile
	polled time.Time
	// every is how old an answer may be.
	every       time.Duration
	backups     []cluster.Backup
	backupsRead time.Time
	// waited is when a store that fails was last given all the time it wanted.
	waited time.Time
}

// NewStoreView returns a view that reads the store at most once in every.
func NewStoreView(s *store.Store, every time.Duration, now func() time.Time) *StoreView {
	return &StoreView{store: s, every: every, now: now}
}

// Every changes how old an answer may be.
func (v *StoreView) Every(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.every = d
}

// Stale makes the next look read the store, and the list of backups too.
func (v *StoreView) Stale() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.polled, v.backupsRead = time.Time{}, time.Time{}
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
	ctx, cancel := v.patience(ctx)
	defer cancel()
	v.answer.Err = v.read(ctx)
	v.polled = v.now()
	return v.answer
}

const (
	// failingTimeout is how long a store that failed is waited for, and
	// failingEvery how often it gets its full time all the same: a store that
	// hangs shall not make every look slow.
	failingTimeout = 300 * time.Millisecond
	failingEvery   = 15 * time.Second
)

func (v *StoreView) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	if v.answer.Err == nil || v.now().Sub(v.waited) >= failingEvery {
		v.waited = v.now()
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, failingTimeout)
}

// errNoStore is what a view without a store says.
var errNoStore = errors.New("no store is given (--backup-store)")

func (v *StoreView) read(ctx context.Context) error {
	if v.store == nil {
		return errNoStore
	}
	view, err := v.store.Poll(ctx)
	if err != nil {
		return err
	}
	if v.lost(view) || v.backupsRead.IsZero() || v.now().Sub(v.backupsRead) >= backupsEvery {
		list, err := v.store.Backups(ctx)
		if err != nil {
			return fmt.Errorf("list backups: %w", err)
		}
		v.backups, v.backupsRead = list, v.now()
	}
	v.spec = view.Spec
	v.answer.Store = cluster.Store{
		Created:      view.Created,
		Incarnations: view.Incarnations,
		Backups:      v.backups,
		BackupsKnown: true,
		Requests:     requests(view),
		Problems:     view.Problems,
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
	return nil
}

// lost reports whether something is gone from the store that nobody removes:
// then the backups may be gone too.
func (v *StoreView) lost(view store.View) bool {
	was := v.answer.Store
	return !was.Created.IsZero() && view.Created.IsZero() || len(view.Incarnations) < len(was.Incarnations) ||
		v.spec != nil && view.Spec == nil
}

// requests returns the queued requests, the existing tool's restore commands
// among them.
func requests(view store.View) []cluster.Request {
	list := view.Requests
	for _, c := range view.Commands {
		list = append(list, cluster.Request{Name: c.Name, Kind: cluster.RequestRestore, At: c.At, Backup: c.Backup})
	}
	return list
}
