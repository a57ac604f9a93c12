package reconcile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/apply"
)

// A world is a cluster of one member, as far as the loop can see: what an observation
// shows, what operations change (as [plan.Predict] says), and a protocol of
// everything that the loop does to it. Its clock is that of the bubble.
type world struct {
	mu        sync.Mutex
	obs       cluster.Observation
	spec      cluster.Spec
	candidate bool
	// quiet is for how long it is no candidate, asked how often it was asked.
	quiet    time.Duration
	asked    int
	previous cluster.Observation
	// previousTerm is the term of previous.
	previousTerm cluster.Term
	// fail says how an operation ends; it is done if fail is nil or returns nil.
	fail func(op plan.Operation) error
	// failContext does so too, and comes first.
	failContext func(ctx context.Context, op plan.Operation) error
	// show changes what an observation shows of the world, nil for nothing.
	show func(obs *cluster.Observation)
	// unfit is why the daemon should not coordinate, until when it said that the
	// loop runs.
	unfit error
	// won is called when the lease has been won.
	won func()
	// late is called with the time at which a cycle was due, nil for nothing.
	late func(due time.Time)
	// early are the lease voters that are asked before an observation.
	early cluster.LeaseVoters
	until time.Time

	lease        fakeLease
	protocol     []string
	observations []glance
	reports      []Report
	log          bytes.Buffer
	wake         chan struct{}
	begin        func()
}

// A glance is one observation: when, and what was known before.
type glance struct {
	at   time.Time
	prev cluster.Observation
}

// fakeLease is a lease that somebody else decides about.
type fakeLease struct {
	w      *world
	term   cluster.Term
	held   bool
	refuse error
	// leaseVoters are those that were asked last.
	leaseVoters cluster.LeaseVoters
	succeeds    cluster.Term
	rest        bool    // what was said last
	release     []error // the state of each Release's context
}

// newWorld is converged: node a runs the only member, and has a backup of now.
func newWorld() *world {
	version := etcdversion.Must("3.6.16")
	now := time.Now()
	w := &world{
		candidate: true,
		wake:      make(chan struct{}),
		spec: cluster.Spec{
			MemberCount: 1, EtcdVersion: version, Policy: cluster.Policy{
				BackupInterval: time.Hour, SetAsideKeep: 24 * 365 * time.Hour,
			},
		},
		obs: cluster.Observation{
			Cluster: "main", Observer: "a", Token: "t1", Leader: 1, Revision: 5, Since: now,
			LeaseVoters: cluster.LeaseVoters{Token: "t1", Term: 1, Names: []cluster.NodeName{"a"}},
			Members: []cluster.Member{
				{ID: 1, Name: "a", PeerURLs: []string{"http://10.0.0.1:2380"}, ClientURLs: []string{"http://10.0.0.1:4001"},
					Healthy: true},
			},
			Store: cluster.Store{Reachable: true, BackupsKnown: true, Created: now,
				Incarnations: []cluster.Incarnation{
					{Number: 1, Token: "t1", Version: version, Voters: []cluster.InitialMember{
						{Name: "a", PeerURLs: []string{"http://10.0.0.1:2380"}},
					}},
				},
				Backups: []cluster.Backup{{Name: "b0", At: now}}},
			Nodes: []cluster.Node{{
				Name: "a", Address: "10.0.0.1:8000", Reachable: true, Published: true, Boot: "boot",
				URLs:        cluster.URLs{Peer: []string{"http://10.0.0.1:2380"}, Client: []string{"http://10.0.0.1:4001"}},
				Disk:        cluster.Disk{State: cluster.DiskData, Token: "t1", MemberID: 1},
				Assigned:    &cluster.Assigned{Token: "t1", Version: version},
				Process:     cluster.Process{State: cluster.ProcessRunning, Version: version},
				LeaseVoters: cluster.LeaseVoters{Token: "t1", Term: 1, Names: []cluster.NodeName{"a"}},
				Versions:    []etcdversion.Version{version},
			}},
		},
	}
	w.lease.w = w
	return w
}

// backupDue makes the periodic backup the only thing to do.
func (w *world) backupDue() { w.obs.Store.Backups = nil }

// unmarked makes the marker of a bootstrapped cluster be missing.
func (w *world) unmarked() { w.obs.Store.Created = time.Time{} }

func (w *world) note(format string, args ...any) {
	w.protocol = append(w.protocol, fmt.Sprintf(format, args...))
}

// change lets f change the world while the loop may be running.
func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *world) options() Options {
	return Options{
		Self: "a", Lease: &w.lease, Wake: w.wake, Now: time.Now,
		Log: slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{ReplaceAttr: withoutTime})),
		Candidate: func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.asked++
			return w.candidate
		},
		Won: func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.won != nil {
				w.won()
			}
		},
		Late: func(due time.Time) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.late != nil {
				w.late(due)
			}
		},
		Quiet: func() time.Duration {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.quiet
		},
		Observe: func(_ context.Context, prev cluster.Observation) cluster.Observation {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.observations = append(w.observations, glance{time.Now(), prev})
			w.note("observe")
			obs := w.obs
			obs.At = time.Now()
			if w.show != nil {
				w.show(&obs)
			}
			return obs
		},
		Spec: func() cluster.Spec {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.spec
		},
		Early: func() cluster.LeaseVoters {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.early
		},
		Fit: func() error {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.unfit
		},
		Progress: func(within time.Duration) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.until = time.Now().Add(within)
		},
		Deadline: func(cluster.Observation, plan.Operation) time.Duration { return 5 * time.Second },
		Do:       w.do, NotYet: apply.NotYet,
		Previous: func(context.Context) (cluster.Observation, cluster.Term) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.note("previous")
			return w.previous, w.previousTerm
		},
		Report: func(_ context.Context, r Report) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.reports = append(w.reports, r)
		},
	}
}

func (w *world) do(ctx context.Context, _ cluster.Spec, obs cluster.Observation, op plan.Operation) error {
	w.mu.Lock()
	w.note("%s", plan.KindOf(op).Path)
	fail, failContext := w.fail, w.failContext
	w.mu.Unlock()
	if failContext != nil {
		if err := failContext(ctx, op); err != nil {
			return err
		}
	}
	if fail != nil {
		// Without the lock: the loop may observe meanwhile.
		if err := fail(op); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.obs = plan.Predict(obs, op)
	w.obs.Failures = nil
	if len(w.obs.Store.Incarnations) == 0 {
		w.obs.LeaseVoters = cluster.LeaseVoters{} // a promise makes lease voters when its bootstrap has a record
	}
	return nil
}

// withoutTime keeps the time out of the log, and shows durations only as such.
func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

func (l *fakeLease) Acquire(_ context.Context, e cluster.LeaseVoters) error {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.w.note("acquire from %v", e.Names)
	l.leaseVoters = e
	if l.refuse != nil {
		return l.refuse
	}
	l.term, l.held = l.term+1, true
	return nil
}

func (l *fakeLease) LeaseVoters() cluster.LeaseVoters { return l.leaseVoters }

func (l *fakeLease) Succeeds() cluster.Term {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.succeeds
}

func (l *fakeLease) Held() (cluster.Term, bool) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if !l.held {
		return 0, false
	}
	return l.term, true
}

func (l *fakeLease) Rest(rest bool) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.rest = rest
}

func (l *fakeLease) Release(ctx context.Context) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.held {
		l.w.note("release")
	}
	l.held = false
	l.release = append(l.release, ctx.Err())
}

// run plays a scenario of w in a bubble of its own time. The loop begins when the
// scenario first lets time pass, and has ended when run returns.
func run(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		defer done.Wait()
		defer cancel()
		w.begin = sync.OnceFunc(func() { done.Go(func() { New(w.options()).Run(ctx) }) })
		f(t, w)
	})
}

// pass lets time pass, and everything settle.
func (w *world) pass(d time.Duration) {
	w.begin()
	time.Sleep(d)
	synctest.Wait()
}

// done lists what was done, without the observations in between.
func (w *world) done() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(slices.DeleteFunc(slices.Clone(w.protocol), func(s string) bool { return s == "observe" }), "; ")
}

func (w *world) count(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, s := range w.protocol {
		if s == what {
			n++
		}
	}
	return n
}

func (w *world) last(t *testing.T) Report {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.reports) == 0 {
		t.Fatal("nothing was reported")
	}
	return w.reports[len(w.reports)-1]
}

func reasons(r Report) string {
	var list []string
	for _, h := range r.Holds {
		list = append(list, string(h.Reason))
	}
	return strings.Join(list, " ")
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is\n%v\nwant\n%v", what, got, want)
	}
}

var errBroken = errors.New("it broke")
