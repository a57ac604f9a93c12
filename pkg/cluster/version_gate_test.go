package cluster

import (
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

func TestStandingRefuses(t *testing.T) {
	v := etcdversion.Must
	old, later := v("3.5.35"), v("3.6.16")
	tests := []struct {
		name     string
		gate     VersionGate
		from, to etcdversion.Version
		refusal  string // part of it, empty for none
	}{
		{"a minor up", VersionGate{Answers: true, Runs: old, Seen: v("3.5.0")}, old, later, ""},
		{"a leader", VersionGate{Answers: true, Leads: true, Runs: old}, old, later, "leads"},
		{"the last but one", VersionGate{Answers: true, Runs: old, Others: 2, Serving: 1}, old, later, "no majority would"},
		{"of three", VersionGate{Answers: true, Runs: old, Others: 2, Serving: 2}, old, later, ""},
		{"of four", VersionGate{Answers: true, Runs: old, Others: 3, Serving: 3}, old, later, ""},
		{"of four, one of which is down", VersionGate{Answers: true, Runs: old, Others: 3, Serving: 2}, old, later,
			"no majority would"},
		{"of five, one of which is down", VersionGate{Answers: true, Runs: old, Others: 4, Serving: 3}, old, later, ""},
		{"of five, two of which are down", VersionGate{Answers: true, Runs: old, Others: 4, Serving: 2}, old, later,
			"no majority would"},
		{"one of two that were three when it was ordered", VersionGate{Answers: true, Runs: old, Others: 1, Serving: 1,
			Ordered: 3}, old, later, "there were 3 voters"},
		{"one of three that were two",
			VersionGate{Answers: true, Runs: old, Others: 2, Serving: 2, Ordered: 2}, old, later, ""},
		{"one of two", VersionGate{Answers: true, Runs: old, Others: 1, Serving: 1}, old, later, ""},
		{"the last of two", VersionGate{Answers: true, Runs: old, Others: 1}, old, later, "no majority would"},
		{"down, and so are others", VersionGate{Others: 2}, old, later, ""},
		{"up while a downgrade has lowered the cluster version", VersionGate{Answers: true, Runs: later, Cluster: v("3.5.0"),
			Seen: v("3.6.0")}, later, v("3.7.3"), "does not follow"},
		{"up while a downgrade is about to", VersionGate{Answers: true, Runs: later, Cluster: v("3.6.0"), Seen: v("3.6.0"),
			Downgrade: v("3.5.0")}, later, v("3.7.3"), "a downgrade to 3.5 is enabled"},
		{"up again from where a downgrade has led",
			VersionGate{Answers: true, Runs: old, Cluster: v("3.5.0"), Seen: v("3.5.0"),
				Downgrade: v("3.5.0")}, old, later, ""},
		{"up behind its cluster version",
			VersionGate{Answers: true, Runs: later, Cluster: v("3.6.0"), Seen: v("3.6.0")}, later,
			v("3.7.3"), ""},
		{"back while mixed",
			VersionGate{Answers: true, Runs: later, Storage: v("3.5.0"), Seen: v("3.5.0"), Lowest: v("3.5.21")},
			later, old, ""},
		{"down while that is enabled", VersionGate{Answers: true, Runs: later, Storage: v("3.5.0"), Seen: v("3.5.0"),
			Lowest: later, Downgrade: v("3.5.0")}, later, old, ""},
		{"back when the last has changed", VersionGate{Answers: true, Runs: later, Storage: v("3.5.0"), Seen: v("3.5.0"),
			Lowest: v("3.6.0")}, later, old, "may rise"},
		{"the data is later", VersionGate{Answers: true, Runs: later, Storage: v("3.6.0"), Seen: v("3.5.0")}, later, old,
			"data is of etcd 3.6"},
		{"others know a later version", VersionGate{Answers: true, Runs: later, Storage: v("3.5.0"), Seen: v("3.6.0")},
			later, old, "cluster version is 3.6"},
		{"back, and its data is unknown", VersionGate{Seen: v("3.5.0")}, later, old, "does not report"},
		{"up, and it is down", VersionGate{Seen: v("3.5.0")}, old, later, ""},
		{"a patch back",
			VersionGate{Answers: true, Runs: later, Storage: v("3.6.0"), Seen: v("3.6.0")}, later, v("3.6.0"), ""},
		{"its directory lies", VersionGate{Answers: true, Runs: later, Storage: v("3.6.0")}, old, old, "data is of etcd 3.6"},
	}
	for _, tt := range tests {
		got := tt.gate.Refusal(tt.from, tt.to)
		if (got == "") != (tt.refusal == "") || !strings.Contains(got, tt.refusal) {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}

func TestTooFar(t *testing.T) {
	for pair, far := range map[[2]string]bool{
		{"3.5.35", "3.6.16"}: false, {"3.6.16", "3.5.0"}: false, {"3.5.0", "3.5.35"}: false,
		{"3.5.35", "3.7.3"}: true, {"3.7.3", "3.5.35"}: true, {"3.5.35", "4.5.0"}: true,
	} {
		if why := TooFar(etcdversion.Must(pair[0]), etcdversion.Must(pair[1])); (why != "") != far {
			t.Errorf("%v: %q", pair, why)
		}
	}
}

func TestWrongBinary(t *testing.T) {
	tests := []struct {
		is, want, seen string
		wrong          bool
	}{
		{"3.5.35", "3.5.21", "3.5.0", false}, // directories lie about patches
		{"3.6.16", "3.6.16", "3.5.0", false},
		{"3.5.35", "3.6.16", "3.6.0", true},
		{"3.4.25", "3.4.25", "3.6.0", true},
		{"3.7.3", "3.6.16", "3.6.0", true},
		{"3.6.16", "3.5.35", "3.6.0", false}, // the data is of it
		{"3.4.25", "3.6.16", "", false},
	}
	for _, tt := range tests {
		var seen etcdversion.Version
		if tt.seen != "" {
			seen = etcdversion.Must(tt.seen)
		}
		if why := WrongBinary(etcdversion.Must(tt.is), etcdversion.Must(tt.want), seen); (why != "") != tt.wrong {
			t.Errorf("%+v: %q", tt, why)
		}
	}
}

func TestJudgeAChange(t *testing.T) {
	under := VersionChange{From: etcdversion.Must("3.5.35"), To: etcdversion.Must("3.6.16")}
	back, stuck := under, under
	back.Back, back.Failed, stuck.Failed = true, "panic", "panic"
	tests := []struct {
		name    string
		change  VersionChange
		attempt Attempt
		verdict Verdict
	}{
		{"it serves", under, Attempt{Process: ProcessRunning, Serves: true}, VerdictDone},
		{"it starts", under, Attempt{Process: ProcessRunning}, VerdictWait},
		{"its time is over", under, Attempt{Process: ProcessRunning, Overdue: true}, VerdictBack},
		{"it has died once", under, Attempt{Process: ProcessCrashing, Restarts: 1}, VerdictWait},
		{"it dies again and again", under, Attempt{Process: ProcessCrashing, Restarts: 2}, VerdictBack},
		{"nothing runs", under, Attempt{Process: ProcessStopped}, VerdictStart},
		{"it has gone back", back, Attempt{Process: ProcessRunning}, VerdictStart},
		{"it cannot go back", stuck, Attempt{Process: ProcessCrashing, Restarts: 9}, VerdictWait},
		{"it could not go back, and serves", stuck, Attempt{Process: ProcessRunning, Serves: true}, VerdictDone},
	}
	for _, tt := range tests {
		if got := tt.change.Judge(tt.attempt); got != tt.verdict {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.verdict)
		}
	}
}

func TestNoWayBack(t *testing.T) {
	v := etcdversion.Must
	up := VersionChange{From: v("3.5.35"), To: v("3.6.16")}
	if why := up.NoWayBack(v("3.6.0"), nil); !strings.Contains(why, "already 3.6") {
		t.Errorf("of a cluster version that has risen it says %q", why)
	}
	for _, seen := range []etcdversion.Version{{}, v("3.5.0")} {
		if why := up.NoWayBack(seen, nil); why != "" {
			t.Errorf("cluster version %s: %s", seen, why)
		}
	}
	down := VersionChange{From: v("3.6.16"), To: v("3.5.35")}
	if why := down.NoWayBack(v("3.6.0"), NoHazards()); why != "" {
		t.Errorf("a later version is not started again: %s", why)
	}
}

// Who goes back to a later minor version goes up: keys of the v2 store that came
// meanwhile would have it die again and again, with the data that a majority needs.
func TestNoWayBackToWhatTheDataDoesNotStand(t *testing.T) {
	v := etcdversion.Must
	with := func(kind HazardKind, state HazardState) []Hazard {
		list := NoHazards()
		for i := range list {
			if list[i].Kind == kind {
				list[i].State = state
			}
		}
		return list
	}
	tests := []struct {
		name     string
		from, to string
		found    []Hazard
		held     bool
	}{
		{"keys of the v2 store", "3.6.16", "3.5.35", with(HazardV2Content, HazardPresent), true},
		{"requests of the v2 store in the log", "3.6.16", "3.5.35", with(HazardV2Log, HazardPresent), true},
		{"members that were removed", "3.6.16", "3.5.21", with(HazardMembers, HazardPresent), true},
		{"unknown, below the floor", "3.6.16", "3.5.21", with(HazardMembers, HazardUnknown), true},
		{"unknown, at the floor", "3.6.16", "3.5.35", with(HazardMembers, HazardUnknown), false},
		{"old entries before 3.7", "3.7.3", "3.6.16", with(HazardOldLog, HazardPresent), true},
		{"old entries before 3.6", "3.6.16", "3.5.35", with(HazardOldLog, HazardPresent), false},
		{"another patch", "3.6.16", "3.6.0", with(HazardV2Content, HazardPresent), false},
		{"back to an earlier minor version", "3.5.35", "3.6.16", with(HazardV2Content, HazardPresent), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := VersionChange{From: v(tt.from), To: v(tt.to)}
			if why := c.NoWayBack(v("3.5.0"), tt.found); (why != "") != tt.held {
				t.Errorf("it says %q", why)
			}
		})
	}
}

func TestBarred(t *testing.T) {
	found := func(kind HazardKind, state HazardState) []Hazard {
		list := NoHazards()
		for i := range list {
			if list[i].Kind == kind {
				list[i].State = state
			}
		}
		return list
	}
	deleted := []Hazard{{Kind: HazardV2Content, State: HazardPresent, Deleted: true}}
	v := etcdversion.Must
	tests := []struct {
		name     string
		found    []Hazard
		from, to string
		accepted []HazardKind
		barred   bool
	}{
		{"nothing", NoHazards(), "3.5.21", "3.6.16", nil, false},
		{"it has not been checked, below the floor", nil, "3.5.21", "3.6.16", nil, true},
		{"it has not been checked, at the floor", nil, "3.5.35", "3.6.16", nil, false},
		{"keys of the v2 store", found(HazardV2Content, HazardPresent), "3.5.35", "3.6.16", nil, true},
		{"accepted", found(HazardV2Content, HazardPresent), "3.5.35", "3.6.16", []HazardKind{HazardV2Content}, false},
		{"another one is accepted", found(HazardV2Content, HazardPresent), "3.5.35", "3.6.16",
			[]HazardKind{HazardMembers}, true},
		{"requests of the v2 store in the log", found(HazardV2Log, HazardPresent), "3.5.35", "3.6.16", nil, true},
		{"and accepted, which helps nothing either", found(HazardV2Log, HazardPresent), "3.5.35", "3.6.16",
			[]HazardKind{HazardV2Log}, true},
		{"before a later patch", found(HazardV2Log, HazardPresent), "3.5.21", "3.5.35", nil, false},
		{"keys that the log deletes", deleted, "3.5.35", "3.6.16", []HazardKind{HazardV2Content}, true},
		{"old entries before 3.7", found(HazardOldLog, HazardPresent), "3.6.16", "3.7.3", nil, true},
		{"and accepted, which helps nothing", found(HazardOldLog, HazardPresent), "3.6.16", "3.7.3",
			[]HazardKind{HazardOldLog}, true},
	}
	for _, tt := range tests {
		if held := Barred(tt.found, v(tt.from), v(tt.to), tt.accepted); (len(held) > 0) != tt.barred {
			t.Errorf("%s: %v", tt.name, held)
		}
	}
}
