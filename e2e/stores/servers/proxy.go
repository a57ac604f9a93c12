package servers

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
)

// A Fault does something to a request instead of, or before, passing it on
// with pass. It reports whether it has dealt with the request; if not, the proxy
// passes it on.
type Fault func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) bool

// A Proxy stands before a server and disturbs what is asked of it.
type Proxy struct {
	// URL is where it listens, Host the same as HOST:PORT.
	URL, Host string

	mu       sync.Mutex
	fault    Fault
	requests map[string]int
}

// StartProxy starts a proxy before a server's URL, for a test, which stops it.
func StartProxy(t TB, target string) *Proxy {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatalf("%v", err)
	}
	forward := &httputil.ReverseProxy{
		// Signatures are of the host that the client asked.
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
		FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			// The client has gone, or the server: to the client it is a lost connection.
			Reset(w)
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 32},
	}
	p := &Proxy{requests: map[string]int{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		fault := p.fault
		p.requests[r.Method]++
		p.mu.Unlock()
		if fault == nil || !fault(w, r, forward.ServeHTTP) {
			forward.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		p.Disturb(nil)
		server.CloseClientConnections()
		server.Close()
	})
	p.URL, p.Host = server.URL, server.Listener.Addr().String()
	return p
}

// Disturb sets what is done to requests from now on, nil for nothing.
func (p *Proxy) Disturb(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

// Requests returns how many requests with a method there were.
func (p *Proxy) Requests(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[method]
}

// Reset breaks the connection of a request, with what TCP calls a reset.
func Reset(w http.ResponseWriter) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		// The answer has begun, or somebody else broke the connection.
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = connection.Close()
}

// Answer answers a request as S3 does when something is wrong.
func Answer(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>by the proxy</Message></Error>`, code)
}

// ReadSome reads n bytes of a request's body.
func ReadSome(r *http.Request, n int64) { _, _ = io.CopyN(io.Discard, r.Body, n) }
