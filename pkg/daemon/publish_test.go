package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// A press is a publisher at work, with a store in a directory, in a bubble of
// its own time.
type press struct {
	*publisher
	t   *testing.T
	dir string
	log bytes.Buffer
	// held is the term of which the daemon has the lease.
	held cluster.Term
	// stop ends the publisher and waits for it.
	stop func()
}

// publish plays a scenario of a press.
func publish(t *testing.T, f func(t *testing.T, p *press)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &press{t: t, dir: filepath.Join(t.TempDir(), "store")}
		s, err := store.Open(t.Context(), p.dir)
		must(t, err)
		p.begin(s)
		defer p.stop()
		f(t, p)
	})
}

func (p *press) begin(s *store.Store) {
	log := slog.New(slog.NewTextHandler(&p.log, nil))
	p.publisher = newPublisher("a", s, log, func(t cluster.Term) bool { return t == p.held }, time.Now)
	ctx, cancel := context.WithCancel(p.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.run(ctx)
	}()
	p.stop = func() {
		cancel()
		<-ended
	}
}

// pass lets time pass, and everything settle.
func (p *press) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// breakdown makes the store unreachable; it returns what fixes it.
func (p *press) breakdown() func() {
	p.t.Helper()
	must(p.t, os.MkdirAll(p.dir, 0o755))
	must(p.t, os.Rename(p.dir, p.dir+".away"))
	must(p.t, os.WriteFile(p.dir, nil, 0o644))
	return func() {
		must(p.t, os.Remove(p.dir))
		must(p.t, os.Rename(p.dir+".away", p.dir))
	}
}

// lines are the command lines in the history of the store.
func (p *press) lines() string {
	p.t.Helper()
	list, err := p.store.History(p.t.Context())
	must(p.t, err)
	var lines []string
	for _, e := range list {
		lines = append(lines, e.Line)
	}
	return strings.Join(lines, " ")
}

// status is what the store says of the cluster, nil for nothing.
func (p *press) status() *reconcile.Report {
	p.t.Helper()
	b, err := p.store.Status(p.t.Context())
	if errors.Is(err, store.ErrAbsent) {
		return nil
	}
	must(p.t, err)
	var r reconcile.Report
	must(p.t, json.Unmarshal(b, &r))
	return &r
}

// report is what a coordinator of three says when all is well.
func report() reconcile.Report {
	now := time.Now()
	r := reconcile.Report{At: now, Coordinator: "a", Term: 4, Converged: true, Spec: cluster.Spec{
		MemberCount: 3, EtcdVersion: etcdversion.Must("3.6.16"),
	}}
	r.Observation = cluster.Observation{
		At: now, Leader: 1, Store: cluster.Store{Reachable: true, Backups: []cluster.Backup{{Name: "b1", At: now}}},
	}
	for i, n := range []cluster.NodeName{"a", "b", "c"} {
		r.Observation.Members = append(r.Observation.Members, cluster.Member{
			ID: cluster.MemberID(i + 1), Name: n, Healthy: true,
		})
		r.Observation.Nodes = append(r.Observation.Nodes, cluster.Node{
			Name: n, Address: string(n) + ":1", Reachable: true, Disk: cluster.Disk{State: cluster.DiskData},
			Process: cluster.Process{State: cluster.ProcessRunning}, Assigned: &cluster.Assigned{Token: "t1"},
		})
	}
	return r
}

// done is a report of an operation that has ended.
func done(line string, err error) reconcile.Report {
	r := report()
	r.Done = &reconcile.Done{At: r.At, Term: r.Term, Line: line, Took: 3 * time.Second, Err: err}
	return r
}

func TestTheHistoryHasTheTermInWhichABackupBegan(t *testing.T) {
	publish(t, func(t *testing.T, p *press) {
		r := done("etcdadm backup take", nil)
		r.Done.Term = 2
		p.note(r)
		p.pass(time.Second)
		list, err := p.store.History(t.Context())
		must(t, err)
		if len(list) != 1 || list[0].Term != 2 || p.status().Term != 4 {
			t.Errorf("the history is %+v, the status of term %d", list, p.status().Term)
		}
	})
}

func TestHistoryAndStatusAreWritten(t *testing.T) {
	publish(t, func(t *testing.T, p *press) {
		r := done("etcdadm backup take", errors.New("bucket is full"))
		r.Holds = []plan.Hold{{Reason: plan.Alarm}}
		r.Observation.Store.Requests = []cluster.Request{
			{Kind: cluster.RequestPause, By: "eve@m1"}, {Kind: cluster.RequestBackup},
			{Kind: cluster.RequestBackup, By: "ann@m1\x1b[2J" + strings.Repeat("x", 1000)},
		}
		r.Observation.Members[1].Healthy = false
		r.Observation.Members = append(r.Observation.Members, cluster.Member{ID: 9, Learner: true})
		p.note(r)
		p.pass(time.Second)
		list, err := p.store.History(t.Context())
		must(t, err)
		want := store.HistoryEntry{
			At: r.At, Term: 4, By: "a", Line: "etcdadm backup take", Took: 3 * time.Second, Error: "bucket is full",
			Why: "3 of 3 wanted voters, 2 healthy; alarm; backup asked for by ann@m1[2J" + strings.Repeat("x", 55),
		}
		if len(list) != 1 || !list[0].At.Equal(want.At) {
			t.Fatalf("the history is %+v", list)
		}
		list[0].At = want.At
		if list[0] != want {
			t.Errorf("the entry is\n%+v, want\n%+v", list[0], want)
		}
		if st := p.status(); st == nil || st.Coordinator != "a" || st.Term != 4 || len(st.Observation.Members) != 4 {
			t.Errorf("the status is %+v", st)
		}
	})
}

// The status names the authorities of the daemons as they are when it is written: who greets the
// daemons knows strangers by them.
func TestTheStatusHasTheAuthoritiesOfTheMoment(t *testing.T) {
	publish(t, func(t *testing.T, p *press) {
		var now []string
		p.authorities = func() []string { return now }
		for i, ids := range [][]string{{"a1"}, {"a1", "b2"}, {"b2"}} {
			now = ids
			r := report()
			r.Spec.MemberCount += i // the news that has it written again
			p.note(r)
			p.pass(3 * time.Second)
			if got := p.status().Authorities; !slices.Equal(got, ids) {
				t.Errorf("the status has %v, want %v", got, ids)
			}
		}
	})
}

// Daemons without TLS have no authority.
func TestAStatusWithoutAuthorities(t *testing.T) {
	publish(t, func(t *testing.T, p *press) {
		p.note(report())
		p.pass(time.Second)
		if got := p.status().Authorities; got != nil {
			t.Errorf("the status has %v", got)
		}
	})
}

func TestTheStatusIsWrittenWhereAHoldSaysSomethingElse(t *testing.T) {
	publish(t, func(t *testing.T, p *press) {
		said := func(text string) string {
			r := report()
			r.Holds = []plan.Hold{{Reason: plan.BinaryMissing, Text: text}}
			p.note(r)
			p.pass(time.Second)
			return p.status().Holds[0].Text
		}
		for _, c := range []struct{ text, want string }{
			{"a has no binaries: 10 of 90 MB", "a has no binaries: 10 of 90 MB"},
			{"a has no binaries: 40 of 90 MB", "a has no binaries: 10 of 90 MB"}, // a number grew
			{"a has no binaries: wrong SHA-256", "a has no binaries: wrong SHA-256"},
		} {
			if got := said(c.text); got != c.want {
				t.Errorf("after %q the status says %q", c.text, got)
			}
		}
	})
}

func TestHistoryWaitsForTheStoreToComeBack(t *testing.T) {
	publish(t, func(t *testing.T, p *press) {
		p.note(done("one", nil))
		p.pass(time.Second)
		fix := p.breakdown()
		for _, line := range []string{"two", "three"} {
			p.note(done(line, nil))
			p.pass(time.Minute)
		}
		p.note(report())
		p.pass(time.Minute)
		fix()
		p.note(done("four", nil))
		p.pass(time.Second)
		if got := p.lines(); got != "one two three four" {
			t.Errorf("the history is %s", got)
		}
		said := p.log.String()
		if strings.Count(said, "cannot be published") != 1 || strings.Count(said, "published again") != 1 {
			t.Errorf("it says\n%s", said)
		}
	})
}

func TestHistoryThatWaitsIsBounded(t *testing.T) {
	publish(t, func(t *testing.T, p *press) {
		fix := p.breakdown()
		for i := range 3 * maxBuffered {
			p.note(done(fmt.Sprint(i), nil))
		}
		p.pass(time.Minute)
		for i := range 10 {
			p.note(done(fmt.Sprint("late", i), nil))
			p.pass(time.Minute)
		}
		if n := len(p.publisher.history); n > maxBuffered {
			t.Errorf("%d entries wait", n)
		}
		fix()
		p.note(report())
		p.pass(time.Second)
		list, err := p.store.History(t.Context())
		must(t, err)
		if len(list) != maxBuffered || list[len(list)-1].Line != "late9" {
			t.Errorf("%d entries, the last is %s", len(list), list[len(list)-1].Line)
		}
	})
}

// writes counts the requests that the reports of a time cost, one each 2 s.
func (p *press) writes(d time.Duration, next func(i int) reconcile.Report) int64 {
	before := p.store.Requests()
	for i := range int(d / (2 * time.Second)) {
		p.note(next(i))
		p.pass(2 * time.Second)
	}
	return (p.store.Requests() - before) / 3 // each after a read, and read once more
}

// The mark is written ahead of what was seen, seldom, and never lowered.
func TestTheStoreKeepsAHighWaterMark(t *testing.T) {
	publish(t, func(t *testing.T, p *press) {
		seen := func(r cluster.Revision) cluster.Revision {
			t.Helper()
			rep := report()
			rep.Observation.Revision, rep.Observation.Store.Reachable = r, true
			p.note(rep)
			p.pass(2 * time.Second)
			mark, err := p.store.Revision(t.Context())
			must(t, err)
			return mark
		}
		if got := seen(17); got != 1_000_000 {
			t.Errorf("at 17 the mark is %d", got)
		}
		if got := seen(999_999); got != 1_000_000 {
			t.Errorf("at 999,999 the mark is %d", got)
		}
		if got := seen(1_000_001); got != 2_000_000 {
			t.Errorf("at 1,000,001 the mark is %d", got)
		}
		if got := seen(5); got != 2_000_000 {
			t.Errorf("back at 5 the mark is %d", got)
		}
		// Somebody deletes it, as a hold may advise.
		must(t, p.store.Delete(t.Context(), "control/revision"))
		p.pass(statusInterval)
		if got := seen(1_000_001); got != 2_000_000 {
			t.Errorf("written again the mark is %d", got)
		}
		// A cluster has got so far that no mark can be above it.
		if got := seen(cluster.MaxMark); got != 2_000_000 || strings.Contains(p.log.String(), "cannot be published") {
			t.Errorf("at the highest revision the mark is %d, and it says %s", got, p.log.String())
		}
	})
}

func TestAnUnchangedStatusIsWrittenEveryTwoMinutes(t *testing.T) {
	publish(t, func(t *testing.T, p *press) {
		n := p.writes(10*time.Minute, func(i int) reconcile.Report {
			r := report() // of now
			r.Observation.Revision, r.Observation.Store.Revision = cluster.Revision(i), 1_000_000
			r.Observation.Members[0].Applied, r.Observation.Members[0].DBSize = uint64(i), int64(i)
			r.Observation.Nodes[0].FreeBytes, r.Observation.Nodes[0].ClockSkew = int64(i), time.Duration(i)
			return r
		})
		if n != 5 {
			t.Errorf("ten quiet minutes cost %d writes", n)
		}
		at := p.status().At
		p.writes(3*time.Minute, func(int) reconcile.Report { return report() })
		if newer := p.status().At; newer.Sub(at) < 2*time.Minute {
			t.Errorf("the status of %s was not written again since %s", newer, at)
		}
	})
}

func TestAChangeIsWrittenAtOnce(t *testing.T) {
	for name, change := range map[string]func(r *reconcile.Report){
		"another coordinator": func(r *reconcile.Report) { r.Coordinator = "b" },
		"another term":        func(r *reconcile.Report) { r.Term++ },
		"an operation begins": func(r *reconcile.Report) { r.Operation = "etcdadm x" },
		"a hold":              func(r *reconcile.Report) { r.Holds = []plan.Hold{{Reason: plan.Grace}} },
		"not converged":       func(r *reconcile.Report) { r.Converged = false },
		"another spec":        func(r *reconcile.Report) { r.Spec.MemberCount = 5 },
		"a leader":            func(r *reconcile.Report) { r.Observation.Leader = 2 },
		"a member less":       func(r *reconcile.Report) { r.Observation.Members = r.Observation.Members[1:] },
		"a sick member":       func(r *reconcile.Report) { r.Observation.Members[1].Healthy = false },
		"an alarm":            func(r *reconcile.Report) { r.Observation.Members[1].Alarms = []string{"NOSPACE"} },
		"an unreachable node": func(r *reconcile.Report) { r.Observation.Nodes[1].Reachable = false },
		"a stopped process":   func(r *reconcile.Report) { r.Observation.Nodes[1].Process.State = cluster.ProcessStopped },
		"another assignment":  func(r *reconcile.Report) { r.Observation.Nodes[1].Assigned = &cluster.Assigned{Token: "t2"} },
		"a conflict":          func(r *reconcile.Report) { r.Observation.Nodes[1].Conflict = "x" },
		"a gap":               func(r *reconcile.Report) { r.Observation.Gaps = []cluster.Gap{{Source: "store"}} },
		"a backup":            func(r *reconcile.Report) { r.Observation.Store.Backups = []cluster.Backup{{Name: "b2"}} },
	} {
		t.Run(name, func(t *testing.T) {
			publish(t, func(t *testing.T, p *press) {
				n := p.writes(20*time.Second, func(i int) reconcile.Report {
					r := report()
					if i >= 5 {
						change(&r)
					}
					return r
				})
				if n != 2 {
					t.Errorf("%d writes, want one before it and one after", n)
				}
			})
		})
	}
}

func TestAFloodOfChangesIsWrittenTwiceASecond(t *testing.T) {
	publish(t, func(t *testing.T, p *press) {
		before := p.store.Requests()
		for i := range 1000 {
			r := report()
			r.Term = cluster.Term(i)
			p.note(r)
			p.pass(10 * time.Millisecond)
		}
		if n := (p.store.Requests() - before) / 2; n > 22 {
			t.Errorf("ten seconds of changes cost %d writes", n)
		}
		p.pass(statusPause)
		if got := p.status().Term; got != 999 {
			t.Errorf("the last change that was written is %d", got)
		}
	})
}

func TestTheListOfBackupsIsCutShort(t *testing.T) {
	publish(t, func(t *testing.T, p *press) {
		r := report()
		for i := range 100 {
			r.Observation.Store.Backups = append(r.Observation.Store.Backups, cluster.Backup{Name: fmt.Sprint(i)})
		}
		p.note(r)
		p.pass(time.Second)
		if got := p.status().Observation.Store.Backups; len(got) != 10 || got[0].Name != "b1" {
			t.Errorf("%d backups, the first is %s", len(got), got[0].Name)
		}
		if len(r.Observation.Store.Backups) != 101 {
			t.Error("the loop's own observation was cut")
		}
	})
}

func TestTheLastReportIsWrittenAtTheEnd(t *testing.T) {
	publish(t, func(t *testing.T, p *press) {
		p.note(report())
		p.pass(100 * time.Millisecond) // it pauses now
		p.note(done("last", nil))
		began := time.Now()
		p.stop()
		if took := time.Since(began); took != 0 || p.lines() != "last" {
			t.Errorf("after %s the history is %s", took, p.lines())
		}
	})
}

// deaf is a bucket that does not answer before it is released.
type deaf struct {
	driver.Bucket
	release chan struct{}
}

var errReleased = errors.New("released")

func (d deaf) NewRangeReader(context.Context, string, int64, int64, *driver.ReaderOptions) (driver.Reader, error) {
	<-d.release
	return nil, errReleased
}

func (d deaf) NewTypedWriter(context.Context, string, string, *driver.WriterOptions) (driver.Writer, error) {
	<-d.release
	return nil, errReleased
}

func (d deaf) ErrorCode(error) gcerrors.ErrorCode { return gcerrors.Unknown }
func (d deaf) ErrorAs(error, any) bool            { return false }
func (d deaf) Close() error                       { return nil }

func TestAStoreThatHangsHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := deaf{release: make(chan struct{})}
		p := &press{t: t}
		p.begin(store.New(blob.NewBucket(d)))
		began := time.Now()
		for i := range 1000 {
			p.note(done(fmt.Sprint(i), nil))
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the loop was held up for %s", took)
		}
		p.pass(time.Hour)
		began = time.Now()
		p.stop()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("its end took %s", took)
		}
		if !strings.Contains(p.log.String(), "cannot be published") {
			t.Errorf("it says %q", p.log.String())
		}
		close(d.release)
	})
}

func TestWhatTheLastCoordinatorPublishedIsTakenOver(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir())
	must(t, err)
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	now := at.Add(2 * time.Minute)
	if got, _ := previous(t.Context(), s, now); got.Token != "" || len(got.Members) != 0 {
		t.Errorf("of nothing it took %+v", got)
	}
	r := report()
	r.Observation.Token = "t1"
	r.Term, r.Observation.At = 3, at
	r.Observation.Members[1].UnhealthySince = at.Add(-20 * time.Second)
	b, err := json.Marshal(r)
	must(t, err)
	must(t, s.PutStatus(t.Context(), b))
	got, term := previous(t.Context(), s, now)
	if term != 3 || got.Token != "t1" || len(got.Members) != 3 || len(got.Nodes) != 0 ||
		!got.Members[1].UnhealthySince.Equal(now.Add(-20*time.Second)) {
		t.Errorf("it took %+v", got)
	}
	if got, _ := previous(t.Context(), s, at.Add(12*time.Hour)); got.Token != "t1" || len(got.Members) != 3 ||
		!got.Members[1].UnhealthySince.IsZero() {
		t.Errorf("after a night it took %+v", got)
	}
	must(t, s.PutStatus(t.Context(), []byte(`"another program's"`)))
	if got, _ := previous(t.Context(), s, now); got.Token != "" {
		t.Errorf("of garbage it took %+v", got)
	}
}

func TestWhichOperationsChangeTheStore(t *testing.T) {
	for _, k := range plan.Kinds() {
		word, _, _ := strings.Cut(k.Path, " ")
		want := word == "incarnation" || word == "backup" || word == "spec" || word == "request"
		if got := changesStore("etcdadm " + k.Path + " --x=1"); got != want {
			t.Errorf("%s changes the store: %t", k.Path, got)
		}
	}
}

func TestHowOftenTheStoreIsRead(t *testing.T) {
	with := func(converged bool, rules ...plan.Reason) reconcile.Report {
		r := reconcile.Report{Converged: converged}
		for _, x := range rules {
			r.Holds = append(r.Holds, plan.Hold{Reason: x})
		}
		return r
	}
	for _, tc := range []struct {
		r    reconcile.Report
		want time.Duration
	}{
		{with(true), 10 * time.Second},
		{with(true, plan.Alarm), 2 * time.Second},
		{with(false), 2 * time.Second},
		{with(false, plan.Grace, plan.WaitingForNodes), 200 * time.Millisecond},
		{with(false, plan.SpecMissing), 200 * time.Millisecond},
		{with(true, plan.Paused), 5 * time.Second},
	} {
		if got := pollEvery(tc.r); got != tc.want {
			t.Errorf("converged %t, holds %v: every %s, want %s", tc.r.Converged, tc.r.Holds, got, tc.want)
		}
	}
}

// However often another cluster backs up into the store, this one's own backups are published.
func TestOwnBackupsArePublishedBesideOthers(t *testing.T) {
	var s cluster.Store
	for i := range 3 * reported {
		s.Backups = append(s.Backups, cluster.Backup{Name: fmt.Sprint(i), Foreign: "events"})
	}
	s.Backups = append(s.Backups, cluster.Backup{Name: "own"})
	got := worthReporting(s)
	if len(got) != reported+1 || got[reported].Name != "own" {
		t.Errorf("published are %+v", got)
	}
}
