package daemon

import (
	"context"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
)

// sources are what the metrics of a daemon are read from, each time that they are asked for. None of them waits for
// a disk or the network, but HasLeader for the member.
type sources struct {
	Cluster  string
	Requests func() int64
	Process  func() cluster.ProcessState
	Restarts func() int
	Storage  func() cluster.Storage
	// Quota is etcdconf.Quota of what etcd gets, 0 for none.
	Quota int64
	// HasLeader asks this node's member.
	HasLeader func() bool
	Paused    func() bool
	// CertNotAfter is when the first of the certificates ends.
	CertNotAfter func() time.Time
}

// metrics are the numbers that the daemon serves: of itself, and of the cluster while it coordinates.
type metrics struct {
	registry *prometheus.Registry
	cluster  *clusterMetrics
	elected  prometheus.Counter
	// missing says that nobody coordinates, missed how often that began.
	missing    prometheus.Gauge
	missed     prometheus.Counter
	operations *prometheus.CounterVec
	seconds    *prometheus.CounterVec
	// drops are connections over the bounds, by port.
	drops *prometheus.CounterVec
}

func newMetrics(from sources) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		cluster:  &clusterMetrics{},
		elected:  counter("etcdadm_coordinator_elected_total", "How often this daemon became the coordinator."),
		missing: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "etcdadm_coordinator_missing", Help: "1 while no daemon has asked for this lease voter's vote for 20 seconds.",
		}),
		missed: counter("etcdadm_coordinator_missing_total",
			"How often no daemon has asked for this lease voter's vote for 20 seconds."),
		operations: counters("etcdadm_operations_total", "Operations that this daemon ordered, by kind and result.",
			"kind", "result"),
		seconds: counters("etcdadm_operation_seconds_total", "Time spent on these operations, by kind.", "kind"),
		drops: counters("etcdadm_connections_dropped_total", "Connections closed because there were too many, by port.",
			"port"),
	}
	named := prometheus.WrapRegistererWith(prometheus.Labels{"cluster": from.Cluster}, m.registry)
	named.MustRegister(m.cluster, m.elected, m.missing, m.missed, m.operations, m.seconds, m.drops)
	named.MustRegister(from.collectors()...)
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// leaderTimeout is how long a scrape waits for the node's member: etcd answers from memory.
const leaderTimeout = time.Second

// seldom returns ask for scrapes: anybody may send these, and as many as they like, so the member
// is asked at most once every [recordsInterval].
func seldom(ctx context.Context, now func() time.Time, ask func(context.Context) bool) func() bool {
	last := &cached[bool]{now: now, read: func(ctx context.Context) (bool, error) { return ask(ctx), nil }}
	return func() bool {
		ctx, cancel := context.WithTimeout(ctx, leaderTimeout)
		defer cancel()
		yes, err := last.get(ctx)
		return err == nil && yes
	}
}

// collectors are the metrics that are read when they are asked for.
func (from sources) collectors() []prometheus.Collector {
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
	}
	counter := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, f)
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "etcdadm_build_info", Help: "1, with the version of the program and of Go.",
	}, []string{"version", "goversion"})
	build.WithLabelValues(cli.BuildVersion(), runtime.Version()).Set(1)
	return []prometheus.Collector{
		build,
		counter("etcdadm_store_requests_total", "Requests made to the control and backup store.",
			func() float64 { return float64(from.Requests()) }),
		counter("etcdadm_etcd_restarts_total", "Restarts of this node's etcd process after it died by itself.",
			func() float64 { return float64(from.Restarts()) }),
		gauge("etcdadm_etcd_running", "1 while this node's etcd process runs.",
			func() float64 { return one(from.Process() == cluster.ProcessRunning) }),
		gauge("etcdadm_etcd_has_leader", "1 where this node's member of etcd answers and knows a leader, as of half a second ago at most.",
			func() float64 { return one(from.HasLeader()) }),
		gauge("etcdadm_etcd_quota_bytes",
			"Size of the database at which this node's etcd takes no more writes, by its settings, 0 without a limit.",
			func() float64 { return float64(from.Quota) }),
		gauge("etcdadm_disk_healthy", "0 while the disk of this node's etcd hangs or fails.",
			func() float64 { return one(!from.Storage().Bad()) }),
		gauge("etcdadm_disk_write_seconds", "How long the last write to that disk took.",
			func() float64 { return from.Storage().Latency.Seconds() }),
		gauge("etcdadm_paused", "1 while an operator has paused changes, as this node last read it in the store.",
			func() float64 { return one(from.Paused()) }),
		gauge("etcdadm_certificate_expiry_timestamp_seconds",
			"Unix time at which the first of this node's certificates expires, 0 without TLS.",
			func() float64 { return seconds(from.CertNotAfter()) }),
	}
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
	if before := m.cluster.last.Swap(&r); r.Term > 0 && (before == nil || before.Term != r.Term) {
		m.elected.Inc()
	}
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

// dropped counts a connection that was closed because there were too many.
func (m *metrics) dropped(port string) { m.drops.WithLabelValues(port).Inc() }
