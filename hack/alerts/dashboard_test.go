package alerts

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/prometheus/prometheus/promql/parser"
)

// chosen are values of the dashboard's variables, as Grafana puts them into queries.
var chosen = strings.NewReplacer("$cluster", "main", "$job", "etcd", "$__rate_interval", "1m")

// dashboardFile is the form in which dashboards are imported.
type dashboardFile = dashboard.Dashboard //nolint:staticcheck // the form after it is for Grafana 12 and later alone

// The dashboard is what Grafana's own schema says, with that of each kind of panel, and
// Prometheus understands its queries.
func TestDashboard(t *testing.T) {
	b := readDashboard(t)
	queries := 0
	promQL := parser.NewParser(parser.Options{})
	for _, p := range b.Panels {
		if p.Panel == nil {
			continue // a row
		}
		valid(t, *p.Panel)
		for _, target := range p.Panel.Targets {
			q, ok := target.(*prometheus.Dataquery)
			if !ok {
				t.Fatalf("%s: a query is a %T", *p.Panel.Title, target)
			}
			if _, err := promQL.ParseExpr(chosen.Replace(q.Expr)); err != nil {
				t.Errorf("%s: %s: %v", *p.Panel.Title, q.Expr, err)
			}
			queries++
		}
	}
	if queries == 0 {
		t.Error("the dashboard has no queries")
	}
}

// readDashboard reads the dashboard, which has all that the schema requires, and nothing else.
func readDashboard(t *testing.T) (b dashboardFile) {
	t.Helper()
	plugins.RegisterDefaultPlugins()
	text, err := os.ReadFile("../../manifests/grafana/etcdadm.json")
	if err != nil {
		t.Fatal(err)
	}
	var wrong cog.BuildErrors // where nothing is wrong, it is an empty list
	if err := new(dashboardFile).UnmarshalJSONStrict(text); !errors.As(err, &wrong) || len(wrong) > 0 {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	if err := b.Validate(); err != nil {
		t.Error(err)
	}
	known, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	var file, kept any
	if err := errors.Join(json.Unmarshal(text, &file), json.Unmarshal(known, &kept)); err != nil {
		t.Fatal(err)
	}
	same(t, "dashboard", file, kept)
	return b
}

// valid makes sure that there is such a kind of panel, and that it knows the values of its options.
func valid(t *testing.T, p dashboard.Panel) {
	t.Helper()
	if _, ok := cog.ConfigForPanelcfgVariant(p.Type); !ok {
		t.Errorf("%s: there is no kind of panel %q", *p.Title, p.Type)
	}
	for _, part := range []any{p.Options, p.FieldConfig.Defaults.Custom} {
		if part == nil {
			continue
		}
		checked, ok := part.(interface{ Validate() error })
		if !ok {
			t.Errorf("%s: the schema does not know what %T is", *p.Title, part)
		} else if err := checked.Validate(); err != nil {
			t.Errorf("%s: %v", *p.Title, err)
		}
	}
}

// same makes sure that all that is in the file is something that the schema knows.
func same(t *testing.T, at string, file, kept any) {
	t.Helper()
	switch file := file.(type) {
	case map[string]any:
		kept, _ := kept.(map[string]any)
		for name, v := range file {
			same(t, at+"."+name, v, kept[name])
		}
	case []any:
		kept, _ := kept.([]any)
		if len(kept) != len(file) {
			t.Errorf("%s: %d of %d are known", at, len(kept), len(file))
			return
		}
		for i, v := range file {
			same(t, fmt.Sprintf("%s[%d]", at, i), v, kept[i])
		}
	default:
		if file != kept {
			t.Errorf("%s: it has %v, which is read as %v", at, file, kept)
		}
	}
}
