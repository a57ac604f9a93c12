package daemon

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// get returns the code and the body of a page.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
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

// quiet are sources that report nothing.
func quiet() sources {
	return sources{
		Cluster: "main", Requests: func() int64 { return 0 }, Restarts: func() int { return 0 },
		Process: func() cluster.ProcessState { return "" }, Storage: func() cluster.Storage { return cluster.Storage{} },
		HasLeader: func() bool { return false },
		Paused:    func() bool { return false }, CertNotAfter: func() time.Time { return time.Time{} },
	}
}

var clusterLabel = regexp.MustCompile(`(?m)^(etcdadm_\w+\{)cluster="\w+"(,?)`)

// wantLines checks that a page of metrics has each of the lines, which leave out the label cluster.
func wantLines(t *testing.T, page string, lines ...string) {
	t.Helper()
	page = strings.ReplaceAll(clusterLabel.ReplaceAllString(page, "$1"), "{}", "")
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
	from := quiet()
	from.Requests, from.Restarts = func() int64 { return 17 }, func() int { return 3 }
	from.Process = func() cluster.ProcessState { return state }
	m := newMetrics(from)
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
	go func() { served <- m.serve(ctx, l, web{alive: says(&alive), ready: says(&ready)}) }()
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
	r.Observation.Failures = []cluster.Failure{
		{Line: "etcdadm backup drill --name=b1"},
		{Line: "etcdadm member start --on=a"}, {Line: "etcdadm member start --on=b"},
	}
	m.note(r)
	_, page = get(t, url+"/metrics")
	wantLines(t, page, "etcdadm_coordinator 1", "etcdadm_coordinator_term 4", "etcdadm_converged 1",
		"etcdadm_etcd_running 1",
		`etcdadm_members{healthy="true",role="voter"} 2`, `etcdadm_members{healthy="false",role="voter"} 1`,
		`etcdadm_members{healthy="false",role="learner"} 1`, `etcdadm_hold{reason="learner-behind"} 1`)
	wantLines(t, page, "etcdadm_wanted_members 3", "etcdadm_backups 1", "etcdadm_store_reachable 1",
		`etcdadm_failing_operations 3`, `etcdadm_operation_failing{kind="backup drill"} 1`,
		`etcdadm_operation_failing{kind="member start"} 1`, `etcdadm_node_reachable{node="b"} 1`,
		"etcdadm_last_backup_timestamp_seconds "+number(r.At.Unix()))
	if strings.Contains(page, "etcdadm_last_backup_verified") || strings.Contains(page, "etcdadm_node_free") {
		t.Error("it reports what is not known")
	}

	cancel()
	if err := <-served; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// number is how a page of metrics has a large number.
func number(n int64) string {
	return strings.TrimSuffix(strconv.FormatFloat(float64(n), 'g', -1, 64), "\n")
}

// What a daemon that does not coordinate cannot know it does not serve: a zero would be an alert.
func TestADaemonReportsOfItself(t *testing.T) {
	from := quiet()
	from.Paused = func() bool { return true }
	from.Storage = func() cluster.Storage {
		return cluster.Storage{State: cluster.StorageHung, Latency: 250 * time.Millisecond}
	}
	from.CertNotAfter = func() time.Time { return time.Unix(1e6, 0) }
	from.Quota = 4096
	page := gathered(t, newMetrics(from))
	wantLines(t, page, "etcdadm_paused 1", "etcdadm_disk_healthy 0", "etcdadm_disk_write_seconds 0.25",
		"etcdadm_etcd_quota_bytes 4096",
		"etcdadm_certificate_expiry_timestamp_seconds 1e+06", "etcdadm_coordinator 0", "etcdadm_etcd_running 0")
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "etcdadm_") && !strings.Contains(line, `{cluster="main"`) {
			t.Errorf("no cluster: %s", line)
		}
		for _, of := range []string{"converged", "members", "hold", "backup", "node", "store_reachable", "failing"} {
			if strings.HasPrefix(line, "etcdadm_"+of) {
				t.Errorf("it has observed nothing, and serves %s", line)
			}
		}
	}
	if !strings.Contains(page, `etcdadm_build_info{cluster="main",goversion="go1.`) {
		t.Error("it does not say what was built")
	}
}

func TestTwoHoldsOfOneReason(t *testing.T) {
	m := newMetrics(quiet())
	r := report()
	r.Holds = []plan.Hold{{Reason: plan.Grace}, {Reason: plan.Grace, Text: "another"}}
	r.Observation.Members[0].DBSize, r.Observation.Nodes[0].FreeBytes = 4096, 1<<20
	m.note(r)
	wantLines(t, gathered(t, m), `etcdadm_hold{reason="grace"} 1`, `etcdadm_member_db_size_bytes{member="a"} 4096`,
		`etcdadm_node_free_bytes{node="a"} 1.048576e+06`)
}

// Whom a voter does not reach is reported with both names, as the alert has them.
func TestMetricsNameWhoDoesNotReachWhom(t *testing.T) {
	m := newMetrics(quiet())
	r := report()
	link := func(to cluster.MemberID, why string) []cluster.Link {
		return []cluster.Link{{Member: to, Tried: true, Down: time.Minute, Why: why}}
	}
	r.Observation.Members = []cluster.Member{{ID: 1, Name: "a", Healthy: true}, {ID: 2, Name: "b", Healthy: true}}
	r.Observation.Nodes = nil
	for i, why := range []string{"connection refused", ""} {
		id := cluster.MemberID(i + 1)
		r.Observation.Nodes = append(r.Observation.Nodes, cluster.Node{
			Name: r.Observation.Members[i].Name, Reachable: true, Links: link(3-id, why), Disk: cluster.Disk{MemberID: id},
			Process: cluster.Process{State: cluster.ProcessRunning}, Assigned: &cluster.Assigned{Token: r.Observation.Token},
		})
	}
	m.note(r)
	page := gathered(t, m)
	wantLines(t, page, `etcdadm_peer_unreachable{from="a",to="b"} 1`)
	if strings.Contains(page, `from="b"`) {
		t.Error("the other way, too")
	}
	// Two members of one name are one number.
	twin := cluster.Member{ID: 3, Name: "b", Healthy: true, DBSize: 7}
	r.Observation.Members[1].DBSize = 8
	r.Observation.Members = append(r.Observation.Members, twin)
	twinNode := r.Observation.Nodes[1]
	twinNode.Name, twinNode.Disk.MemberID, twinNode.Links = "z", 3, nil
	r.Observation.Nodes = append(r.Observation.Nodes, twinNode)
	r.Observation.Nodes[0].Links = append(r.Observation.Nodes[0].Links, link(3, "connection refused")...)
	if n := len(plan.UnlinkedVoters(r.Observation)); n != 2 {
		t.Fatalf("there are %d pairs", n)
	}
	m.note(r)
	wantLines(t, gathered(t, m), `etcdadm_peer_unreachable{from="a",to="b"} 1`,
		`etcdadm_member_db_size_bytes{member="b"} 8`)
}

func TestWhatIsOverIsNotCountedOn(t *testing.T) {
	m := newMetrics(quiet())
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
		"etcdadm_coordinator 0", "etcdadm_coordinator_term 0", "etcdadm_coordinator_elected_total 1")
	for _, gone := range []string{
		"etcdadm_hold{", "etcdadm_members{", "etcdadm_converged", "etcdadm_last_backup", "etcdadm_backups",
	} {
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
	go func() { served <- m.serve(ctx, l, web{alive: yes, ready: yes}) }()
	_, page := get(t, "http://"+l.Addr().String()+"/metrics")
	cancel()
	must(t, <-served)
	return page
}

func TestAPortThatFailsIsSaid(t *testing.T) {
	m := newMetrics(quiet())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	if err := m.serve(t.Context(), l, web{}); !errors.Is(err, net.ErrClosed) {
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

// Each metric is reported with its labels, and those of the cluster apart.
func TestMetricDocs(t *testing.T) {
	docs := map[string]MetricDoc{}
	for _, d := range MetricDocs() {
		if docs[d.Name] = d; d.Cluster != strings.Contains(d.Help, "Served by the coordinator") {
			t.Errorf("%+v", d)
		}
	}
	if d := docs["etcdadm_members"]; strings.Join(d.Labels, " ") != "role healthy" || !d.Cluster {
		t.Errorf("%+v", d)
	}
	families, err := newMetrics(quiet()).registry.Gather()
	must(t, err)
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "etcdadm_") && docs[f.GetName()].Help != f.GetHelp() {
			t.Errorf("%s is not reported", f.GetName())
		}
	}
}

// Anybody may scrape, and as often as they like: etcd does not notice.
func TestScrapesDoNotFloodTheMember(t *testing.T) {
	now, asked := time.Unix(1e9, 0), 0
	leads := seldom(t.Context(), func() time.Time { return now }, func(context.Context) bool {
		asked++
		return asked == 1
	})
	for range 100 {
		if !leads() {
			t.Fatal("there is no leader")
		}
	}
	if now = now.Add(recordsInterval); leads() || asked != 2 {
		t.Errorf("it was asked %d times", asked)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if seldom(ended, time.Now, func(ctx context.Context) bool { <-ctx.Done(); return true })() {
		t.Error("a member that does not answer has a leader")
	}
}
