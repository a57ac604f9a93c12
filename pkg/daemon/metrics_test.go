package daemon

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
)

// get returns the code and the body of a page.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	must(t, err)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(b)
}

// wantLines checks that a page of metrics has each of the lines.
func wantLines(t *testing.T, page string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains("\n"+page, "\n"+l+"\n") {
			name, _, _ := strings.Cut(l, " ")
			name, _, _ = strings.Cut(name, "{")
			var near []string
			for line := range strings.Lines(page) {
				if strings.HasPrefix(line, name) {
					near = append(near, line)
				}
			}
			t.Errorf("no line %q, there is\n%s", l, strings.Join(near, ""))
		}
	}
}

func TestMetricsAndHealthOverHTTP(t *testing.T) {
	var alive, ready atomic.Bool
	state := cluster.ProcessStopped
	m := newMetrics(func() int64 { return 17 }, func() cluster.ProcessState { return state }, func() int { return 3 })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	says := func(ok *atomic.Bool) func() error {
		return func() error {
			if !ok.Load() {
				return errors.New("it is stuck")
			}
			return nil
		}
	}
	go func() { served <- m.serve(ctx, l, says(&alive), says(&ready)) }()
	url := "http://" + l.Addr().String()

	for page, what := range map[string]*atomic.Bool{"/healthz": &alive, "/readyz": &ready} {
		if code, body := get(t, url+page); code != http.StatusServiceUnavailable || body == "" {
			t.Errorf("%s says %d %q", page, code, body)
		}
		what.Store(true)
		if code, body := get(t, url+page); code != http.StatusOK || body != "ok\n" {
			t.Errorf("%s says %d %q", page, code, body)
		}
	}
	_, page := get(t, url+"/metrics")
	wantLines(t, page, "etcdadm_coordinator 0", "etcdadm_store_requests_total 17", "etcdadm_etcd_restarts_total 3",
		"etcdadm_etcd_running 0")

	state = cluster.ProcessRunning
	r := report()
	r.Observation.Members[1].Healthy = false
	r.Observation.Members = append(r.Observation.Members, cluster.Member{ID: 9, Learner: true})
	r.Holds = []plan.Hold{{Reason: plan.LearnerBehind}}
	m.note(r)
	_, page = get(t, url+"/metrics")
	wantLines(t, page, "etcdadm_coordinator 1", "etcdadm_coordinator_term 4", "etcdadm_converged 1",
		"etcdadm_etcd_running 1",
		`etcdadm_members{healthy="true",role="voter"} 2`, `etcdadm_members{healthy="false",role="voter"} 1`,
		`etcdadm_members{healthy="false",role="learner"} 1`, `etcdadm_hold{reason="learner-behind"} 1`)
	if strings.Contains(page, "etcdadm_last_backup_timestamp_seconds 0\n") {
		t.Error("the newest backup is missing")
	}

	cancel()
	if err := <-served; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestWhatIsOverIsNotCountedOn(t *testing.T) {
	m := newMetrics(func() int64 { return 0 }, func() cluster.ProcessState { return "" }, func() int { return 0 })
	r := report()
	r.Holds = []plan.Hold{{Reason: plan.Grace}}
	m.note(r)
	m.note(done("etcdadm member start --node=a", nil))
	m.note(done("etcdadm member start --node=b", errors.New("x")))
	m.note(done("etcdadm member start --node=b", nil))
	m.note(done("rm -r", nil))
	m.note(reconcile.Report{}) // the lease is lost
	page := gathered(t, m)
	wantLines(t, page,
		`etcdadm_operations_total{kind="member start",result="done"} 2`,
		`etcdadm_operations_total{kind="member start",result="failed"} 1`,
		`etcdadm_operation_seconds_total{kind="member start"} 9`, `etcdadm_operations_total{kind="unknown",result="done"} 1`,
		"etcdadm_coordinator 0", "etcdadm_coordinator_term 0", "etcdadm_converged 0")
	for _, gone := range []string{"etcdadm_hold{", "etcdadm_members{"} {
		if strings.Contains(page, gone) {
			t.Errorf("%s is still there", gone)
		}
	}
}

// gathered serves the metrics for one page.
func gathered(t *testing.T, m *metrics) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	yes := func() error { return nil }
	go func() { served <- m.serve(ctx, l, yes, yes) }()
	_, page := get(t, "http://"+l.Addr().String()+"/metrics")
	cancel()
	must(t, <-served)
	return page
}

func TestAPortThatFailsIsSaid(t *testing.T) {
	m := newMetrics(func() int64 { return 0 }, func() cluster.ProcessState { return "" }, func() int { return 0 })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	if err := m.serve(t.Context(), l, nil, nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

func TestTheKindOfEveryOperationIsKnown(t *testing.T) {
	for _, k := range plan.Kinds() {
		if got := kindOf("etcdadm " + k.Path + " --node=a"); got != k.Path {
			t.Errorf("%s is counted as %s", k.Path, got)
		}
	}
	for _, line := range []string{"", "etcdadm", "etcdadm member", "etcdadm member dance --node=a"} {
		if got := kindOf(line); got != "unknown" {
			t.Errorf("%q is counted as %s", line, got)
		}
	}
}
