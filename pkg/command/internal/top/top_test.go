package top

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/store"
)

var update = flag.Bool("update", false, "write the pages in testdata again")

var now = time.Date(2026, 11, 25, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// golden compares a page with the file of that name.
func golden(t *testing.T, name, page string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || page != string(want) {
		t.Errorf("%s: %v\n%s\nwant\n%s", name, err, page, want)
	}
}

// healthy is a cluster of three machines, with which nothing is wrong.
func healthy() View {
	version := etcdversion.Must("3.6.16")
	obs := cluster.Observation{
		Cluster: "etcd", At: ago(2 * time.Second), Token: "tok", Leader: 1, Revision: 120034,
		Store: cluster.Store{Reachable: true, Backups: []cluster.Backup{
			{Name: "2026-11-25T03:00:00Z-000001", At: ago(4*time.Minute + 5*time.Second), Size: 12 << 20},
		}},
	}
	for i, name := range []cluster.NodeName{"a", "b", "c"} {
		obs.Members = append(obs.Members, cluster.Member{
			ID: cluster.MemberID(i + 1), Name: name, Healthy: true, Condition: cluster.Serving, Version: version,
			Applied: 120100, Committed: 120100 + uint64(i), DBSize: int64(45+i) << 20,
		})
		obs.Nodes = append(obs.Nodes, cluster.Node{
			Name: name, Reachable: true, Process: cluster.Process{State: cluster.ProcessRunning, Version: version},
			Storage:   cluster.Storage{State: cluster.StorageGood, Latency: time.Duration(2100+i*9000) * time.Microsecond},
			FreeBytes: 10 << 30, ClockSkew: time.Duration(i-1) * 3 * time.Millisecond,
			CertNotAfter: now.Add(600 * 24 * time.Hour),
		})
	}
	r := reconcile.Report{
		At: obs.At, Coordinator: "a", Term: 4, Spec: cluster.Spec{MemberCount: 3, EtcdVersion: version}, Observation: obs,
		Converged: true,
	}
	return View{
		Where: "s3://bucket/etcd", Now: now, At: ago(time.Second), Took: 41 * time.Millisecond, Rate: 12.34,
		Sample: &Sample{
			Status: render.NewStatus(&r, now),
			History: []store.HistoryEntry{
				{At: ago(time.Hour), By: "b", Line: "etcdadm member add --node=c", Took: 90 * time.Millisecond,
					Error: "unhealthy\nmember"},
				{At: ago(4 * time.Minute), By: "a", Line: "etcdadm backup take --node=a --reason=interval", Took: 1200 * time.Millisecond},
			},
		},
	}
}

// broken is a cluster with which everything is wrong that there is a place for.
func broken() View {
	v := healthy()
	r := v.Sample.Status.Report
	obs := &r.Observation
	r.Converged, r.Operation, r.Since = false, "etcdadm member remove --id=3", ago(9*time.Second)
	r.Holds = []plan.Hold{{Reason: plan.Grace, Text: "member c has been unhealthy for 42s of 60s"}}
	obs.Gaps = []cluster.Gap{{Source: "node c", Text: "connection refused"}}
	obs.BackingUp = "etcdadm backup take --node=b --reason=interval"
	obs.Failures = []cluster.Failure{{Line: "etcdadm member promote --id=4", Text: "not in sync"}}
	obs.Members[2].Healthy, obs.Members[2].UnhealthySince = false, ago(42*time.Second)
	obs.Members[1].Committed += 5000
	obs.Members[1].Condition = "late"
	obs.Members[0].Alarms = []string{"NOSPACE"}
	obs.Members = append(obs.Members, cluster.Member{ID: 4, PeerURLs: []string{"https://10.0.0.4:2380"}, Learner: true})
	obs.Nodes[0].Storage = cluster.Storage{State: cluster.StorageSlow, Latency: 400 * time.Millisecond}
	obs.Nodes[0].CertNotAfter = ago(time.Hour)
	obs.Nodes[1].Storage = cluster.Storage{State: cluster.StorageHung}
	obs.Nodes[1].ClockSkew = 3 * time.Second
	obs.Nodes[1].CertNotAfter = now.Add(3 * 24 * time.Hour)
	obs.Nodes[1].Staged = &cluster.Staged{Backup: "2026-11-25T03:00:00Z-000001", Done: 1 << 20, Total: 12 << 20}
	obs.Nodes[2].Reachable, obs.Nodes[2].LastSeen = false, ago(3*time.Minute)
	obs.Nodes = append(obs.Nodes, cluster.Node{Name: "d", Reachable: true, FreeBytes: 1 << 30,
		Process: cluster.Process{State: cluster.ProcessCrashing}})
	v.Sample.Status = render.NewStatus(r, now)
	v.Sample.Status.Requests = []cluster.Request{
		{Kind: cluster.RequestPause, By: "ann", At: ago(time.Minute), Reason: "disk"},
	}
	v.Sample.Status.Notes = []string{"the spec in the store is another one"}
	v.Rate = -1
	return v
}

// What is missing of what users asked for is said beside the operations.
func TestAPageWithANoteOnTheHistory(t *testing.T) {
	v := healthy()
	v.Sample.HistoryNote = "store denies access"
	got := Render(v, Options{})
	if _, after, ok := strings.Cut(got, "\nstore denies access\n"); !ok || !strings.Contains(after, "DONE") {
		t.Errorf("the page is\n%s", got)
	}
}

func TestPages(t *testing.T) {
	stale := healthy()
	stale.Sample.Status.Report.At = ago(10 * time.Minute)
	stale.Problem = "store s3://bucket/etcd: connection refused"
	stale.Failing, stale.At = ago(9*time.Second), ago(11*time.Second)
	stale.Sample.HistoryProblem = "it is not JSON"
	nothing := View{Where: "/backups", Now: now, Rate: -1, Sample: &Sample{Status: render.NewStatus(nil, now)}}
	nothing.Sample.Status.Notes = []string{"no coordinator has published a status in this store"}
	nothing.Sample.Status.Requests = broken().Sample.Status.Requests
	for name, tc := range map[string]struct {
		v View
		o Options
	}{
		"healthy":          {v: healthy()},
		"healthy-coloured": {v: healthy(), o: Options{Colour: true, Width: 120, Height: 40}},
		"broken":           {v: broken()},
		"broken-coloured":  {v: broken(), o: Options{Colour: true}},
		"broken-small":     {v: broken(), o: Options{Width: 60, Height: 16}},
		"stale":            {v: stale},
		"stale-coloured":   {v: stale, o: Options{Colour: true}},
		"nothing":          {v: nothing},
		"first":            {v: View{Where: "s3://bucket/etcd", Now: now, Rate: -1}},
		"never":            {v: View{Where: "s3://b", Now: now, Rate: -1, Problem: "denied", Failing: ago(70 * time.Second)}},
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, Render(tc.v, tc.o)) })
	}
}

// A page fits where it is shown, whatever its size, and no line depends on colours.
func TestPagesFit(t *testing.T) {
	for _, v := range []View{healthy(), broken()} {
		for width := 1; width < 150; width += 7 {
			for height := 1; height < 50; height += 3 {
				page := Render(v, Options{Width: width, Height: height})
				lines := strings.Split(strings.TrimSuffix(page, "\n"), "\n")
				if len(lines) > height {
					t.Errorf("%d lines of %d", len(lines), height)
				}
				for _, l := range lines {
					if utf8.RuneCountInString(l) > width || strings.TrimRight(l, " ") != l {
						t.Errorf("width %d: %q", width, l)
					}
				}
				coloured := Render(v, Options{Width: width, Height: height, Colour: true})
				if plain := stripped(coloured); plain != page {
					t.Fatalf("with colours it is\n%s\nwithout\n%s", plain, page)
				}
			}
		}
	}
}

// stripped takes the codes of colours off.
func stripped(s string) string {
	var b strings.Builder
	for s != "" {
		before, after, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			break
		}
		_, s, _ = strings.Cut(after, "m")
	}
	return b.String()
}

// What others wrote does not draw on the terminal.
func TestTextOfOthersHasNoCodes(t *testing.T) {
	v := broken()
	evil := "x\x1b[2Jy\x07\nz"
	r := v.Sample.Status.Report
	r.Observation.Cluster, r.Operation = evil, evil
	r.Holds[0].Text, r.Observation.Gaps[0].Text, r.Observation.Nodes[0].Name = evil, evil, cluster.NodeName(evil)
	v.Sample.History[0].Line, v.Sample.History[0].Error, v.Problem, v.Where = evil, evil, evil, evil
	for _, r := range Render(v, Options{}) {
		if r < ' ' && r != '\n' || r == 0x7f {
			t.Fatalf("the page has %q", r)
		}
	}
}

func TestBackupsAreReported(t *testing.T) {
	for want, change := range map[string]func(*cluster.Store){
		"last backup 4m ago (12.0 MiB)":        func(*cluster.Store) {},
		"damaged backup 2026-11-25T03:00:00Z-": func(s *cluster.Store) { s.Backups[0].Damaged = true },
		"backups unknown: too many":            func(s *cluster.Store) { s.Backups, s.BackupsProblem = nil, "too many" },
		"backups unknown, read":                func(s *cluster.Store) { s.Backups = nil },
		"no backup, read":                      func(s *cluster.Store) { s.Backups, s.BackupsKnown = nil, true },
	} {
		v := healthy()
		change(&v.Sample.Status.Report.Observation.Store)
		if page := Render(v, Options{}); !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
}

func TestLatencies(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.0ms", 2100 * time.Microsecond: "2.1ms", 9999 * time.Microsecond: "10.0ms", 41 * time.Millisecond: "41ms",
		1240 * time.Millisecond: "1.2s", 90 * time.Second: "90s",
	} {
		if got := latency(d); got != want {
			t.Errorf("%s is %s, want %s", d, got, want)
		}
	}
}

// In a narrow window the columns that say least are left out, and named; those in which
// something stands out stay, as long as there is room. A line that is cut says so.
func TestNarrowWindows(t *testing.T) {
	machines := func(page string) string {
		_, after, _ := strings.Cut(page, "\n\n")
		before, _, _ := strings.Cut(after, "\n\n")
		return before
	}
	page := machines(Render(healthy(), Options{Width: 80, Height: 40}))
	if !strings.Contains(page, "in a wider window: ") || !strings.Contains(page, "BEHIND") ||
		strings.Contains(page, cutMark) || strings.Contains(strings.SplitN(page, "\n", 2)[0], "CLOCK") {
		t.Errorf("80 columns:\n%s", page)
	}
	if wide := machines(Render(healthy(), Options{Width: 200, Height: 40})); strings.Contains(wide, "wider") ||
		!strings.Contains(wide, "CERTIFICATES") {
		t.Errorf("200 columns:\n%s", wide)
	}
	v := healthy()
	v.Sample.Status.Report.Observation.Nodes[1].ClockSkew = 7 * time.Second
	if page := machines(Render(v, Options{Width: 80, Height: 40})); !strings.Contains(page, "+7.0s") {
		t.Errorf("a clock that is wrong is left out:\n%s", page)
	}
	v.Sample.Status.Notes = []string{strings.Repeat("x", 74), strings.Repeat("y", 75)}
	lines := strings.Split(Render(v, Options{Width: 80, Height: 40}), "\n")
	if lines[1] != "note: "+strings.Repeat("x", 74) || lines[2] != "note: "+strings.Repeat("y", 73)+cutMark {
		t.Errorf("%q", lines[1:3])
	}
}

// Why an etcd ended is reported with its last lines, and so is what a next version cannot run with.
func TestEndsAndHazards(t *testing.T) {
	v := broken()
	obs := &v.Sample.Status.Report.Observation
	if page := Render(v, Options{}); strings.Contains(page, "HAZARD") {
		t.Errorf("hazards of which nothing is known in\n%s", page)
	}
	obs.Nodes[3].Process.LastExit = "signal: killed\x1b[2J"
	obs.Nodes[3].Process.LastLines = []string{"panic: bad", "goroutine 1"}
	obs.Nodes[0].Assigned = &cluster.Assigned{Version: etcdversion.Must("3.5.35")}
	obs.Nodes[0].Hazards = cluster.NoHazards()
	obs.Nodes[0].Hazards[0] = cluster.Hazard{
		Kind: cluster.HazardMembers, State: cluster.HazardPresent, What: "only the database has it",
	}
	page := Render(v, Options{})
	for _, want := range []string{
		"ETCD ENDED ON  BECAUSE\nd              signal: killed", "\n               panic: bad\n               goroutine 1\n",
		"HAZARD   ON  STATE    BECAUSE\nmembers  a   present  only the database has it\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	obs.Nodes[3].Process.State = cluster.ProcessRunning
	if page := Render(v, Options{}); strings.Contains(page, "ETCD ENDED") {
		t.Errorf("an etcd that runs again in\n%s", page)
	}
}
