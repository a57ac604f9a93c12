package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/store"
)

const (
	// publishTimeout bounds a write of what people read.
	publishTimeout = 5 * time.Second
	// previousTimeout bounds reading what the last coordinator published: taking
	// over does not wait longer for a store that hangs.
	previousTimeout = time.Second
	// statusInterval is how often an unchanged status is written again, so that its
	// age says whether a coordinator is there. Two a minute would be a sixth of
	// all requests that an idle cluster makes.
	statusInterval = 2 * time.Minute
	// confirmDelay is when a coordinator checks whether its status is still there: a daemon
	// that has just started may have written its own at the same time.
	confirmDelay = 3 * time.Second
	// statusPause is the shortest time between two writes.
	statusPause = 500 * time.Millisecond
)

// A publisher writes status and history to the store, beside the loop: a store
// that hangs holds nothing up.
type publisher struct {
	node  cluster.NodeName
	store *store.Store
	log   *slog.Logger
	now   func() time.Time
	// holds reports whether this daemon has the lease of a term now.
	holds func(cluster.Term) bool
	// authorities are those of the daemons' certificates; nil is for daemons without TLS.
	authorities func() []string

	mu sync.Mutex
	// latest is what the loop reported last, nil when that has been published.
	latest  *reconcile.Report
	history []store.HistoryEntry
	// orders are what others have ordered of this node, for a list of its own.
	orders []store.HistoryEntry
	wake   chan struct{}

	digest  string
	written time.Time
	// mark is the high-water mark that was written last, and marked when that was.
	mark    cluster.Revision
	marked  time.Time
	failing bool
	// confirmed says that the status was still there confirmDelay its writing.
	confirmed bool
}

func newPublisher(node cluster.NodeName, s *store.Store, log *slog.Logger, holds func(cluster.Term) bool,
	now func() time.Time) *publisher {
	return &publisher{node: node, store: s, log: log, now: now, holds: holds, wake: make(chan struct{}, 1)}
}

// maxBuffered bounds the history that waits for a store to come back.
const maxBuffered = store.MaxHistory

// order takes in what another has ordered of this node.
func (p *publisher) order(e store.HistoryEntry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orders = append(p.orders, e)
	p.orders = p.orders[max(0, len(p.orders)-store.MaxOrders):]
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// note takes in what the loop reports.
func (p *publisher) note(r reconcile.Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := r.Done; d != nil {
		e := store.HistoryEntry{
			At: d.At, Term: d.Term, By: r.Coordinator, Line: d.Line, Why: why(r), Took: d.Took,
		}
		if d.Err != nil {
			e.Error = cut(d.Err.Error())
		}
		p.history = append(p.history, e)
		if len(p.history) > maxBuffered {
			p.history = p.history[len(p.history)-maxBuffered:]
		}
	}
	p.latest = &r
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// why says in a few words what the cluster looked like when an operation was
// chosen.
func why(r reconcile.Report) string {
	voters, healthy := 0, 0
	for _, m := range r.Observation.Members {
		if m.Learner {
			continue
		}
		voters++
		if m.Healthy {
			healthy++
		}
	}
	s := fmt.Sprintf("%d of %d wanted voters, %d healthy", voters, r.Spec.MemberCount, healthy)
	for _, h := range r.Holds {
		s += "; " + string(h.Reason)
	}
	return s + askedBy(r.Observation.Store.Requests)
}

// maxPerson is how much of a person's name is shown: whoever writes into the store chooses it.
const maxPerson = 64

// askedBy says who asked for what the coordinator has to do. A pause asks for nothing.
func askedBy(requests []cluster.Request) (text string) {
	for _, r := range requests {
		if r.By == "" || r.Kind == cluster.RequestPause {
			continue
		}
		name := []rune(strings.Map(func(c rune) rune {
			if !unicode.IsPrint(c) {
				return -1
			}
			return c
		}, r.By))
		text += fmt.Sprintf("; %s asked for by %s", r.Kind, string(name[:min(len(name), maxPerson)]))
	}
	return cut(text)
}

// run writes until ctx ends, and once more then.
func (p *publisher) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			p.write(last)
			cancel()
			return
		case <-p.wake:
		}
		p.write(ctx)
		_ = wait.For(ctx, statusPause) // the loop sees the end
	}
}

func (p *publisher) write(ctx context.Context) {
	p.mu.Lock()
	r, history, orders := p.latest, p.history, p.orders
	p.latest, p.history, p.orders = nil, nil, nil
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	err := errors.Join(p.writeHistory(ctx, history), p.writeOrders(ctx, orders))
	if err == nil && r != nil {
		err = p.writeReport(ctx, *r)
	}
	if (err != nil) != p.failing {
		p.failing = err != nil
		if err != nil {
			p.log.Warn("status and history cannot be published", "error", err)
		} else {
			p.log.Info("status and history are published again")
		}
	}
}

// writeReport writes what of a report is news. What another daemon has published
// in a later term stays: between the report and its writing this one may have
// stood still.
func (p *publisher) writeReport(ctx context.Context, r reconcile.Report) error {
	digest, mark := material(r), p.raised(r)
	due := digest != p.digest || p.now().Sub(p.written) >= statusInterval
	if !due && r.Term > 0 && !p.confirmed && p.now().Sub(p.written) >= confirmDelay {
		// A daemon that knew of no coordinator may have written at the same time.
		there, err := p.present(ctx)
		p.confirmed = err == nil
		due = err == nil && (there.Coordinator != r.Coordinator || there.Term != r.Term)
	}
	if !due && mark == 0 {
		return nil
	}
	// Right before the writes, and the lease last: it is over as soon as a daemon
	// that stood still goes on.
	if there, err := p.present(ctx); err == nil && p.superseded(r, there) {
		return nil
	}
	var errs []error
	if due {
		errs = append(errs, p.writeStatus(ctx, r, digest))
	}
	if mark > 0 {
		errs = append(errs, p.writeMark(ctx, mark))
	}
	return errors.Join(errs...)
}

// raised returns the high-water mark to be written, 0 for none: the store's stays
// above every revision that was seen, so that a restore on machines that know
// nothing begins above it. One that has been gone for some time (somebody deleted an
// impossible one) is written again. What is too high for a store to keep is not written.
func (p *publisher) raised(r reconcile.Report) cluster.Revision {
	s := r.Observation.Store
	if s.Reachable && s.Revision == 0 && p.now().Sub(p.marked) >= statusInterval {
		p.mark = 0
	}
	mark := nodestate.Mark(max(s.Revision, p.mark), r.Observation.Revision)
	if !s.Reachable || s.RevisionProblem != "" || mark <= max(s.Revision, p.mark) || mark > cluster.MaxMark {
		return 0
	}
	return mark
}

func (p *publisher) writeMark(ctx context.Context, mark cluster.Revision) error {
	err := p.store.PutRevision(ctx, mark, p.now())
	if err == nil {
		p.mark, p.marked = mark, p.now()
	}
	return err
}

func (p *publisher) writeHistory(ctx context.Context, entries []store.HistoryEntry) error {
	if len(entries) == 0 {
		return nil
	}
	err := p.store.AppendHistory(ctx, entries...)
	if err != nil {
		p.mu.Lock()
		p.history = append(entries, p.history...)
		p.mu.Unlock()
	}
	return err
}

// writeOrders writes what this node was ordered. It may be the only one that
// writes the list: what a coordinator writes of its own doing is another's word.
func (p *publisher) writeOrders(ctx context.Context, entries []store.HistoryEntry) error {
	if len(entries) == 0 {
		return nil
	}
	err := p.store.AppendOrders(ctx, p.node, entries...)
	if err != nil {
		p.mu.Lock()
		p.orders = append(entries, p.orders...)
		p.orders = p.orders[max(0, len(p.orders)-store.MaxOrders):]
		p.mu.Unlock()
	}
	return err
}

func (p *publisher) writeStatus(ctx context.Context, r reconcile.Report, digest string) error {
	r.Observation.Store.Backups = worthReporting(r.Observation.Store)
	if p.authorities != nil {
		r.Authorities = p.authorities()
	}
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	if err := p.store.PutStatus(ctx, b); err != nil {
		return err
	}
	p.digest, p.written, p.confirmed = digest, p.now(), false
	return nil
}

// reported is how many of the newest backups the status shows.
const reported = 10

// worthReporting returns the newest backups, those that were verified or tried
// last, and some that are damaged. The whole list is in the store already, and
// long.
func worthReporting(s cluster.Store) []cluster.Backup {
	verified, drilled := s.Inspected()
	var list []cluster.Backup
	damaged, own, foreign := 0, 0, 0
	for _, b := range s.Backups {
		last := !b.Verified.IsZero() && b.Verified.Equal(verified) || !b.Drilled.IsZero() && b.Drilled.Equal(drilled)
		if b.Damaged {
			damaged++
		}
		count := &own
		if b.Foreign != "" {
			count = &foreign
		}
		if *count++; *count <= reported || last || b.Damaged && damaged <= reported {
			list = append(list, b)
		}
	}
	return list
}

// bootstrapped reports whether r is of a cluster that exists.
func bootstrapped(r reconcile.Report) bool {
	return len(r.Observation.Members) > 0 || len(r.Observation.LeaseVoters.Names) > 0
}

// material returns what of a report is worth a write: everything that is not
// the passing of time or the growth of a number.
func material(r reconcile.Report) string {
	var s strings.Builder
	fmt.Fprintln(&s, r.Coordinator, r.Term, r.Spec.MemberCount, r.Spec.EtcdVersion, r.Spec.Risk, r.Operation, r.Converged,
		r.Observation.Leader, r.Since.Unix())
	for _, h := range r.Holds {
		fmt.Fprintln(&s, h.Reason, withoutNumbers(h.Text))
	}
	for _, m := range r.Observation.Members {
		fmt.Fprintln(&s, m.ID, m.Name, m.Learner, m.Healthy, m.Condition, m.Alarms)
	}
	for _, n := range r.Observation.Nodes {
		if n.Assigned != nil {
			for _, h := range cluster.HazardsAhead(n.Hazards, n.Assigned.Version) {
				fmt.Fprintln(&s, n.Name, h.Kind, h.State)
			}
		}
		fmt.Fprintln(&s, n.Name, n.Address, n.Reachable, n.Disk.State, n.Process.State, n.Assigned, len(n.SetAside),
			n.Conflict)
		fmt.Fprintln(&s, n.Storage.State, n.Process.NoReport, n.Process.NoRoot)
		if st := n.Staged; st != nil {
			fmt.Fprintln(&s, st.Token, st.Ready, st.Problem, st.Done>>27) // each 128 MB
		}
	}
	for _, g := range r.Observation.Gaps {
		fmt.Fprintln(&s, g.Source)
	}
	if b := r.Observation.Store.Backups; len(b) > 0 {
		fmt.Fprintln(&s, b[0].Name, len(b))
	}
	verified, drilled := r.Observation.Store.Inspected()
	fmt.Fprintln(&s, verified.Unix(), drilled.Unix())
	return s.String()
}

// withoutNumbers returns a text without its digits: what a hold says is news where its
// words change, not where a number grows.
func withoutNumbers(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, text)
}
