package machine

import (
	"strings"
	"testing"
)

// One report has everything: all that would hold the join back, and each endpoint that
// does not answer.
func TestPreflightReportsEverything(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v37) }, 2)
	a, b := hosts[0], hosts[1]
	a.ok("init")
	b.copyCA(a)
	const dead = "https://127.0.0.1:1"
	var report struct {
		Ready, Wait bool
		Hold        struct{ Reason string }
		Holds       []struct{ Reason, Text, Next string }
		Findings    []struct {
			ID, Text string
			Fatal    bool
		}
	}
	reported := func(what string, r result) {
		t.Helper()
		b.unmarshal(r.stdout, &report)
		unreachable := 0
		for _, f := range report.Findings {
			if f.ID == "Endpoint" && strings.Contains(f.Text, dead) && !f.Fatal {
				unreachable++
			}
		}
		if unreachable != 1 || strings.Count(r.stderr, "[WARNING Endpoint]: "+dead) != 1 {
			t.Errorf("%s: the dead endpoint: %s", what, r)
		}
	}
	preflight := []string{"preflight", "-o", "json", "--endpoints", a.clientURL() + "," + dead}
	reported("a join that goes through", b.run(preflight...))
	if !report.Ready || report.Holds == nil || len(report.Holds) != 0 {
		t.Errorf("it is not ready: %+v", report)
	}
	r := b.fails(3, nil, append(preflight, "--name=a", "--version="+v35)...)
	reported("a join that is held", r)
	if report.Ready || report.Wait || len(report.Holds) != 2 || report.Holds[0].Reason != "version-step" ||
		report.Holds[1].Reason != "name-taken" || report.Hold.Reason != "version-step" {
		t.Errorf("the holds are %+v", report)
	}
	for _, h := range report.Holds {
		if h.Text == "" || h.Next == "" || !strings.Contains(r.stderr, h.Text) {
			t.Errorf("nobody is warned of %+v: %s", h, r)
		}
	}
	b.nothing()
}
