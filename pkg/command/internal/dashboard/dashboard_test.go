package dashboard

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// served serves a proxy of the daemons, and returns its URL.
func served(t *testing.T, daemons ...*httptest.Server) (url string, p *Proxy) {
	t.Helper()
	var targets []Target
	for _, d := range daemons {
		targets = append(targets, Target{Address: d.Listener.Addr().String()})
	}
	p, err := New(targets, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return p.URL(l), p
}

func get(t *testing.T, method, url, host string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(b), answer.Header
}

func daemon(t *testing.T, name string, asked *atomic.Int32) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Security-Policy", "default-src 'none'")
		w.Header().Set("Set-Cookie", "a=b")
		_, _ = io.WriteString(w, name+" "+r.Method+" "+r.URL.Path)
	}))
	t.Cleanup(s.Close)
	return s
}

// Only who has the whole URL is answered, only for this machine, and only for the page.
func TestWhoIsAnswered(t *testing.T) {
	var asked atomic.Int32
	url, p := served(t, daemon(t, "a", &asked))
	root := strings.TrimSuffix(url, p.prefix)
	for _, tc := range []struct {
		method, url, host string
		code              int
		body              string
	}{
		{"GET", url, "", 200, "a GET /"}, {"GET", url + "status.json", "", 200, "a GET /status.json"},
		{"GET", url, "localhost:8080", 200, "a GET /"}, {"GET", url, "[::1]:8080", 200, "a GET /"},
		{"GET", url, "evil.example", 421, ""}, {"GET", url, "evil.example:80", 421, ""}, {"GET", url, "10.0.0.1", 421, ""},
		{"POST", url, "", 405, ""}, {"GET", url + "metrics", "", 404, ""}, {"GET", url + "../status.json", "", 404, ""},
		{"GET", root + "/", "", 404, ""}, {"GET", root + "/status.json", "", 404, ""},
		{"GET", root + "/" + strings.Repeat("A", len(p.prefix)-2) + "/status.json", "", 404, ""},
	} {
		before := asked.Load()
		code, body, header := get(t, tc.method, tc.url, tc.host)
		if code != tc.code || tc.body != "" && body != tc.body {
			t.Errorf("%s %s for %q: %d %q", tc.method, tc.url, tc.host, code, body)
		}
		if code != 200 && asked.Load() != before {
			t.Errorf("%s %s for %q: a daemon was asked", tc.method, tc.url, tc.host)
		}
		if header.Get("Set-Cookie") != "" || code == 200 && header.Get("Content-Security-Policy") == "" {
			t.Errorf("headers %v", header)
		}
	}
	_, other := served(t, daemon(t, "b", &asked))
	if other.prefix == p.prefix || len(p.prefix) < 30 {
		t.Errorf("the secrets are %s and %s", p.prefix, other.prefix)
	}
}

// A daemon that goes is not the end of the page.
func TestAnotherDaemonAnswers(t *testing.T) {
	var asked atomic.Int32
	a, b := daemon(t, "a", &asked), daemon(t, "b", &asked)
	url, p := served(t, a, b)
	if err := p.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, body, _ := get(t, "GET", url, ""); body != "a GET /" {
		t.Error(body)
	}
	a.Close()
	for range 2 {
		if _, body, _ := get(t, "GET", url, ""); body != "b GET /" {
			t.Error(body)
		}
	}
	b.Close()
	if code, body, _ := get(t, "GET", url, ""); code != 502 || !strings.Contains(body, "no daemon serves") {
		t.Errorf("%d %s", code, body)
	}
	if p.Check(t.Context()) == nil {
		t.Error("nobody answers")
	}
}

// A browser that does not wait for the end begins, the next time, behind those that failed.
func TestABrowserThatDoesNotWait(t *testing.T) {
	var broken atomic.Int32
	a := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		broken.Add(1)
		panic(http.ErrAbortHandler)
	}))
	asked := make(chan struct{}, 1)
	b := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(a.Close)
	t.Cleanup(b.Close)
	_, p := served(t, a, b)
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1"+p.prefix, nil)
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.ServeHTTP(httptest.NewRecorder(), r)
		}()
		<-asked
		cancel()
		<-done
	}
	if n := broken.Load(); n != 1 {
		t.Errorf("the one that fails was asked %d times", n)
	}
}
