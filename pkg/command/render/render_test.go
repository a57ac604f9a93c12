package render

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestAges(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                       "now",
		-time.Second:            "now",
		-90 * time.Second:       "in 90s",
		999 * time.Millisecond:  "now",
		time.Second:             "1s ago",
		119 * time.Second:       "119s ago",
		2 * time.Minute:         "2m ago",
		119 * time.Minute:       "119m ago",
		2 * time.Hour:           "2h ago",
		47 * time.Hour:          "47h ago",
		48 * time.Hour:          "2d ago",
		365 * 24 * time.Hour:    "365d ago",
		-(24 * 3 * time.Hour):   "in 3d",
		90*time.Minute + 30e9:   "90m ago",
		10 * 365 * 24 * 3600e9:  "3650d ago",
		1500 * time.Millisecond: "1s ago",
	} {
		if got := Age(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 10 << 20: "10.0 MiB", 8 << 30: "8.0 GiB",
		1 << 62: "4.0 EiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

func TestStateSaysWhatIsGoingOn(t *testing.T) {
	holds := []plan.Hold{{Reason: plan.Grace, Text: "x"}}
	for want, r := range map[string]reconcile.Report{
		"doing: etcdadm x":             {Operation: "etcdadm x", Converged: true},
		"doing: etcdadm x (for 1m2s)":  {Operation: "etcdadm x", At: now, Since: now.Add(-62 * time.Second)},
		"as the spec says":             {Converged: true},
		"as the spec says, with holds": {Converged: true, Holds: holds},
		"held":                         {Holds: holds},
		"not yet as the spec says":     {},
	} {
		if got := State(r, 0); got != want {
			t.Errorf("%+v is %q, want %q", r, got, want)
		}
	}
}

func TestStatusShowsRequests(t *testing.T) {
	s := Status{Requests: []cluster.Request{
		{Kind: cluster.RequestRestore, Backup: "b1", At: now.Add(-time.Hour)},
		{Kind: cluster.RequestPause, By: "ann@desk", Reason: "disk\nswap", At: now.Add(-time.Second)},
	}}
	var b strings.Builder
	if err := s.Write(&b, now); err != nil {
		t.Fatal(err)
	}
	want := "request  restore of b1, 60m ago\nrequest  pause by ann@desk, 1s ago: disk swap\n"
	if b.String() != want {
		t.Errorf("status is\n%s\nwant\n%s", b.String(), want)
	}
}

func TestStatusOfUnreadableDisk(t *testing.T) {
	s := Status{Report: &reconcile.Report{At: now, Observation: cluster.Observation{
		Nodes: []cluster.Node{{Name: "a", Reachable: true, Disk: cluster.Disk{
			State: cluster.DiskUnreadable, Problem: "state file is torn",
		}, Process: cluster.Process{State: cluster.ProcessCrashing}}},
	}}}
	var b strings.Builder
	if err := s.Write(&b, now); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"unreadable: state file is torn", "etcd on a ended: unknown", "last backup  unknown", "spec         none",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("status lacks %q:\n%s", want, b.String())
		}
	}
}

// What the next minor version cannot run with is reported before anybody wants it, and what
// is in every log of 3.5, or not looked for yet, is not.
func TestStatusReportsOfHazards(t *testing.T) {
	found := cluster.NoHazards()
	found[0] = cluster.Hazard{Kind: cluster.HazardMembers, State: cluster.HazardPresent, What: "only the database has it"}
	found[1].State = cluster.HazardPresent // old-log
	found[2].State = cluster.HazardPending // v2-content
	spec := cluster.Spec{MemberCount: 1, EtcdVersion: etcdversion.Must("3.6.16")}
	spec.Risk = cluster.VersionRisk{Version: spec.EtcdVersion, Reason: "tried"}
	s := Status{Report: &reconcile.Report{At: now, Spec: spec, Observation: cluster.Observation{Nodes: []cluster.Node{
		{Name: "a", Assigned: &cluster.Assigned{Version: etcdversion.Must("3.5.35")}, Hazards: found},
		{Name: "b", Hazards: found}, {Name: "c", Assigned: &cluster.Assigned{Version: etcdversion.Must("3.4.25")}},
	}}}}
	var b strings.Builder
	if err := s.Write(&b, now); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{"1 of etcd 3.6.16, its risk accepted: tried", "members", "only the database has it"} {
		if !strings.Contains(text, want) {
			t.Errorf("status lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "old-log") || strings.Contains(text, "v2-content") || strings.Count(text, "only the") != 1 {
		t.Errorf("status reports too much:\n%s", text)
	}
	s.Report.Spec.EtcdVersion = etcdversion.Must("3.6.15")
	b.Reset()
	if err := s.Write(&b, now); err != nil || strings.Contains(b.String(), "tried") {
		t.Errorf("what was accepted for another version is reported: %v\n%s", err, b.String())
	}
}

// A small writer takes so many bytes and then fails.
type small struct{ left int }

var errFull = errors.New("no space")

func (s *small) Write(b []byte) (int, error) {
	if s.left -= len(b); s.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestWritingReportsWhatFails(t *testing.T) {
	s := Status{
		Notes: []string{"a note"},
		Report: &reconcile.Report{At: now, Holds: []plan.Hold{{Reason: plan.Grace, Text: "x"}},
			Observation: cluster.Observation{
				Nodes: []cluster.Node{
					{Name: "a", Process: cluster.Process{State: cluster.ProcessCrashing, LastLines: []string{"panic"}}},
				},
				Members: []cluster.Member{{ID: 1}},
				Gaps:    []cluster.Gap{{Source: "store", Text: "away"}},
			}},
	}
	var all strings.Builder
	if err := s.Write(&all, now); err != nil {
		t.Fatal(err)
	}
	for n := range all.Len() {
		if err := s.Write(&small{left: n}, now); !errors.Is(err, errFull) {
			t.Fatalf("with room for %d of %d bytes: %v", n, all.Len(), err)
		}
	}
	if err := (Steps{Converged: true}).Write(&small{}); !errors.Is(err, errFull) {
		t.Errorf("plan: %v", err)
	}
	if err := WriteExplanations(&small{}, Explain(s.Report.Holds)); !errors.Is(err, errFull) {
		t.Errorf("explanations: %v", err)
	}
}

func TestStepsThatIsHeld(t *testing.T) {
	spec := cluster.Spec{MemberCount: 3, EtcdVersion: etcdversion.Must("3.6.16")}
	obs := cluster.Observation{At: now, Store: cluster.Store{Reachable: true, BackupsKnown: true}}
	steps, err := NewSteps(spec, obs)
	if err != nil {
		t.Fatal(err)
	}
	var held *cli.HeldError
	if err := steps.Err(); !errors.As(err, &held) || len(held.Holds) != len(steps.Holds) || len(steps.Holds) == 0 {
		t.Errorf("error is %v, holds are %v", err, steps.Holds)
	}
	var b strings.Builder
	if err := steps.Write(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if !strings.HasPrefix(line, "# hold ") {
			t.Errorf("a shell would run %q", line)
		}
	}
}

func TestHoldCannotBreakOutOfItsComment(t *testing.T) {
	var b strings.Builder
	steps := Steps{Holds: []plan.Hold{{Reason: plan.SpecInvalid, Text: "first\nrm -rf /\r\nmore"}}}
	if err := steps.Write(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Count(b.String(), "\n") != 1 || strings.Contains(b.String(), "\r") {
		t.Errorf("the comment is %q", b.String())
	}
}

func TestStepsThatGoesOnIsNoError(t *testing.T) {
	for _, r := range []Steps{
		{Converged: true, Holds: []plan.Hold{{Reason: plan.Paused}}},
		{Operations: []string{"etcdadm x"}, Holds: []plan.Hold{{Reason: plan.NoSpare}}},
	} {
		if err := r.Err(); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

func TestExplanationOfEveryRule(t *testing.T) {
	for _, d := range plan.Reasons() {
		got := Explain([]plan.Hold{{Reason: d.Reason, Text: "seen"}})
		if len(got) != 1 || got[0] != (Explanation{Reason: d.Reason, Text: "seen", Means: d.Means, Do: d.Do}) {
			t.Errorf("%s: %+v", d.Reason, got)
		}
	}
}

func TestPauseHoldsTheCoordinatorOnly(t *testing.T) {
	obs := cluster.Observation{At: now, Nonce: "tok1", Since: now.Add(-time.Hour), Store: cluster.Store{
		Reachable: true, BackupsKnown: true,
		Requests: []cluster.Request{{Name: "x", Kind: cluster.RequestPause, At: now, By: "ann"}},
	}}
	obs.Nodes = []cluster.Node{{
		Name: "a", Reachable: true, Published: true, URLs: cluster.URLs{
			Peer: []string{"http://10.0.0.1:2380"}, Client: []string{"http://10.0.0.1:4001"},
		},
		Disk: cluster.Disk{State: cluster.DiskEmpty}, Process: cluster.Process{State: cluster.ProcessStopped},
		Versions: []etcdversion.Version{etcdversion.Must("3.6.16")},
	}}
	steps, err := NewSteps(cluster.Spec{MemberCount: 1, EtcdVersion: etcdversion.Must("3.6.16")}, obs)
	if err != nil {
		t.Fatal(err)
	}
	if len(steps.Operations) == 0 || len(steps.Holds) == 0 || steps.Holds[0].Reason != plan.Paused || steps.Err() != nil {
		t.Errorf("the plan is %+v, %v", steps, steps.Err())
	}
	if len(obs.Store.Requests) != 1 {
		t.Error("the caller's observation has changed")
	}
}

func TestNoBackupIsSaidWithTheAgeOfTheList(t *testing.T) {
	p := &page{now: now}
	for want, s := range map[string]cluster.Store{
		"none":                                   {BackupsKnown: true},
		"none when the store was last read, now": {BackupsKnown: true, BackupsRead: now},
		"none when the store was last read, 5m ago": {BackupsKnown: true, BackupsRead: now.Add(-5 * time.Minute)},
		"unknown: the store does not answer":        {BackupsProblem: "the store does not answer"},
		"b1, 2m ago":                                {Backups: []cluster.Backup{{Name: "b1", At: now.Add(-2 * time.Minute)}}},
	} {
		if got := p.backups(s); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
