package daemon

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/etcdadm/etcdadm/pkg/coordination/listen"
)

// metricsLimits bound who asks for numbers and health: a collector or two, the
// kubelet, a load balancer's probe. The kubelet asks from the machine itself, and
// its probe decides whether the daemon is killed.
var metricsLimits = listen.Limits{Total: 128, PerSource: 32, Reserved: 16}

// helloTime is how long a connection may say nothing before it is known whether it
// speaks TLS.
const helloTime = 5 * time.Second

// maxScrapes is how many requests for the numbers are answered at the same time; others are refused.
const maxScrapes = 4

// defaultRequestTime is how long a connection may take for a request.
const defaultRequestTime = 5 * time.Second

// A web is what the metrics port serves besides the numbers.
type web struct {
	// alive is for /healthz, see [Daemon.alive]; ready for /readyz: this node's etcd runs if
	// it should.
	alive, ready func() error
	// page answers all other requests, nil for nobody.
	page http.Handler
	// tls is how the port speaks TLS to who begins with it, nil for not at all.
	tls *tls.Config
	// requestTime bounds the reading of a request: zero is defaultRequestTime.
	requestTime time.Duration
	log         *slog.Logger
}

// server bounds how long one connection may say nothing, and take for a
// request.
func (w web) server(h http.Handler) *http.Server {
	reading := cmp.Or(w.requestTime, defaultRequestTime)
	s := &http.Server{
		Handler: h, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: reading, ReadTimeout: reading, WriteTimeout: 30 * time.Second,
		IdleTimeout: 30 * time.Second,
	}
	if w.log != nil {
		s.ErrorLog = slog.NewLogLogger(w.log.Handler(), slog.LevelDebug)
	}
	return s
}

func (m *metrics) handler(w web) http.Handler {
	answer := func(ok func() error) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if err := ok(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "ok")
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}))
	mux.Handle("/healthz", answer(w.alive))
	mux.Handle("/readyz", answer(w.ready))
	if w.page != nil {
		mux.Handle("/", w.page)
	}
	return mux
}

// serve answers /metrics, /healthz, /readyz and the status page until ctx ends.
func (m *metrics) serve(ctx context.Context, l net.Listener, w web) error {
	limits := metricsLimits
	limits.Dropped = func(string) { m.dropped("metrics") }
	l = listen.New(l, limits)
	s := w.server(m.handler(w))
	stopped := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stopped()
	var wg sync.WaitGroup
	defer wg.Wait()
	if w.tls != nil {
		plain, secure := listen.Split(l, helloTime)
		l = plain
		wg.Go(func() { _ = s.Serve(tls.NewListener(secure, w.tls)) }) // it ends with the other
	}
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
