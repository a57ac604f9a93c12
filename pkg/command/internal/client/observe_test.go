package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
)

// toolFor returns a tool whose flags are set.
func toolFor(t *testing.T, flags ...string) (*tool, *bytes.Buffer) {
	t.Helper()
	var stderr bytes.Buffer
	cmd := &cobra.Command{Use: "x"}
	cmd.SetErr(&stderr)
	tool := newTool(cmd)
	if err := cmd.ParseFlags(append([]string{"--environment-dir=" + t.TempDir()}, flags...)); err != nil {
		t.Fatal(err)
	}
	return tool, &stderr
}

// A testNode is a member of a view: its name, and words for what it is.
func testNode(id cluster.MemberID, name string, words ...string) member {
	m := member{
		Member:   cluster.Member{ID: id, Name: cluster.NodeName(name), ClientURLs: []string{"http://" + name}},
		endpoint: "http://" + name, report: cluster.Report{ID: id, Leader: 1, Applied: 100, RaftTerm: 2},
	}
	for _, w := range words {
		switch w {
		case "learner":
			m.Learner = true
		case "down":
			m.endpoint, m.report, m.err = "", cluster.Report{}, fmt.Errorf("%s does not answer", name)
		case "leaderless":
			m.report.Leader = 0
		case "corrupt":
			m.report.Alarms = []string{etcdclient.Corrupt}
		case "full":
			m.report.Alarms = []string{etcdclient.NoSpace}
		case "stuck":
			m.report.Read = cluster.ReadLate
		case "believes":
			m.report.Leader, m.report.RaftTerm = id, 1
		case "term before":
			m.report.RaftTerm = 1
		case "ahead":
			m.report.Applied = 101
		}
	}
	return m
}

func TestWhoIsHealthy(t *testing.T) {
	for word, want := range map[string]string{
		"":            "<nil>",
		"full":        "<nil>",
		"learner":     "<nil>",
		"down":        "a does not answer",
		"leaderless":  "a: it sees no leader",
		"corrupt":     "a: its data differs from that of the others: etcd has raised the alarm CORRUPT",
		"stuck":       "a: it answers, but serves no linearizable read",
		"believes":    "a: it follows 2, the others 1",
		"term before": "a: it has applied nothing of term 2 yet, as others have",
	} {
		m := testNode(2, "a", word)
		v := view{leader: 1, members: []member{testNode(1, "l"), m, testNode(3, "c")}}
		if got := fmt.Sprint(v.unhealthy(m)); got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
}

func TestVotersAreCounted(t *testing.T) {
	v := view{leader: 1, members: []member{
		testNode(1, "a"), testNode(2, "b", "down"), testNode(3, "c", "full"), testNode(4, "d", "learner"),
		testNode(5, "e", "corrupt"), testNode(6, "f"),
	}}
	for other, want := range map[cluster.MemberID]int{0: 3, 1: 2, 2: 3, 4: 3} {
		if all, healthy := v.voters(other); all != 5 || healthy != want {
			t.Errorf("without %d: %d of %d, want %d of 5", other, healthy, all, want)
		}
	}
}

func TestTheSuccessor(t *testing.T) {
	for name, tc := range map[string]struct {
		members []member
		word    string
		want    string
	}{
		"the nearest":         {[]member{testNode(1, "a"), testNode(2, "b"), testNode(3, "c", "ahead")}, "", "c"},
		"the first of equals": {[]member{testNode(1, "a"), testNode(2, "b"), testNode(3, "c")}, "", "b"},
		"no learner": {
			[]member{testNode(1, "a"), testNode(2, "b", "learner", "ahead"), testNode(3, "c")}, "", "c",
		},
		"nobody who is ill": {
			[]member{testNode(1, "a"), testNode(2, "b", "down"), testNode(3, "c", "corrupt", "ahead"), testNode(4, "d")},
			"", "d",
		},
		"one that is full": {[]member{testNode(1, "a"), testNode(2, "b", "full")}, "", "b"},
		"nobody": {
			[]member{testNode(1, "a"), testNode(2, "b", "down")}, "", "there is no other healthy voter",
		},
		"by name":             {[]member{testNode(1, "a"), testNode(2, "b"), testNode(3, "c")}, "c", "c"},
		"by id":               {[]member{testNode(1, "a"), testNode(0xb0b, "b"), testNode(3, "c")}, "b0b", "b"},
		"the name goes first": {[]member{testNode(1, "a"), testNode(2, "3"), testNode(4, "c")}, "3", "3"},
		"itself":              {[]member{testNode(1, "a")}, "a", "a"},
		"a learner by name":   {[]member{testNode(1, "a"), testNode(2, "b", "learner")}, "b", "b is a learner"},
		"one that is down":    {[]member{testNode(1, "a"), testNode(2, "b", "down")}, "b", "b does not answer"},
		"one that is cut off": {[]member{testNode(1, "a"), testNode(2, "b", "leaderless")}, "b", "b: it sees no leader"},
		"one whose disk hangs": {
			[]member{testNode(1, "a"), testNode(2, "b", "stuck"), testNode(3, "c")}, "b",
			"b: it answers, but serves no linearizable read",
		},
		"nobody whose disk hangs": {
			[]member{testNode(1, "a"), testNode(2, "b", "stuck", "ahead"), testNode(3, "c")}, "", "c",
		},
		"nobody who follows another leader": {
			[]member{testNode(1, "a"), testNode(2, "b", "believes", "ahead"), testNode(3, "c")}, "", "c",
		},
		"whose reads wait for the leader": {
			[]member{testNode(1, "a", "stuck"), testNode(2, "b", "stuck"), testNode(3, "c", "stuck", "ahead")}, "", "c",
		},
		"one that is not there": {[]member{testNode(1, "a")}, "z", `there is no member "z"`},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := view{leader: 1, members: tc.members}.successor(tc.word)
			got := string(m.Name)
			if err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, tc.want) {
				t.Errorf("it is %s, want %s", got, tc.want)
			}
		})
	}
	var lost *quorumError
	if _, err := (view{members: []member{testNode(1, "a")}}).successor(""); !errors.As(err, &lost) ||
		lost.Kind() != "quorum-lost" {
		t.Errorf("without a leader: %v", err)
	}
}

func TestTheLeaderComesLast(t *testing.T) {
	list := []member{testNode(1, "a"), testNode(2, "b"), testNode(3, "c")}
	view{leader: 1}.leaderLast(list)
	if got := fmt.Sprint(list[0], list[1], list[2]); got != "bca" && got != "b c a" {
		t.Errorf("the order is %s", got)
	}
}

func TestWhenAMemberMayBeBusy(t *testing.T) {
	five := []member{testNode(1, "a"), testNode(2, "b"), testNode(3, "c"), testNode(4, "d"), testNode(5, "e", "down")}
	for name, tc := range map[string]struct {
		members []member
		force   bool
		want    string // of the error's type and text
		warning string
	}{
		"all are well":        {five[:3], false, "<nil>", ""},
		"one alone":           {five[:1], false, "<nil>", "1 voting member(s)"},
		"two":                 {five[:2], false, "<nil>", "2 voting member(s)"},
		"one of five is down": {five, false, "*cli.RefusedError a member is unhealthy: e does not answer", ""},
		"one of three is down": {
			[]member{five[0], five[1], five[4]}, false,
			"*client.quorumError a member is unhealthy: e does not answer; without a only 1 of 3", "",
		},
		"the disk of one of three hangs": {
			[]member{five[0], five[1], testNode(3, "c", "stuck")}, false,
			"*client.quorumError a member is unhealthy: c: it answers, but serves no linearizable read; without a only 1 of 3",
			"",
		},
		"one is down, by force": {[]member{five[0], five[1], five[4]}, true, "<nil>", ""},
		"itself, by force":      {[]member{five[4], five[1], five[2]}, true, "*cli.RefusedError e does not answer", ""},
		"a learner is down": {
			[]member{five[0], five[1], five[2], testNode(9, "l", "learner", "down")}, false,
			"*cli.RefusedError a member is unhealthy: l", "",
		},
		"a learner": {
			[]member{testNode(9, "l", "learner"), five[0]}, true, "*cli.RefusedError l is a learner", "",
		},
		"another is full":   {[]member{five[0], five[1], testNode(9, "l", "full")}, false, "<nil>", ""},
		"it is full itself": {[]member{testNode(9, "l", "full"), five[0], five[1]}, false, "<nil>", ""},
		"a member has not begun": {
			[]member{five[0], five[1], five[2], {
				Member: cluster.Member{ID: 7, Learner: true}, err: errors.New("7 has not started yet"),
			}}, false, "*cli.RefusedError a member is unhealthy: 7", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tool, stderr := toolFor(t)
			err := (&defrag{tool: tool, force: tc.force}).safe(view{leader: 1, members: tc.members}, tc.members[0])
			got := "<nil>"
			if err != nil {
				got = fmt.Sprintf("%T %v", err, err)
			}
			if !strings.HasPrefix(got, tc.want) {
				t.Errorf("it is %s, want %s", got, tc.want)
			}
			if !strings.Contains(stderr.String(), tc.warning) || tc.warning == "" && stderr.Len() > 0 {
				t.Errorf("the warning is %q, want %q", stderr.String(), tc.warning)
			}
		})
	}
}

// What answers at a member's URL need not be the member.
func TestStrangersAreNotTakenForMembers(t *testing.T) {
	t.Parallel()
	w := newTestCluster(t, "3.6.16", 1, "")
	other := newTestCluster(t, "3.6.16", 1, "")
	tool, _ := toolFor(t, w.flags()...)
	_, id := w.leader(t)
	down := "http://" + testport.Address(t)
	m := ask(t.Context(), tool.access, cluster.Member{
		ID: cluster.MemberID(id), Name: "a", ClientURLs: []string{other.members[0].ClientURL, down},
	})
	if err := (view{}).unhealthy(m); err == nil || !strings.Contains(err.Error(), "another member answers") ||
		!strings.Contains(err.Error(), "nothing listens there") {
		t.Errorf("it is healthy: %v", err)
	}
	m = ask(t.Context(), tool.access, cluster.Member{
		ID: cluster.MemberID(id), Name: "a", ClientURLs: []string{other.members[0].ClientURL, down, w.members[0].ClientURL},
	})
	if err := (view{}).unhealthy(m); err != nil || m.endpoint != w.members[0].ClientURL {
		t.Errorf("at %s: %v", m.endpoint, err)
	}
	// An endpoint of another cluster is not defragmented.
	fails(t, 2, "is not of this cluster",
		append([]string{"defrag"}, w.flagsFor(w.members[0].ClientURL, other.members[0].ClientURL)...)...)
}

// Members that hold different data at one revision are distinguished.
func TestDifferentDataIsSeen(t *testing.T) {
	t.Parallel()
	w, other := newTestCluster(t, "3.6.16", 1, ""), newTestCluster(t, "3.6.16", 1, "")
	for i, testCluster := range []*testCluster{w, other} {
		if _, err := testCluster.api(t).Put(t.Context(), "k", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	tool, _ := toolFor(t, w.flags()...)
	d := &disarm{tool: tool}
	observe := func(c *testCluster, name string) member {
		_, id := c.leader(t)
		return ask(t.Context(), tool.access, cluster.Member{
			ID: cluster.MemberID(id), Name: cluster.NodeName(name), ClientURLs: []string{c.members[0].ClientURL},
		})
	}
	a, b := observe(w, "a"), observe(other, "b")
	if err := d.equal(t.Context(), view{members: []member{a, a}}); err != nil {
		t.Errorf("a differs from itself: %v", err)
	}
	if err := d.equal(t.Context(), view{members: []member{a, b}}); err == nil ||
		!strings.Contains(err.Error(), "a and b hold different data at revision 3") {
		t.Errorf("the error is %v", err)
	}
	if err := d.equal(t.Context(), view{members: []member{a, testNode(9, "c", "down")}}); err == nil ||
		!strings.Contains(err.Error(), "hold the same data: c does not answer") {
		t.Errorf("the error is %v", err)
	}
	for _, tc := range []struct {
		alarm raised
		want  string
	}{
		{raised{Alarm: etcdclient.Alarm{Member: 9, Kind: etcdclient.NoSpace}}, "c does not answer"},
		{raised{Alarm: etcdclient.Alarm{Member: a.ID, Kind: "FIRE"}}, "FIRE is not an alarm that etcdadm knows"},
	} {
		if err := d.gone(t.Context(), view{members: []member{a, testNode(9, "c", "down")}}, tc.alarm); err == nil ||
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("the error is %v, want %s", err, tc.want)
		}
	}
	ended, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if _, err := d.hash(ended, a, 1); err == nil || !strings.Contains(fmt.Sprint(err), "deadline") {
		t.Errorf("the error is %v", err)
	}
}

func TestWaitingEnds(t *testing.T) {
	t.Parallel()
	w := newTestCluster(t, "3.6.16", 1, "")
	tool, _ := toolFor(t, append(w.flags(), "--timeout=10s")...)
	m := member{Member: cluster.Member{Name: "a"}, endpoint: w.members[0].ClientURL}
	asked := 0
	err := tool.wait(t.Context(), m, func(cluster.Report) error {
		asked++
		return errors.New("it never is")
	})
	if err == nil || err.Error() != "waited 10s for a: it never is" || asked < 2 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = tool.wait(ctx, m, func(cluster.Report) error {
		cancel()
		return errors.New("not yet")
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if _, err := tool.led(t.Context(), member{
		Member: cluster.Member{Name: "b", ID: 4711}, endpoint: w.members[0].ClientURL,
	}); err == nil || !strings.Contains(err.Error(), "a says that") && !strings.Contains(err.Error(), "b says that") {
		t.Errorf("the error is %v", err)
	}
}

func TestStoresThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	w := newTestCluster(t, "3.6.16", 1, "")
	if r := run(t, w.with("snapshot", "save", "x://bucket")...); r.code != 2 ||
		!strings.Contains(r.stderr, "no driver for x://") {
		t.Errorf("%+v", r)
	}
	file := filepath.Join(t.TempDir(), "s.db")
	ok(t, w.with("snapshot", "save", file)...)
	fails(t, 6, "s.db: file exists", w.with("snapshot", "save", "file://"+file)...)
	fails(t, 1, "is a directory", w.with("snapshot", "save", filepath.Dir(file), "--force")...)
	fails(t, 1, "no such file", w.with("snapshot", "save", filepath.Join(file+"x", "s.db"))...)
	fails(t, 1, "no such file", "snapshot", "status", file+"x")
}
