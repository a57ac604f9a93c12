//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/command/statuspage"
	"github.com/etcdadm/etcdadm/pkg/daemon"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// hostile is a name that would do something if any of it were taken for markup.
const hostile = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`

// noBrowser is why a developer's machine may skip these tests; .ci/run installs it.
const noBrowser = "there is no Chromium: install the package chromium"

// browse loads a page in a browser of the given width, and returns what the document is
// after a few seconds of its time. With ETCDADM_SCREENSHOTS a picture goes there.
func browse(t *testing.T, url, name string, width int, flags ...string) string {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip(noBrowser)
	}
	run := func(args ...string) string {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		args = append([]string{
			"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir=" + t.TempDir(),
			"--virtual-time-budget=5000", fmt.Sprintf("--window-size=%d,2600", width),
		}, append(flags, args...)...)
		out, err := exec.CommandContext(ctx, program, append(args, url)...).Output()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			t.Fatalf("%v: %s", err, exit.Stderr)
		} else if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if dir := os.Getenv("ETCDADM_SCREENSHOTS"); dir != "" {
		run("--screenshot=" + filepath.Join(dir, name+".png"))
	}
	return run("--dump-dom")
}

// scene is a cluster of three as the page's daemon sees it.
func scene(now time.Time) (reconcile.Report, []store.HistoryEntry) {
	version := etcdversion.Must(v36)
	names := []cluster.NodeName{"control-plane-1", "control-plane-2", "control-plane-3"}
	r := reconcile.Report{
		At: now, Coordinator: names[1], Term: 7, Converged: true,
		Spec: cluster.Spec{MemberCount: 3, EtcdVersion: version},
		Observation: cluster.Observation{
			Cluster: "main", At: now, Leader: 1, Token: "t1",
			Store: cluster.Store{
				Reachable: true, BackupsKnown: true,
				Backups: []cluster.Backup{
					{Name: "2026-11-25T12:00:00Z-000003", At: now.Add(-9 * time.Minute), Size: 136 << 20},
					{
						Name: "2026-11-25T11:45:00Z-000002", At: now.Add(-24 * time.Minute), Size: 135 << 20,
						Verified: now.Add(-20 * time.Minute), Drilled: now.Add(-15 * time.Minute),
					},
				},
			},
		},
	}
	for i, name := range names {
		id := cluster.MemberID(i + 1)
		r.Observation.Members = append(r.Observation.Members, cluster.Member{
			ID: id, Name: name, Healthy: true, Condition: cluster.Serving, DBSize: 201 << 20, Version: version,
		})
		n := cluster.Node{
			Name: name, Address: fmt.Sprintf("10.0.0.%d:8000", i+1), Reachable: true, LastSeen: now,
			Disk:      cluster.Disk{State: cluster.DiskData, Token: "t1", MemberID: id},
			Assigned:  &cluster.Assigned{Token: "t1", Version: version},
			Process:   cluster.Process{State: cluster.ProcessRunning, Version: version},
			Storage:   cluster.Storage{State: "ok", Path: "/var/lib/etcd", Latency: 2 * time.Millisecond},
			FreeBytes: 41 << 30, CertNotAfter: now.Add(500 * 24 * time.Hour),
		}
		for to := range names {
			if to != i {
				n.Links = append(n.Links, cluster.Link{Member: cluster.MemberID(to + 1), Tried: true})
			}
		}
		r.Observation.Nodes = append(r.Observation.Nodes, n)
	}
	return r, []store.HistoryEntry{
		{At: now.Add(-3 * time.Hour), By: names[0], Line: "etcdadm member promote --node=control-plane-3", Took: time.Second,
			Why: "2 of 3 wanted voters, 2 healthy"},
		{At: now.Add(-24 * time.Minute), By: names[1], Line: "etcdadm backup create --node=control-plane-2", Took: 3 * time.Second},
	}
}

// broken is the scene with a machine that is gone, a link that is down, a full disk, a
// certificate that has expired, and names that somebody chose to harm.
func broken(now time.Time) (reconcile.Report, []store.HistoryEntry) {
	r, history := scene(now)
	obs := &r.Observation
	r.Converged = false
	r.Operation, r.Since = "etcdadm member remove --id=0000000000000003 --node=control-plane-3", now.Add(-90*time.Second)
	obs.Members[2].Healthy, obs.Members[2].Condition = false, ""
	obs.Members[2].UnhealthySince = now.Add(-8 * time.Minute)
	obs.Nodes[2].Reachable, obs.Nodes[2].LastSeen = false, now.Add(-8*time.Minute)
	obs.Nodes[0].Links[0].Why, obs.Nodes[0].Links[0].Down = "dial tcp 10.0.0.2:2380: i/o timeout", 3*time.Minute
	obs.Nodes[0].CertNotAfter = now.Add(-time.Hour)
	obs.Nodes[1].Storage = cluster.Storage{
		State: cluster.StorageFailing, Path: "/var/lib/etcd", Problem: "no space left on device",
	}
	obs.Members[1].Alarms = []string{"NOSPACE"}
	obs.Nodes = append(obs.Nodes, cluster.Node{Name: hostile, Address: hostile, Reachable: true})
	obs.Members = append(obs.Members, cluster.Member{
		ID: 9, Name: hostile, Learner: true, Why: hostile, Alarms: []string{hostile},
	})
	obs.Gaps = []cluster.Gap{
		{Source: "node control-plane-3", Text: "connection refused"}, {Source: hostile, Text: hostile},
	}
	obs.Failures = []cluster.Failure{{Line: "etcdadm backup create " + hostile, Text: hostile}}
	obs.Store.Requests = []cluster.Request{
		{Name: "r", Kind: cluster.RequestBackup, At: now.Add(-time.Minute), By: hostile},
	}
	obs.Store.Backups = append(obs.Store.Backups, cluster.Backup{Name: hostile, At: now.Add(-time.Hour), Damaged: true})
	r.Holds = []plan.Hold{{Reason: plan.QuorumLost, Text: "1 of 3 voters serve; " + hostile}}
	return r, append(history, store.HistoryEntry{At: now, By: hostile, Line: hostile, Why: hostile, Error: hostile})
}

// serveScene serves the page of a scene; at a stop the daemon answers no more.
func serveScene(t *testing.T, of func(time.Time) (reconcile.Report, []store.HistoryEntry)) *httptest.Server {
	h := statuspage.New(daemon.PageSource{
		Cluster: "main", Node: "control-plane-2", Now: time.Now,
		Report: func() (reconcile.Report, bool) { r, _ := of(time.Now()); return r, true },
		Past:   func(context.Context) (store.Past, error) { _, h := of(time.Now()); return store.Past{Entries: h}, nil },
	})
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// text returns what of a document people see, roughly.
func text(dom string) string {
	return strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(dom, " ")), " ")
}

func wantText(t *testing.T, dom string, parts ...string) {
	t.Helper()
	seen := text(dom)
	for _, p := range parts {
		if !strings.Contains(seen, p) {
			t.Errorf("the page does not say %q:\n%s", p, seen)
		}
	}
}

var drawn = regexp.MustCompile(`<line [^>]*class="(\w+)"`)

// linesOf returns how the links of a document are drawn.
func linesOf(dom string) string {
	var kinds []string
	for _, m := range drawn.FindAllStringSubmatch(dom, -1) {
		kinds = append(kinds, m[1])
	}
	slices.Sort(kinds)
	return strings.Join(kinds, ",")
}

// The page in a browser, on a phone and on a desk, of a cluster that is well and of one
// that is not. Nothing of what others chose becomes markup.
func TestStatusPageInABrowser(t *testing.T) {
	for _, width := range []int{500, 1200} {
		s := serveScene(t, scene)
		dom := browse(t, s.URL, fmt.Sprintf("well-%d", width), width)
		wantText(t, dom, "healthy", "control-plane-3", "as the spec says", "3 of etcd 3.6.16", "ends in 499d",
			"2 known; newest 9m ago", "etcdadm member promote", "136 MiB")
		if lines := linesOf(dom); lines != "up,up,up" {
			t.Errorf("the links are drawn as %s", lines)
		}
		s = serveScene(t, broken)
		dom = browse(t, s.URL, fmt.Sprintf("broken-%d", width), width, "--blink-settings=preferredColorScheme=0")
		wantText(t, dom, "quorum-lost", "EXPIRED 60m ago", "no space left on device",
			"control-plane-1 does not reach control-plane-2 for 3m", "no answer", "1 of 3 voters serve", "Do:")
		if lines := linesOf(dom); lines != "down,unknown,unknown,unknown" {
			t.Errorf("the links are drawn as %s", lines)
		}
		if strings.Contains(dom, "<img") || strings.Contains(dom, "owned'</script>") ||
			strings.Contains(dom, "<title>owned") || !strings.Contains(dom, "&lt;img") {
			t.Errorf("a name has become markup:\n%s", dom)
		}
	}
}

// On the narrowest of phones nothing has to be scrolled sideways. A browser's window is
// wider: the page is in a frame, which its headers deny and this test allows.
func TestStatusPageOnANarrowPhone(t *testing.T) {
	inner := serveScene(t, broken).Config.Handler
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/frame":
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, `<iframe id=f src="/" width=360 height=2500 style="border:0"></iframe><p id=w></p><script>
setInterval(() => {
  const d = f.contentDocument, e = d.documentElement;
  w.textContent = "drawn " + d.querySelectorAll(".card").length + " wide " + e.scrollWidth + " of " + e.clientWidth;
}, 200)</script>`)
			return
		case "/":
			inner.ServeHTTP(&unframed{w}, r)
		default:
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	wantText(t, browse(t, s.URL+"/frame", "narrow", 500), "drawn 4 wide 360 of 360")
}

// unframed lets a page be framed.
type unframed struct{ http.ResponseWriter }

func (w *unframed) Write(b []byte) (int, error) {
	w.Header().Del("X-Frame-Options")
	w.Header().Del("Content-Security-Policy")
	return w.ResponseWriter.Write(b)
}

// A daemon that says nothing any more does not leave a healthy cluster on the screen.
func TestStatusPageOfADaemonThatDoesNotAnswer(t *testing.T) {
	live := serveScene(t, scene)
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			asked = 0
		}
		if r.URL.Path == statuspage.JSONPath {
			if asked++; asked > 1 {
				http.Error(w, "gone", http.StatusBadGateway)
				return
			}
		}
		live.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	dom := browse(t, s.URL, "unreachable", 500, "--virtual-time-budget=40000")
	wantText(t, dom, "STALE", "the daemon does not answer: it answers 502")
	if strings.Contains(dom, `class="healthy"`) || !strings.Contains(dom, `<main id="shown" class="old">`) {
		t.Errorf("it is called healthy:\n%s", dom)
	}
}
