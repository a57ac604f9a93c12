package operate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// A peerListener is at the peer port of a member before its etcd is: the others try to connect
// from the moment that they know of it, ten times a second, and each says who it is. None gets an
// answer, as if nobody listened.
type peerListener struct {
	server    *http.Server
	listeners []net.Listener
	served    sync.WaitGroup
	// changed has a value after somebody new has come.
	changed chan struct{}

	mu sync.Mutex
	// came are those who have connected; failed is the last handshake that did not go through.
	came   map[cluster.MemberID]bool
	failed string
}

// listenPeers listens where etcd will. An error says that it cannot, as where etcd runs.
func listenPeers(ctx context.Context, at machine.PeerEnd) (*peerListener, error) {
	conf, err := peerTLS(at)
	if err != nil {
		return nil, err
	}
	p := &peerListener{changed: make(chan struct{}, 1), came: map[cluster.MemberID]bool{}}
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.meet), ErrorLog: log.New(p, "", 0),
		ReadHeaderTimeout: askTimeout, IdleTimeout: askTimeout, MaxHeaderBytes: 64 << 10,
	}
	for _, text := range at.URLs {
		u, err := url.Parse(text)
		if err != nil {
			p.close()
			return nil, fmt.Errorf("read the peer URL %s: %w", text, err)
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", u.Host)
		if err != nil {
			p.close()
			return nil, err
		}
		if u.Scheme == "https" {
			l = tls.NewListener(l, conf)
		}
		p.listeners = append(p.listeners, l)
		p.served.Go(func() { _ = p.server.Serve(l) })
	}
	return p, nil
}

// peerTLS is how etcd takes its peers.
func peerTLS(at machine.PeerEnd) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(at.Cert, at.Key)
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(at.CA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate in " + at.CA)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair},
		ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"http/1.1"},
	}, nil
}

// meet notes who asks, and ends the connection without a word: an answer could mean something.
func (p *peerListener) meet(_ http.ResponseWriter, r *http.Request) {
	if id, err := strconv.ParseUint(r.Header.Get("X-Server-From"), 16, 64); err == nil {
		p.mu.Lock()
		p.came[cluster.MemberID(id)] = true
		p.mu.Unlock()
		select {
		case p.changed <- struct{}{}:
		default:
		}
	}
	panic(http.ErrAbortHandler)
}

// Write takes what the server logs: handshakes that fail.
func (p *peerListener) Write(line []byte) (int, error) {
	text := strings.TrimPrefix(strings.TrimSpace(string(line[:min(len(line), 200)])), "http: ")
	if strings.HasSuffix(text, "EOF") || strings.HasSuffix(text, "reset by peer") {
		return len(line), nil // who only looks whether somebody listens
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = text
	return len(line), nil
}

// missing returns which of the members have not come.
func (p *peerListener) missing(members []cluster.Member) (missing []cluster.Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range members {
		if !p.came[m.ID] {
			missing = append(missing, m)
		}
	}
	return missing
}

// nobody says that no connection has come at all.
func (p *peerListener) nobody() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.came) == 0 && p.failed == ""
}

// problem is the last handshake that failed, "" for none.
func (p *peerListener) problem() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// await waits until all the members have come, or until ctx ends. slow is called once if that
// takes a second.
func (p *peerListener) await(ctx context.Context, members []cluster.Member,
	slow func(missing []cluster.Member)) []cluster.Member {
	late := time.NewTimer(4 * pause)
	defer late.Stop()
	for {
		missing := p.missing(members)
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-p.changed:
		case <-late.C:
			slow(missing)
		case <-ctx.Done():
			return p.missing(members)
		}
	}
}

// close leaves the port to etcd.
func (p *peerListener) close() {
	if p == nil {
		return
	}
	_ = p.server.Close()
	for _, l := range p.listeners {
		_ = l.Close()
	}
	p.served.Wait()
}
