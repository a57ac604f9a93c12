package backupagent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/listen"
)

// What can fail.
const (
	observing = "observe"
	listing   = "list"
	taking    = "take"
	verifying = "verify"
	pruning   = "prune"
)

// metrics are the numbers that an agent serves.
type metrics struct {
	registry                 *prometheus.Registry
	size, duration, revision prometheus.Gauge
	count, bytes             prometheus.Gauge
	takenTotal, skipped      prometheus.Counter
	deleted                  prometheus.Counter
	failures                 *prometheus.CounterVec
}

func newMetrics(clock func() time.Time, requests func() int64, last func() time.Time, healthy func() bool) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "etcd_backup_" + name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "etcd_backup_" + name, Help: help})
	}
	m := &metrics{
		registry:   prometheus.NewRegistry(),
		size:       gauge("last_size_bytes", "Size of the newest backup, as stored."),
		duration:   gauge("last_duration_seconds", "Time that this agent's last backup took."),
		revision:   gauge("last_revision", "Revision of etcd in this agent's last backup."),
		count:      gauge("stored_backups", "Backups in the store."),
		bytes:      gauge("stored_bytes", "Size of all backups in the store."),
		takenTotal: counter("taken_total", "Backups that this agent took."),
		skipped:    counter("skipped_total", "Backups that were not needed because nothing had changed."),
		deleted:    counter("deleted_total", "Old backups that this agent deleted."),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcd_backup_failures_total",
			Help: "Failures by what failed: observe (no member answers), list (of the store), take, verify, prune.",
		}, []string{"what"}),
	}
	for _, what := range []string{observing, listing, taking, verifying, pruning} {
		m.failures.WithLabelValues(what)
	}
	now := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "etcd_backup_" + name, Help: help}, f)
	}
	m.registry.MustRegister(m.size, m.duration, m.revision, m.count, m.bytes, m.takenTotal, m.skipped, m.deleted,
		m.failures,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "etcd_backup_store_requests_total", Help: "Requests made to the backup store.",
		},
			func() float64 { return float64(requests()) }),
		now("last_timestamp_seconds",
			"Unix time of the newest backup, whichever agent took it, or of when it was last found to be current; 0 "+
				"for none.", func() float64 {
				if at := last(); !at.IsZero() {
					return float64(at.Unix())
				}
				return 0
			}),
		now("age_seconds", "Age of the newest backup, whichever agent took it; +Inf for none.", func() float64 {
			if at := last(); !at.IsZero() {
				return clock().Sub(at).Seconds()
			}
			return math.Inf(1)
		}),
		now("healthy", "0 when three backups in a row are missing, as /healthz says.", func() float64 {
			if healthy() {
				return 1
			}
			return 0
		}))
	return m
}

func (m *metrics) failed(what string) { m.failures.WithLabelValues(what).Inc() }

// listed takes in what the store holds.
func (m *metrics) listed(backups []cluster.Backup, newest cluster.Backup) {
	total := int64(0)
	backups = cluster.Store{Backups: backups}.Own()
	for _, b := range backups {
		total += b.Size
	}
	m.count.Set(float64(len(backups)))
	m.bytes.Set(float64(total))
	m.size.Set(float64(newest.Size))
}

// took takes in a backup of this agent.
func (m *metrics) took(b cluster.Backup) {
	m.takenTotal.Inc()
	m.size.Set(float64(b.Size))
}

// Serve answers /metrics, and /healthz by [Agent.Health], until ctx ends.
func (a *Agent) Serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(a.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := a.Health(a.c.Clock()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	s := &http.Server{
		Handler: mux, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 30 * time.Second,
	}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(listen.New(l, listen.Limits{Total: 128, PerSource: 32})); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
