package daemon

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"
)

// ruleFile is a file of rules as Prometheus reads it.
type ruleFile struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []struct {
			Alert       string            `json:"alert"`
			Expr        string            `json:"expr"`
			For         string            `json:"for,omitempty"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"rules"`
	} `json:"groups"`
}

// alertRules reads the rules.
func alertRules(t *testing.T) ruleFile {
	t.Helper()
	text, err := os.ReadFile("../../manifests/prometheus/etcdadm.rules.yaml")
	must(t, err)
	var file ruleFile
	must(t, yaml.UnmarshalStrict(text, &file))
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) == 0 {
		t.Fatalf("%+v", file)
	}
	return file
}

// expressions are those of all rules, by name.
func (f ruleFile) expressions() map[string]string {
	all := map[string]string{}
	for _, r := range f.Groups[0].Rules {
		all[r.Alert] = r.Expr
	}
	return all
}

// An alert on a metric that nobody serves never fires. TestEtcdServesItsMetrics looks for those of etcd.
func TestAlertsAreOnMetricsThatAreServed(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	must(t, err)
	served := map[string]bool{}
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		newMetrics(quiet()).registry.Describe(descs)
	}()
	for d := range descs {
		if m := described.FindStringSubmatch(d.String()); m != nil {
			served[m[1]] = true
		}
	}
	for _, r := range alertRules(t).Groups[0].Rules {
		names := metricName.FindAllString(r.Expr, -1)
		if len(names) == 0 {
			t.Errorf("%s is on no metric: %s", r.Alert, r.Expr)
		}
		for _, name := range names {
			if strings.HasPrefix(name, "etcdadm_") && !served[name] {
				t.Errorf("%s is on %s, which is not served", r.Alert, name)
			}
		}
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["action"] == "" {
			t.Errorf("%s lacks a severity, a summary or what to do", r.Alert)
		}
		if !strings.Contains(string(page), "| `"+r.Alert+"` |") {
			t.Errorf("docs/metrics.md does not have %s", r.Alert)
		}
	}
}
