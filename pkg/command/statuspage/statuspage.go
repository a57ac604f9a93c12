// Package statuspage is the page on which a daemon shows its cluster: files that do not
// change, and what is known now as JSON. Nothing is read or computed while nobody asks.
package statuspage

import (
	"context"
	"embed"
	"encoding/json"
	"net/http"
	"path"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/daemon"
	"github.com/etcdadm/etcdadm/pkg/daemon/observe"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// Kind is that of the page's JSON.
const Kind = "StatusPage"

// JSONPath is where the JSON is.
const JSONPath = "/status.json"

//go:embed page
var files embed.FS

const (
	// observeInterval, publishedInterval and historyInterval are how often the sources are read
	// while somebody looks.
	observeInterval, publishedInterval, historyInterval = 2 * time.Second, 2 * time.Second, 10 * time.Second
	// answerTime is how long one answer may wait for an observation, storeTime how long for
	// what only the store reports.
	answerTime, storeTime = 4 * time.Second, time.Second
)

// A server answers for the page.
type server struct {
	from      daemon.PageSource
	report    latest[seen]
	published latest[reconcile.Report]
	history   latest[store.Past]
}

// New returns the page's handler.
func New(from daemon.PageSource) http.Handler {
	s := &server{from: from}
	s.report = latest[seen]{every: observeInterval, now: from.Now, read: s.observe}
	s.published = latest[reconcile.Report]{
		every: publishedInterval, now: from.Now,
		read: func(ctx context.Context, _ reconcile.Report) (reconcile.Report, error) { return from.Published(ctx) },
	}
	s.history = latest[store.Past]{
		every: historyInterval, now: from.Now,
		read: func(ctx context.Context, _ store.Past) (store.Past, error) { return from.Past(ctx) },
	}
	return s
}

// observe returns what this daemon's loop sees, or observes. The first observation of one that
// stands by begins with what a coordinator published.
func (s *server) observe(ctx context.Context, before seen) (seen, error) {
	if r, ok := s.from.Report(); ok {
		return planned(seen{report: r, own: true}), nil
	}
	prev := before.report.Observation
	if before.report.At.IsZero() {
		short, end := context.WithTimeout(ctx, storeTime) // the store may hang
		p := s.published.get(short)
		end()
		if !p.At.IsZero() {
			prev = observe.Remembered(p.Value.Observation, p.Value.Term, s.from.Now())
		}
	}
	spec, obs := s.from.Observe(ctx, prev)
	if err := ctx.Err(); err != nil {
		return seen{}, context.Cause(ctx)
	}
	r, _ := render.Observed(spec, obs)
	return planned(seen{report: r}), nil
}

// planned adds the plan ahead.
func planned(s seen) seen {
	steps, err := render.NewSteps(s.report.Spec, s.report.Observation)
	if err != nil {
		s.planProblem = err.Error()
	}
	s.plan = steps.Operations
	return s
}

// page returns what is known now.
func (s *server) page(ctx context.Context) Page {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	in := inputs{cluster: s.from.Cluster, node: s.from.Node, store: s.from.Store}
	in.report = s.report.get(ctx)
	short, end := context.WithTimeout(ctx, storeTime)
	defer end()
	var wg sync.WaitGroup
	if !in.report.Value.own {
		wg.Go(func() { in.published = s.published.get(short) })
	}
	in.history = s.history.get(short)
	wg.Wait()
	in.now = s.from.Now()
	return build(in)
}

// headers keep the page from running, loading, being framed by or being kept anything but
// itself.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
	"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
	"Cross-Origin-Opener-Policy": "same-origin",
}

// types are the files of the page.
var types = map[string]string{
	"/": "text/html; charset=utf-8", "/status.css": "text/css; charset=utf-8",
	"/status.js": "text/javascript; charset=utf-8",
}

// ServeHTTP answers for the page, its two files and the JSON.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	kind, ok := types[r.URL.Path]
	switch {
	case !ok && r.URL.Path != JSONPath:
		http.NotFound(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the status page only shows", http.StatusMethodNotAllowed)
	case ok:
		name := r.URL.Path
		if name == "/" {
			name = "/index.html"
		}
		b, err := files.ReadFile(path.Join("page", name))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(b)
	default:
		b, err := json.Marshal(cli.Versioned(Kind, s.page(r.Context())))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(b, '\n'))
	}
}
