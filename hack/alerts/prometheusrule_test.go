package alerts

import (
	"flag"
	"os"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

const prometheusRule = "../../manifests/prometheus/prometheusrule.yaml"

var rewrite = flag.Bool("rewrite", false, "write "+prometheusRule+" again")

// The rules of prometheusRule are those of rules, for Prometheus' operator: it is what the operator's own
// types say, strictly.
func TestPrometheusRule(t *testing.T) {
	var want strings.Builder
	want.WriteString(`# The alerts of etcdadm.rules.yaml, for Prometheus' operator. A test compares the two; to write this
# one again: cd hack/alerts && GOWORK=off go test -run TestPrometheusRule . -rewrite
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: etcdadm
  namespace: kube-system
  labels:
    app.kubernetes.io/name: etcdadm
spec:
`)
	file, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		if !strings.HasPrefix(line, "#") {
			want.WriteString("  " + line)
		}
	}
	if *rewrite {
		if err := os.WriteFile(prometheusRule, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(prometheusRule)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want.String() {
		t.Errorf("%s has other rules than %s; its first lines say how it is written again", prometheusRule, rules)
	}
	var object monitoring.PrometheusRule
	if err := yaml.UnmarshalStrict(have, &object); err != nil {
		t.Fatal(err)
	}
	alerts := read(t, rules)
	for _, g := range object.Spec.Groups {
		for _, r := range g.Rules {
			if rule := alerts[r.Alert]; rule.Expr != r.Expr.String() {
				t.Errorf("%s is %+v, and %+v in %s", r.Alert, r, rule, rules)
			}
			delete(alerts, r.Alert)
		}
	}
	if len(alerts) > 0 {
		t.Errorf("it lacks %v", alerts)
	}
}
