package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/listen"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
)

// metrics are the numbers that the daemon serves.
type metrics struct {
	registry    *prometheus.Registry
	coordinator prometheus.Gauge
	term        prometheus.Gauge
	converged   prometheus.Gauge
	// missing says that nobody coordinates, missed how often that began.
	missing    prometheus.Gauge
	missed     prometheus.Counter
	members    *prometheus.GaugeVec
	holds      *prometheus.GaugeVec
	operations *prometheus.CounterVec
	seconds    *prometheus.CounterVec
	backupTime prometheus.Gauge
	// verifyTime and drillTime are when a backup was last found to be good.
	verifyTime, drillTime prometheus.Gauge
	// drops are connections over the bounds, by port.
	drops *prometheus.CounterVec
}

func newMetrics(requests func() int64, process func() cluster.ProcessState, restarts func() int) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "etcdadm_" + name, Help: help})
	}
	m := &metrics{
		registry:    prometheus.NewRegistry(),
		coordinator: gauge("coordinator", "1 while this daemon holds the coordinator's lease."),
		term:        gauge("coordinator_term", "Term in which this daemon coordinates, 0 while it does not."),
		missing:     gauge("coordinator_missing", "1 while no daemon has asked for this lease voter's vote for 20 seconds."),
		missed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "etcdadm_coordinator_missing_total",
			Help: "How often no daemon has asked for this lease voter's vote for 20 seconds.",
		}),
		converged: gauge("converged", "1 while the cluster is what the spec says. Served by the coordinator."),
		members: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "etcdadm_members", Help: "Members by role and health. Served by the coordinator.",
		}, []string{"role", "healthy"}),
		holds: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "etcdadm_hold", Help: "Reasons for not acting, by reason. Served by the coordinator.",
		}, []string{"reason"}),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcdadm_operations_total", Help: "Operations by kind and result.",
		}, []string{"kind", "result"}),
		seconds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcdadm_operation_seconds_total", Help: "Time spent on operations, by kind.",
		}, []string{"kind"}),
		verifyTime: gauge("last_backup_verified_timestamp_seconds",
			"Unix time of the last successful verification of a backup, 0 for none. Served by the coordinator."),
		drillTime: gauge("last_backup_drill_timestamp_seconds",
			"Unix time of the last successful trial restore of a backup, 0 for none. Served by the coordinator."),
		backupTime: gauge("last_backup_timestamp_seconds",
			"Unix time of the newest backup, 0 for none. Served by the coordinator."),
	}
	m.drops = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "etcdadm_connections_dropped_total", Help: "Connections closed because there were too many, by port.",
	}, []string{"port"})
	m.registry.MustRegister(m.drops, m.coordinator, m.missing, m.missed, m.term, m.converged, m.members, m.holds,
		m.operations, m.seconds, m.backupTime, m.verifyTime, m.drillTime,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "etcdadm_store_requests_total", Help: "Requests made to the control and backup store.",
		},
			func() float64 { return float64(requests()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "etcdadm_etcd_restarts_total", Help: "Restarts of the etcd process after it died by itself.",
		},
			func() float64 { return float64(restarts()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "etcdadm_etcd_running", Help: "1 while this node's etcd process runs.",
		},
			func() float64 { return one(process() == cluster.ProcessRunning) }))
	return m
}

// seconds is a time as Prometheus has it, 0 for none.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// noteMissing takes in that nobody coordinates, or somebody does again.
func (m *metrics) noteMissing(now bool) {
	m.missing.Set(one(now))
	if now {
		m.missed.Inc()
	}
}

// note takes in what the loop reports.
func (m *metrics) note(r reconcile.Report) {
	m.coordinator.Set(one(r.Term > 0))
	m.term.Set(float64(r.Term))
	m.converged.Set(one(r.Converged))
	m.members.Reset()
	for _, x := range r.Observation.Members {
		role := "voter"
		if x.Learner {
			role = "learner"
		}
		m.members.WithLabelValues(role, strconv.FormatBool(x.Healthy)).Inc()
	}
	m.holds.Reset()
	for _, h := range r.Holds {
		m.holds.WithLabelValues(string(h.Reason)).Set(1)
	}
	if b := r.Observation.Store.Backups; len(b) > 0 {
		m.backupTime.Set(float64(b[0].At.Unix()))
	}
	verified, drilled := r.Observation.Store.Inspected()
	m.verifyTime.Set(seconds(verified))
	m.drillTime.Set(seconds(drilled))
	if d := r.Done; d != nil {
		result := "done"
		if d.Err != nil {
			result = "failed"
		}
		kind := kindOf(d.Line)
		m.operations.WithLabelValues(kind, result).Inc()
		m.seconds.WithLabelValues(kind).Add(d.Took.Seconds())
	}
}

func kindOf(line string) string {
	for _, k := range plan.Kinds() {
		if len(line) > len("etcdadm ")+len(k.Path) && line[len("etcdadm "):len("etcdadm ")+len(k.Path)] == k.Path {
			return k.Path
		}
	}
	return "unknown"
}

// metricsLimits bound who asks for numbers and health: a collector or two, the
// kubelet, a load balancer's probe. The kubelet asks from the machine itself, and
// its probe decides whether the daemon is killed.
var metricsLimits = listen.Limits{Total: 128, PerSource: 32, Reserved: 16}

// webServer bounds how long one connection may say nothing, and take for a
// request.
func webServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 30 * time.Second,
	}
}

// dropped counts a connection that was closed because there were too many.
func (m *metrics) dropped(port string) { m.drops.WithLabelValues(port).Inc() }

// serve answers /metrics, /healthz (see [Daemon.alive]) and /readyz (this
// node's etcd runs if it should) until ctx ends.
func (m *metrics) serve(ctx context.Context, l net.Listener, alive, ready func() error) error {
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
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.Handle("/healthz", answer(alive))
	mux.Handle("/readyz", answer(ready))
	s := webServer(mux)
	limits := metricsLimits
	limits.Dropped = func(string) { m.dropped("metrics") }
	l = listen.New(l, limits)
	stopped := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stopped()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
