package operate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// Of what etcd said, the reason of its end counts, and not what comes after it.
func TestTheLineThatSaysMost(t *testing.T) {
	const (
		info  = `{"level":"info","msg":"closing"}`
		fatal = `{"level":"fatal","msg":"the reason"}`
		newer = `{"level":"fatal","msg":"the newer reason"}`
		wrong = `{"level":"error","msg":"a server stopped"}`
	)
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"nothing":       {nil, ""},
		"nothing bad":   {[]string{"first", info}, "; from its log: closing"},
		"a fatal error": {[]string{fatal, info, wrong}, "; from its log: the reason"},
		"a panic in plain text": {
			[]string{info, "panic: the reason", "goroutine 1:", wrong}, "; from its log: panic: the reason",
		},
		"a panic by the logger": {
			[]string{`{"level":"panic","msg":"x"}`, "panic: x"}, "; from its log: x",
		},
		"the last of several":          {[]string{fatal, wrong, newer, info}, "; from its log: the newer reason"},
		"an earlier one that is worse": {[]string{fatal, wrong}, "; from its log: the reason"},
	} {
		if got := last(c.lines); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The log of a supervised etcd says more than the few lines of its supervisor.
func TestTheEndOfALog(t *testing.T) {
	reported := []string{"reported"}
	long := strings.Repeat("0123456789\n", 10<<10)
	for name, c := range map[string]struct {
		kind      machine.InitSystem
		log, want string
	}{
		"another init system":      {machine.Systemd, "x\n", "reported"},
		"no log":                   {machine.Process, "", "reported"},
		"a log":                    {machine.Process, "a\nb\n", "a|b"},
		"what its supervisor says": {machine.Process, "a\n2026-01-02T03:04:05Z etcdadm: etcd ended\n", "a"},
		"the supervisor alone":     {machine.Process, "2026-01-02T03:04:05Z etcdadm: etcd ended\n", "reported"},
		"blank lines alone":        {machine.Process, "\n\n", "reported"},
		"a long one":               {machine.Process, long + "the end\n", "...0123456789|the end"},
	} {
		t.Run(name, func(t *testing.T) {
			m := dataMachine(t)
			m.cfg.Service.InitSystem = c.kind
			if c.log != "" {
				path := m.cfg.Paths.ProcessLog()
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(c.log), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := strings.Join(m.tail(reported), "|")
			if end, long := strings.CutPrefix(c.want, "..."); got != c.want && !(long && strings.HasSuffix(got, end)) {
				t.Errorf("%q, want %q", got, c.want)
			}
			if len(got) > 64<<10 {
				t.Errorf("%d bytes", len(got))
			}
		})
	}
}

// Members that answer decide which cluster it is; of two clusters none is used.
func TestWhatMembersSayOfTheirCluster(t *testing.T) {
	down := errors.New("down")
	type said struct {
		id      cluster.ClusterID
		version string
		err     error
	}
	for name, c := range map[string]struct {
		said            []said
		answered        bool
		problem         string
		lowest, highest string
	}{
		"one":             {[]said{{1, "3.5.21", nil}}, true, "", "3.5.21", "3.5.21"},
		"one is down":     {[]said{{1, "3.5.21", nil}, {0, "", down}}, true, "", "3.5.21", "3.5.21"},
		"two versions":    {[]said{{1, "3.6.1", nil}, {1, "3.5.21", nil}, {1, "3.5.9", nil}}, true, "", "3.5.9", "3.6.1"},
		"none is known":   {[]said{{1, "", nil}}, true, "", "", ""},
		"two clusters":    {[]said{{1, "3.5.21", nil}, {2, "3.5.21", nil}}, false, "different clusters", "3.5.21", "3.5.21"},
		"all are down":    {[]said{{0, "", down}, {0, "", down}}, false, "https://a:2379, https://b:2379", "", ""},
		"nobody is asked": {nil, false, "cannot be reached", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := answers{ids: map[cluster.ClusterID]bool{}, unanswered: map[string]bool{}}
			for i, s := range c.said {
				var v etcdversion.Version
				if s.version != "" {
					v = etcdversion.Must(s.version)
				}
				url := string(rune('a' + i))
				a.note(url, cluster.Report{ClusterID: s.id, Version: v}, s.err)
				if a.unanswered[url] != (s.err != nil) {
					t.Errorf("unanswered: %v", a.unanswered)
				}
			}
			r := machine.Remote{Answered: true, Members: []cluster.Member{
				{ClientURLs: []string{"https://a:2379"}}, {ClientURLs: []string{"https://b:2379"}},
			}}
			a.report(&r)
			if r.Answered != c.answered || !strings.Contains(r.Problem, c.problem) || (r.Problem == "") != (c.problem == "") {
				t.Errorf("answered %t, problem %q", r.Answered, r.Problem)
			}
			for _, v := range []struct {
				got  etcdversion.Version
				want string
			}{{r.Lowest, c.lowest}, {r.Highest, c.highest}} {
				if v.got.IsZero() != (v.want == "") || v.want != "" && v.got.String() != v.want {
					t.Errorf("version %q, want %q", v.got, v.want)
				}
			}
		})
	}
}

// A member that leaves says how many voters it leaves behind.
func TestVotersThatAreLeft(t *testing.T) {
	obs := machine.Observation{Remote: machine.Remote{Members: []cluster.Member{
		{ID: 1}, {ID: 2}, {ID: 3, Learner: true}, {ID: 4},
	}}}
	for id, want := range map[cluster.MemberID]int{1: 2, 3: 3, 9: 3} {
		if got := votersWithout(obs, id); got != want {
			t.Errorf("without %s: %d, want %d", id, got, want)
		}
	}
}

// Files that are gone already are removed, and others of the directory stay.
func TestRemovingFiles(t *testing.T) {
	m := dataMachine(t)
	dir := t.TempDir()
	lay(t, dir, "a.env")
	lay(t, dir, "other")
	if err := m.removeFiles(t.Context(), []string{dir + "/a.env", dir + "/etcd.service"}); err != nil {
		t.Error(err)
	}
	if exists(dir+"/a.env") || !exists(dir+"/other") {
		t.Error("not what was named is gone")
	}
	lay(t, dir, "full/x")
	if err := m.removeFiles(t.Context(), []string{dir + "/full"}); err == nil {
		t.Error("a directory with something in it is gone")
	}
}
