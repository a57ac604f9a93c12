package statuspage

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/daemon"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/store"
)

var start = time.Date(2026, 11, 25, 3, 0, 0, 0, time.UTC)

// A world is a daemon's sources, which the test changes.
type world struct {
	mu        sync.Mutex
	now       time.Time
	own       *reconcile.Report
	published *reconcile.Report
	obs       cluster.Observation
	storeErr  error
	note      string
	observed  int
	prev      cluster.Observation
}

func (w *world) source() daemon.PageSource {
	return daemon.PageSource{
		Cluster: "main", Node: "b",
		Now: func() time.Time {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.now
		},
		Report: func() (reconcile.Report, bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.own == nil {
				return reconcile.Report{}, false
			}
			return *w.own, true
		},
		Observe: func(_ context.Context, prev cluster.Observation) (cluster.Spec, cluster.Observation) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.observed++
			w.prev = prev
			w.obs.At = w.now
			return cluster.Spec{MemberCount: 2}, w.obs
		},
		Published: func(context.Context) (reconcile.Report, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.published == nil {
				return reconcile.Report{}, store.ErrAbsent
			}
			return *w.published, w.storeErr
		},
		Past: func(context.Context) (store.Past, error) {
			return store.Past{
				Entries: []store.HistoryEntry{{At: start.Add(-time.Hour), By: "a", Line: "etcdadm x"}}, Note: w.note,
			}, w.storeErr
		},
	}
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// two is what a daemon sees of two members while a has the lease of term 4.
func two() cluster.Observation {
	lease := cluster.Lease{Term: 4, Holder: "a", Running: true}
	return cluster.Observation{
		Cluster: "main", Leader: 1, LeaseVoters: cluster.LeaseVoters{Token: "t", Names: []cluster.NodeName{"a", "b"}},
		Members: []cluster.Member{
			{ID: 1, Name: "a", Healthy: true, PeerURLs: []string{"https://a:2380"}},
			{ID: 2, Name: "b", Healthy: true, PeerURLs: []string{"https://b:2380"}},
		},
		Nodes: []cluster.Node{
			{
				Name: "a", Reachable: true, Lease: lease,
				Links: []cluster.Link{{Member: 2, Tried: true}, {Member: 77, Tried: true}},
			},
			{Name: "b", Reachable: true, Lease: lease, Links: []cluster.Link{{Member: 1, Why: "refused", Down: time.Minute}}},
		},
		Store: cluster.Store{Reachable: true, BackupsKnown: true, Backups: []cluster.Backup{
			{Name: "new", At: start.Add(-time.Minute), Size: 7}, {Name: "old", At: start.Add(-2 * time.Hour), Damaged: true},
		}},
	}
}

func ask(t *testing.T, h http.Handler) Page {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, JSONPath, nil))
	var p struct {
		APIVersion, Kind string
		Page
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Kind != Kind || p.APIVersion != "etcdadm.dev/v1" {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return p.Page
}

// A daemon that stands by observes by itself, and takes from the coordinator what only that
// knows, as long as it coordinates.
func TestPageOfADaemonThatStandsBy(t *testing.T) {
	w := &world{now: start, obs: two()}
	w.published = &reconcile.Report{
		At: start.Add(-time.Minute), Coordinator: "a", Term: 4, Operation: "etcdadm defrag",
		Since: start.Add(-30 * time.Second),
		Observation: cluster.Observation{At: start.Add(-time.Minute), Members: []cluster.Member{
			{ID: 1, Name: "a", UnhealthySince: start.Add(-2 * time.Minute)},
		}},
	}
	h := New(w.source())
	p := ask(t, h)
	if p.Operation != "etcdadm defrag" || p.OperationAge != 30 || p.Said == nil || !p.Said.Counts ||
		p.Coordinator != "a (term 4)" || p.Leader != "a" || *p.Age != 0 {
		t.Errorf("%+v, said %+v", p, p.Said)
	}
	if len(w.prev.Members) != 1 || w.prev.Members[0].UnhealthySince.IsZero() {
		t.Errorf("it does not begin with what was published: %+v", w.prev)
	}
	if len(p.Links) != 2 || p.Links[0] != (Link{From: "a", To: "b", State: "up"}) ||
		p.Links[1] != (Link{From: "b", To: "a", State: "down", Why: "refused", Down: 60}) {
		t.Errorf("links %+v", p.Links)
	}
	var line []string
	for _, e := range p.TimeLine {
		line = append(line, e.Kind+" "+e.Text+" "+e.Problem)
	}
	if got := strings.Join(line, ", "); got != "backup new , operation etcdadm x , backup old damaged" {
		t.Errorf("time line %s", got)
	}
	// What it said in a term that is over is not what is going on.
	w.mu.Lock()
	for i := range w.obs.Nodes {
		w.obs.Nodes[i].Lease.Running = false
	}
	w.mu.Unlock()
	w.pass(observeInterval)
	p = ask(t, h)
	if p.Operation != "" || p.Said.Counts || !strings.HasPrefix(p.Coordinator, "none") || len(p.Holds) == 0 ||
		p.Holds[0].Reason != plan.NoCoordinator || p.Holds[0].Do == "" || p.Health != render.Degraded {
		t.Errorf("nobody coordinates: %+v, said %+v", p, p.Said)
	}
}

// The coordinator shows its own report, and observes nothing for the page.
func TestPageOfTheCoordinator(t *testing.T) {
	w := &world{now: start, own: &reconcile.Report{
		At: start.Add(-3 * time.Second), Coordinator: "b", Term: 9, Converged: true, Spec: cluster.Spec{MemberCount: 2},
		Observation: two(),
	}}
	w.storeErr = errors.New("the store is away")
	p := ask(t, New(w.source()))
	if p.Health != render.Healthy || p.State != "as the spec says" || *p.Age != 3 || p.Coordinator != "b (term 9)" ||
		p.Said != nil || w.observed != 0 || !p.Machines[1].Coordinator || p.Machines[0].Coordinator {
		t.Errorf("%+v, observed %d times", p, w.observed)
	}
	if p.HistoryProblem != "the store is away" || len(p.TimeLine) != 2 {
		t.Errorf("without the store: %q, %+v", p.HistoryProblem, p.TimeLine)
	}
}

// Records of what users asked for that cannot be read hide nothing of what was done.
func TestPageWithANoteOnItsTimeLine(t *testing.T) {
	w := &world{now: start, obs: two(), note: "store denies access"}
	p := ask(t, New(w.source()))
	if p.HistoryProblem != "" || p.HistoryNote != w.note ||
		!slices.ContainsFunc(p.TimeLine, func(e Event) bool { return e.Text == "etcdadm x" }) {
		t.Errorf("%q, %q, %+v", p.HistoryProblem, p.HistoryNote, p.TimeLine)
	}
}

// Old data is called stale, and not healthy. A daemon that has seen nothing says so.
func TestPageIsStale(t *testing.T) {
	r := reconcile.Report{At: start, Coordinator: "b", Term: 9, Converged: true, Observation: two()}
	in := inputs{now: start.Add(staleAge + time.Second), report: reading[seen]{
		Value: seen{report: r, own: true}, At: start, Err: errors.New("it hangs"),
	}}
	p := build(in)
	if p.Health != render.Unknown || !strings.Contains(p.State, "STALE") || *p.Age != 21 || p.Problem != "it hangs" {
		t.Errorf("%+v", p)
	}
	p = build(inputs{now: start, report: reading[seen]{Err: errors.New("no answer yet")}})
	if p.Health != render.Unknown || p.Age != nil || p.Problem != "no answer yet" {
		t.Errorf("%+v", p)
	}
}

// What was found of links before a machine was gone is not how they are now.
func TestLinksOfWhatDoesNotAnswerAreUnknown(t *testing.T) {
	obs := two()
	obs.Nodes[1].Links = []cluster.Link{{Member: 1, Tried: true}}
	obs.Nodes = append(obs.Nodes, cluster.Node{Name: "spare"})
	states := func(age time.Duration) string {
		r := reconcile.Report{At: start, Coordinator: "a", Term: 9, Converged: true, Observation: obs}
		p := build(inputs{now: start.Add(age), report: reading[seen]{Value: seen{report: r, own: true}, At: start}})
		var list []string
		for _, l := range p.Links {
			list = append(list, string(l.From)+string(l.To)+" "+l.State+" "+l.Why)
		}
		return strings.Join(list, "; ")
	}
	for _, tc := range []struct {
		what   string
		change func()
		age    time.Duration
		want   string
	}{
		{"well", func() {}, 0, "ab up ; ba up "},
		{"old", func() {}, staleAge + 1, "ab unknown the observation is STALE; ba unknown the observation is STALE"},
		{"the daemon of b is gone, and its etcd serves", func() { obs.Nodes[1].Reachable = false }, 0,
			"ab up ; ba unknown the daemon of b does not answer"},
		{"b is gone", func() { obs.Members[1].Healthy = false }, 0,
			"ab unknown the daemon of b does not answer, and neither does its etcd; ba unknown the daemon of b does not answer"},
		{"b is gone, and was tried since", func() { obs.Nodes[0].Links[0].Why = "refused" }, 0,
			"ab down refused; ba unknown the daemon of b does not answer"},
	} {
		if tc.change(); states(tc.age) != tc.want {
			t.Errorf("%s: %s, want %s", tc.what, states(tc.age), tc.want)
		}
	}
}

// The lines that holds advise are about the daemon's store.
func TestPageNamesTheStoreInLines(t *testing.T) {
	r := reconcile.Report{At: start, Coordinator: "b", Term: 9, Observation: two(), Holds: []plan.Hold{
		{Reason: plan.Paused, Text: "resume: etcd-manager-ctl " + plan.StoreFlag + " resume"},
	}}
	in := inputs{now: start, store: "s3://bucket/main"}
	in.report = reading[seen]{Value: seen{report: r, own: true}, At: start}
	const line = "etcd-manager-ctl --backup-store=s3://bucket/main resume"
	if h := build(in).Holds; len(h) != 1 || !strings.Contains(h[0].Text, line) || !strings.Contains(h[0].Do, line) {
		t.Errorf("%+v", h)
	}
	// A secret is not shown.
	in.store = "s3://me:secret@bucket/main"
	if h := build(in).Holds; len(h) != 1 || !strings.Contains(h[0].Text, plan.StoreFlag) {
		t.Errorf("%+v", h)
	}
}

// Who asks at the same time shares one observation, and when nobody asks any more nothing
// is kept.
func TestOneObservationForAll(t *testing.T) {
	w := &world{now: start, obs: two()}
	s := New(w.source()).(*server)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { ask(t, s) })
	}
	all.Wait()
	if w.observed != 1 {
		t.Errorf("observed %d times", w.observed)
	}
	w.pass(observeInterval)
	ask(t, s)
	if w.observed != 2 {
		t.Errorf("observed %d times", w.observed)
	}
	s.report.drop()
	if r := s.report.value.report; len(r.Observation.Nodes) != 0 || !s.report.at.IsZero() {
		t.Errorf("it keeps %+v", r)
	}
}

// A store that hangs keeps nobody from seeing the cluster.
func TestPageBesideAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := (&world{now: start, obs: two()}).source()
		from.Published = func(ctx context.Context) (reconcile.Report, error) {
			<-ctx.Done()
			return reconcile.Report{}, ctx.Err()
		}
		if p := ask(t, New(from)); p.Age == nil || len(p.Members) != 2 {
			t.Errorf("%+v", p)
		}
		<-time.After(readTime)
		synctest.Wait() // the reading has ended
	})
}

// An observation that hangs leaves the last one, with its age.
func TestAReadingThatHangs(t *testing.T) {
	now, hang := start, make(chan struct{})
	block := false
	l := latest[int]{every: time.Second, now: func() time.Time { return now }}
	l.read = func(context.Context, int) (int, error) {
		if block {
			<-hang
		}
		return 7, nil
	}
	if r := l.get(t.Context()); r.Value != 7 || r.At != start || r.Err != nil {
		t.Fatalf("%+v", r)
	}
	defer close(hang)
	now, block = start.Add(time.Minute), true
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if r := l.get(ctx); r.Value != 7 || r.At != start {
		t.Errorf("%+v", r)
	}
}

// The page is what it is, and nothing else: no other file, no method that changes
// something, and headers that keep it so.
func TestHeadersAndFiles(t *testing.T) {
	h := New((&world{now: start, obs: two()}).source())
	for _, tc := range []struct {
		method, path string
		code         int
		kind         string
	}{
		{"GET", "/", 200, "text/html; charset=utf-8"}, {"HEAD", "/", 200, "text/html; charset=utf-8"},
		{"GET", "/status.css", 200, "text/css; charset=utf-8"}, {"GET", "/status.js", 200, "text/javascript; charset=utf-8"},
		{"GET", JSONPath, 200, "application/json"}, {"POST", JSONPath, 405, ""}, {"DELETE", "/", 405, ""},
		{"GET", "/page/status.js", 404, ""}, {"GET", "/../statuspage.go", 404, ""}, {"GET", "/index.html", 404, ""},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), tc.method, "/", nil)
		r.URL.Path = tc.path
		h.ServeHTTP(w, r)
		if w.Code != tc.code || tc.kind != "" && w.Header().Get("Content-Type") != tc.kind {
			t.Errorf("%s %s: %d %q", tc.method, tc.path, w.Code, w.Header().Get("Content-Type"))
		}
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") ||
			!strings.Contains(policy, "frame-ancestors 'none'") || w.Header().Get("Cache-Control") != "no-store" ||
			w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s %s: headers %v", tc.method, tc.path, w.Header())
		}
	}
}

// Nothing makes markup of a text, nothing is inline, and nothing is loaded from elsewhere.
func TestFilesAreSelfContained(t *testing.T) {
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		text := strings.ReplaceAll(string(b), "http://www.w3.org/2000/svg", "")
		for _, bad := range []string{
			"innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "DOMParser", "http://", "https://", "//cdn",
			"style=", "onclick", "<style", "@import", "url(", "localStorage",
		} {
			if strings.Contains(text, bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
		if strings.Contains(text, "<script>") {
			t.Errorf("%s has a script inline", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
