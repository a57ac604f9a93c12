// Package dashboard brings the daemons' status page to a browser on this machine: it asks
// for the page with a person's certificate, and hands it on at a loopback address.
package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A Target is the metrics port of a daemon, host:port. Name is empty where it is not known.
type Target struct {
	Name    cluster.NodeName
	Address string
}

const (
	// tryTime is how long one daemon may take to answer before the next is asked: it may
	// wait four seconds for an observation, and the page waits ten for an answer.
	tryTime = 4500 * time.Millisecond
	// maxBody is the size of the largest answer that is handed on.
	maxBody = 8 << 20
)

// A Proxy hands the status page on.
type Proxy struct {
	prefix  string
	targets []Target
	clients []*http.Client
	scheme  string

	mu sync.Mutex
	// at is the target that is asked first: that which answered last, or the one behind
	// those that did not.
	at int
}

// New returns a proxy of the first target that answers. tlsOf returns how a daemon is
// reached, nil for plain text.
func New(targets []Target, tlsOf func(cluster.NodeName) *tls.Config) (*Proxy, error) {
	secret := make([]byte, 24)
	if _, err := rand.Read(secret); err != nil {
		return nil, fmt.Errorf("make a token: %w", err)
	}
	p := &Proxy{prefix: "/" + base64.RawURLEncoding.EncodeToString(secret) + "/", targets: targets, scheme: "http"}
	for _, t := range targets {
		transport := &http.Transport{DialContext: new(net.Dialer).DialContext, IdleConnTimeout: 20 * time.Second}
		if tlsOf != nil {
			p.scheme, transport.TLSClientConfig = "https", tlsOf(t.Name)
		}
		p.clients = append(p.clients, &http.Client{
			Transport: transport,
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return errors.New("a status page has no redirection")
			},
		})
	}
	return p, nil
}

// URL is where the page is at a listener.
func (p *Proxy) URL(l net.Listener) string { return "http://" + l.Addr().String() + p.prefix }

// paths are what the page consists of.
var paths = []string{"", "status.css", "status.js", "status.json"}

// handed are the headers of an answer that are handed on.
var handed = []string{
	"Content-Type", "Content-Security-Policy", "Cache-Control", "X-Content-Type-Options", "X-Frame-Options",
	"Referrer-Policy", "Cross-Origin-Resource-Policy", "Cross-Origin-Opener-Policy",
}

// ServeHTTP answers who has the URL, which has a secret in its path: other users of this
// machine reach the port, too. A request for another host's name comes from a web site that
// has given its name this machine's address.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := min(len(p.prefix), len(r.URL.Path))
	secret := subtle.ConstantTimeCompare([]byte(r.URL.Path[:n]), []byte(p.prefix)) == 1
	switch {
	case !loopback(r.Host):
		http.Error(w, "this is not a server of that name", http.StatusMisdirectedRequest)
	case !secret || !slices.Contains(paths, r.URL.Path[n:]):
		http.NotFound(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(w, "the status page only shows", http.StatusMethodNotAllowed)
	default:
		p.hand(w, r, "/"+r.URL.Path[n:])
	}
}

func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// hand asks the daemons, the one that answered last first. Who does not answer is not asked
// first again, also where the browser does not wait for the others.
func (p *Proxy) hand(w http.ResponseWriter, r *http.Request, path string) {
	p.mu.Lock()
	first := p.at
	p.mu.Unlock()
	var failed []string
	for i := range p.targets {
		at := (first + i) % len(p.targets)
		answer, body, err := p.ask(r.Context(), at, path)
		if err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", p.targets[at].Address, err))
			if r.Context().Err() == nil {
				p.begin(at + 1)
			}
			continue
		}
		p.begin(at)
		for _, name := range handed {
			if v := answer.Header.Get(name); v != "" {
				w.Header().Set(name, v)
			}
		}
		_, _ = w.Write(body)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, "no daemon serves its status page: "+strings.Join(failed, "; "), http.StatusBadGateway)
}

// begin has the next request begin with a target.
func (p *Proxy) begin(at int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = at % len(p.targets)
}

func (p *Proxy) ask(ctx context.Context, at int, path string) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.scheme+"://"+p.targets[at].Address+path, nil)
	if err != nil {
		return nil, nil, err
	}
	answer, err := p.clients[at].Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxBody))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %s: %.200q", answer.Status, body)
	}
	return answer, body, err
}

// Check returns why no daemon serves the page, nil where one does.
func (p *Proxy) Check(ctx context.Context) error {
	var errs []error
	for at := range p.targets {
		_, _, err := p.ask(ctx, at, "/")
		if err == nil {
			p.begin(at)
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Serve serves the page at l until ctx ends.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	s := &http.Server{
		Handler: p, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	stopped := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stopped()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the page: %w", err)
	}
	return nil
}
