package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/observe"
	"github.com/etcdadm/etcdadm/pkg/retention"
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
	leftovers   []string
	backupsRead time.Time
	// source is the backup of the first restore that is yet to be decided on.
	source *cluster.Source
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
		if err := v.readBackups(ctx); err != nil {
			return err
		}
	}
	v.spec = view.Spec
	v.answer.Store = cluster.Store{
		Created:      view.Created,
		Incarnations: view.Incarnations,
		Backups:      v.backups,
		Leftovers:    v.leftovers,
		BackupsKnown: true,
		Requests:     Requests(view),
		Problems:     view.Problems,
		Revision:     view.Revision,
	}
	if view.RevisionErr != nil {
		v.answer.Store.RevisionProblem = view.RevisionErr.Error()
	}
	if err := v.readSource(ctx); err != nil {
		return err
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

func (v *StoreView) readBackups(ctx context.Context) error {
	list, leftovers, err := v.store.Survey(ctx, v.now().Add(-retention.LeftoverAge))
	if err != nil {
		return fmt.Errorf("list backups: %w", err)
	}
	v.backups, v.leftovers, v.backupsRead = list, leftovers, v.now()
	return nil
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
	return slices.ContainsFunc(records, func(i cluster.Incarnation) bool { return i.Restored != nil && i.Restored.Request == r.Name })
}

// readSource learns what is to be restored, once for each request. A request
// for a backup that came after the last listing has the list read again.
func (v *StoreView) readSource(ctx context.Context) error {
	i := slices.IndexFunc(v.answer.Store.Requests, func(r cluster.Request) bool {
		return r.Kind == cluster.RequestRestore && !Decided(v.answer.Store.Incarnations, r)
	})
	if i < 0 {
		v.source = nil
		return nil
	}
	r := v.answer.Store.Requests[i]
	if v.source == nil || v.source.Request != r.Name || v.source.Backup != r.Backup {
		if err := v.readBackups(ctx); err != nil {
			return err
		}
		list := v.backups
		v.answer.Store.Backups, v.answer.Store.Leftovers = list, v.leftovers
		src, err := Source(ctx, v.store, r)
		if err != nil {
			return err
		}
		// The newest backup tells of a revision too, and the mark may be old where
		// the store lets nothing be overwritten.
		if len(list) > 0 {
			newest, err := Source(ctx, v.store, cluster.Request{Backup: list[0].Name})
			if err != nil {
				return err
			}
			src.Seen = max(src.Revision, newest.Revision)
		}
		v.source = &src
	}
	v.answer.Store.Source = v.source
	return nil
}

// Source describes the backup that a request asks for. What is wrong with it
// for good is said in it; an error says that the store did not answer.
func Source(ctx context.Context, s *store.Store, r cluster.Request) (cluster.Source, error) {
	src := cluster.Source{Request: r.Name, Backup: r.Backup}
	d, err := backup.Describe(ctx, s, r.Backup)
	switch {
	case errors.Is(err, store.ErrUnreachable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return src, err
	case errors.Is(err, store.ErrDenied):
		return src, err
	case err != nil:
		src.Problem = err.Error()
	default:
		src.Version, src.Storage, src.Revision, src.Size = d.EtcdVersion, d.StorageVersion, d.Revision, d.Content.Size
	}
	return src, nil
}
