package main

import (
	"bytes"
	_ "embed"
	"strings"
	"text/template"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/daemon"
)

//go:embed metrics.md.tmpl
var metricsTemplate string

// metrics renders docs/metrics.md.
func metrics() ([]byte, error) {
	t, err := template.New("metrics").Funcs(template.FuncMap{"join": strings.Join, "cell": cell}).Parse(metricsTemplate)
	if err != nil {
		return nil, err
	}
	const grpc = cluster.ManagerPort
	lists := map[bool][]daemon.MetricDoc{}
	for _, d := range daemon.MetricDocs() {
		lists[d.Cluster] = append(lists[d.Cluster], d)
	}
	var out bytes.Buffer
	port := cluster.DefaultMetricsPort(grpc)
	err = t.Execute(&out, map[string]any{
		"Daemon": lists[false], "Cluster": lists[true], "Port": port, "Offset": port - grpc,
	})
	return out.Bytes(), err
}
