package daemon

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A MetricDoc says what one of the daemon's metrics is.
type MetricDoc struct {
	Name, Help string
	// Labels are those besides that of the cluster.
	Labels []string
	// Cluster says that it is of the cluster, and not of the daemon that serves it.
	Cluster bool
}

// described reads a description, which has no other way to be read.
var described = regexp.MustCompile(`fqName: "(etcdadm_\w+)", help: "([^"]*)", .*variableLabels: \{([^}]*)\}`)

// MetricDocs returns the daemon's own metrics, sorted: those of Go and of the process are
// not among them.
func MetricDocs() []MetricDoc {
	of := map[string]bool{}
	for _, d := range describedBy(&clusterMetrics{}) {
		of[d.Name] = d.Name != "etcdadm_coordinator" && d.Name != "etcdadm_coordinator_term"
	}
	docs := describedBy(newMetrics(sources{
		Requests: func() int64 { return 0 }, Restarts: func() int { return 0 },
		Process:      func() cluster.ProcessState { return "" },
		Storage:      func() cluster.Storage { return cluster.Storage{} },
		HasLeader:    func() bool { return false },
		Paused:       func() bool { return false },
		CertNotAfter: func() time.Time { return time.Time{} },
	}).registry)
	for i := range docs {
		docs[i].Cluster = of[docs[i].Name]
	}
	return docs
}

func describedBy(c prometheus.Collector) (docs []MetricDoc) {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		c.Describe(descs)
	}()
	for d := range descs {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			continue // of Go, or of the process
		}
		doc := MetricDoc{Name: m[1], Help: m[2]}
		if m[3] != "" {
			doc.Labels = strings.Split(m[3], ",")
		}
		docs = append(docs, doc)
	}
	slices.SortFunc(docs, func(a, b MetricDoc) int { return strings.Compare(a.Name, b.Name) })
	return docs
}
