package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// A grafanaSource is the data source of a panel, a target or a variable.
type grafanaSource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// A grafanaTarget is one query of a panel.
type grafanaTarget struct {
	RefID        string        `json:"refId"`
	Datasource   grafanaSource `json:"datasource"`
	Expr         string        `json:"expr"`
	LegendFormat string        `json:"legendFormat"`
	Instant      bool          `json:"instant"`
	Range        bool          `json:"range"`
}

// A grafanaPanel is a row or a panel.
type grafanaPanel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Collapsed   bool   `json:"collapsed"`
	// Panels is empty: Grafana has panels there only while their row is collapsed.
	Panels     []grafanaPanel `json:"panels"`
	Datasource *grafanaSource `json:"datasource"`
	GridPos    struct {
		H int `json:"h"`
		W int `json:"w"`
		X int `json:"x"`
		Y int `json:"y"`
	} `json:"gridPos"`
	Targets     []grafanaTarget `json:"targets"`
	FieldConfig json.RawMessage `json:"fieldConfig"`
	Options     json.RawMessage `json:"options"`
}

// A grafanaVariable is what a reader of the dashboard chooses.
type grafanaVariable struct {
	Name       string          `json:"name"`
	Label      string          `json:"label"`
	Type       string          `json:"type"`
	Datasource *grafanaSource  `json:"datasource"`
	Query      json.RawMessage `json:"query"`
	Definition string          `json:"definition"`
	Refresh    int             `json:"refresh"`
	IncludeAll bool            `json:"includeAll"`
	Multi      bool            `json:"multi"`
	AllValue   string          `json:"allValue"`
	Current    json.RawMessage `json:"current"`
	Sort       int             `json:"sort"`
}

// A grafanaFile is a dashboard as Grafana imports it.
type grafanaFile struct {
	Title         string          `json:"title"`
	UID           string          `json:"uid"`
	Description   string          `json:"description"`
	Tags          []string        `json:"tags"`
	SchemaVersion int             `json:"schemaVersion"`
	Version       int             `json:"version"`
	Editable      bool            `json:"editable"`
	GraphTooltip  int             `json:"graphTooltip"`
	Refresh       string          `json:"refresh"`
	Time          json.RawMessage `json:"time"`
	Timezone      string          `json:"timezone"`
	Annotations   json.RawMessage `json:"annotations"`
	Links         json.RawMessage `json:"links"`
	Templating    struct {
		List []grafanaVariable `json:"list"`
	} `json:"templating"`
	Panels []grafanaPanel `json:"panels"`
}

func grafana(t *testing.T) (b grafanaFile) {
	t.Helper()
	text, err := os.ReadFile("../../manifests/grafana/etcdadm.json")
	must(t, err)
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	must(t, in.Decode(&b))
	return b
}

// queries are all expressions of the dashboard, by where they are.
func (b grafanaFile) queries() map[string]string {
	all := map[string]string{}
	for _, p := range b.Panels {
		for _, q := range p.Targets {
			all[p.Title+" "+q.RefID] = q.Expr
		}
	}
	for _, v := range b.Templating.List {
		all["variable "+v.Name] = v.Definition
	}
	return all
}

var (
	metricName = regexp.MustCompile(`\b(etcdadm|etcd|node)_[a-z_]+\w*`)
	withLabels = regexp.MustCompile(`(etcdadm_\w+)\{([^}]*)\}`)
	grouped    = regexp.MustCompile(`by \(([^)]*)\)`)
)

// The dashboard is whole: each panel has its place, its source and its queries, and they
// use the variables that there are.
func TestTheDashboardIsWhole(t *testing.T) {
	b := grafana(t)
	if b.Title == "" || b.UID == "" || b.SchemaVersion < 36 || len(b.Panels) == 0 {
		t.Errorf("%+v", b)
	}
	known, ids, taken := map[string]bool{}, map[int]bool{}, map[[2]int]string{}
	for _, v := range b.Templating.List {
		known[v.Name] = true
	}
	for _, p := range b.Panels {
		if p.ID <= 0 || ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q: its number or title is none of its own", p.ID, p.Title)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.W <= 0 || g.H <= 0 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("%s: it is at %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s is over %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.Description == "" || p.Datasource == nil || p.Datasource.UID != "${datasource}" {
			t.Errorf("%s: no query, no description, or a source of its own", p.Title)
		}
		for _, q := range p.Targets {
			if q.Datasource.UID != "${datasource}" || q.Instant == q.Range || q.LegendFormat == "" ||
				strings.Count(q.Expr, "(") != strings.Count(q.Expr, ")") {
				t.Errorf("%s: query %+v", p.Title, q)
			}
			for _, v := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(q.Expr, -1) {
				if !known[v[1]] {
					t.Errorf("%s uses the variable %s, which there is not", p.Title, v[1])
				}
			}
		}
	}
}

// A panel on a metric that nobody serves is empty forever, and so is one on a label that
// the metric does not have.
func TestTheDashboardIsOnMetricsThatAreServed(t *testing.T) {
	labels := map[string]string{}
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		newMetrics(quiet()).registry.Describe(descs)
	}()
	for d := range descs {
		if m := described.FindStringSubmatch(d.String()); m != nil {
			labels[m[1]] = m[3] + ",cluster,instance,job"
		}
	}
	used := map[string]bool{}
	for where, expr := range grafana(t).queries() {
		for _, name := range metricName.FindAllString(expr, -1) {
			if _, ok := labels[name]; strings.HasPrefix(name, "etcdadm_") && !ok {
				t.Errorf("%s is on %s, which is not served", where, name)
			}
			used[name] = true
		}
		for _, m := range withLabels.FindAllStringSubmatch(expr, -1) {
			wanted := regexp.MustCompile(`(\w+)(=~|=)"`).FindAllStringSubmatch(m[2], -1)
			for _, by := range grouped.FindAllStringSubmatch(expr, -1) {
				for _, l := range strings.Split(by[1], ", ") {
					wanted = append(wanted, []string{"", l})
				}
			}
			for _, l := range wanted {
				if !strings.Contains(","+labels[m[1]]+",", ","+l[1]+",") {
					t.Errorf("%s wants the label %s of %s, which has %s", where, l[1], m[1], labels[m[1]])
				}
			}
		}
	}
	for name := range labels {
		// What runs on which version, and how long operations take, is for a table elsewhere.
		rest := name == "etcdadm_operation_seconds_total" || name == "etcdadm_coordinator_term" ||
			name == "etcdadm_coordinator_missing" || name == "etcdadm_etcd_running"
		if !used[name] && !rest {
			t.Errorf("no panel is on %s", name)
		}
	}
}

// What the dashboard and the alerts take from etcd each supported version serves.
func TestEtcdServesItsMetrics(t *testing.T) {
	used := grafana(t).queries()
	maps.Copy(used, alertRules(t).expressions())
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		a, b := etcdtest.New(t, "a"), etcdtest.New(t, "b")
		initial := "--initial-cluster=" + etcdtest.Initial(a, b)
		a.Start(t, bin, initial)
		b.Start(t, bin, initial)
		etcdtest.AwaitRead(t, etcdtest.Dial(t, a, b))
		testwait.For(t, "each metric is served", func(context.Context) error {
			_, page := get(t, a.ClientURL+"/metrics")
			for where, expr := range used {
				for _, name := range metricName.FindAllString(expr, -1) {
					if strings.HasPrefix(name, "etcd_") && !strings.Contains(page, "\n"+name) {
						return fmt.Errorf("%s is on %s, which etcd does not serve", where, name)
					}
				}
			}
			return nil
		})
	})
}
