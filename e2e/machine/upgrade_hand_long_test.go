//go:build e2e

package machine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The lines that upgrade plan prints, each run by a shell on the machine that it is for,
// end with all members on the version: up, and down again.
func TestPrintedLinesOfAnUpgradeByHand(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v35) }, 3)
	found(hosts...)
	w := startWriter(hosts...)
	w.more(30)
	var forced []string
	for _, to := range []string{v37, v35} {
		// The lead is with a, which comes last of the first version on the way.
		hosts[0].lead()
		var out string
		eventually(t, commandTime, "a cluster version that has risen", func() error {
			r := hosts[1].run("upgrade", "plan", "--to="+to)
			if out = r.stdout; r.code != 0 {
				return fmt.Errorf("%s", r)
			}
			return nil
		})
		t.Log(out)
		joins := map[*host]int{}
		for _, l := range plannedLines(t, out, hosts) {
			for _, v := range versions {
				if strings.Contains(l.text, "--version="+v) {
					l.on.binaries = etcdDir(t, v)
				}
			}
			r := l.on.shell(l.text)
			if r.code != 0 {
				t.Fatalf("%s: %s", l.on.name, r)
			}
			w.more(10)
			if !strings.HasPrefix(l.text, "etcdadm join") {
				continue
			}
			if joins[l.on]++; l.on == hosts[0] && joins[l.on] == 1 && (len(joins) < 3 ||
				!strings.Contains(r.stderr, "member move-leader")) {
				t.Errorf("the leader does not come last, or leads on: %s", r)
			}
			if strings.Contains(r.stderr, "take a raft snapshot") {
				forced = append(forced, l.text)
			}
		}
		// The entries of one make the others take theirs.
		others := slices.DeleteFunc(slices.Clone(forced), func(line string) bool { return strings.Contains(line, v37) })
		if len(forced) == 0 || len(others) > 0 {
			t.Errorf("a raft snapshot is forced by %q", forced)
		}
		for _, h := range hosts {
			if h.version = to; h.serves() != to {
				t.Errorf("%s runs etcd %s", h.name, h.serves())
			}
		}
		if out := hosts[2].ok("upgrade", "plan", "--to="+to); !strings.Contains(out, "# all members run etcd "+to) {
			t.Errorf("there is more to do: %s", out)
		}
	}
	hosts[0].wantVoters("a", "b", "c")
	w.finish(hosts...)
}

// A plannedLine is a line of a plan, with its machine.
type plannedLine struct {
	on   *host
	text string
}

// plannedLines reads a printed plan as a person does.
func plannedLines(t *testing.T, out string, hosts []*host) (lines []plannedLine) {
	t.Helper()
	var on *host
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		for _, h := range hosts {
			if line == "# on "+h.name+" ("+h.clientURL()+")" {
				on = h
			}
		}
		if line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, plannedLine{on, line})
		}
	}
	return lines
}

// For programs there are the same lines; and what leads nowhere is said.
func TestUpgradePlanByHandForPrograms(t *testing.T) {
	t.Parallel()
	h := newHost(t, "a", v37)
	h.fails(2, []string{"the location of the cluster is missing"}, "upgrade", "plan", "--to="+v37)
	h.ok("init")
	var p struct {
		Kind       string
		Versions   []string
		Operations []string
		Members    []struct{ Name, Version string }
		Steps      []struct{ On, URL, Line string }
	}
	if err := json.Unmarshal([]byte(h.ok("upgrade", "plan", "--to="+v35, "-o", "json")), &p); err != nil {
		t.Fatal(err)
	}
	if p.Kind != "UpgradePlan" || len(p.Members) != 1 || strings.Join(p.Versions, " ") != v36+" "+v35 ||
		len(p.Operations) != 4 || len(p.Steps) != 4 || p.Steps[0].On != "a" || p.Steps[3].Line !=
		"etcdadm join --version="+v35+" "+h.clientURL() {
		t.Errorf("%+v", p)
	}
	for _, l := range p.Steps {
		if h.binaries = etcdDir(t, v36); strings.Contains(l.Line, v35) {
			h.binaries = etcdDir(t, v35)
		}
		if r := h.shell(l.Line); r.code != 0 {
			t.Fatalf("%s", r)
		}
	}
	if h.version = v35; h.serves() != v35 {
		t.Errorf("etcd %s runs", h.serves())
	}
	h.fails(3, []string{"hold version-differs: etcd 3.4.25 cannot be reached"}, "upgrade", "plan", "--to=3.4.25")
	h.fails(2, []string{"--to=3.6.16"}, "upgrade", "plan")
	h.fails(3, []string{"what etcd 9.9.9 does not tolerate is unknown"}, "upgrade", "plan", "--to=9.9.9")
}

// A change of the version that is killed before and after its steps, with what else may be
// killed then, is ended by the same line.
func TestKilledInAChangeOfTheVersion(t *testing.T) {
	t.Parallel()
	for _, f := range fates {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			hosts := newHosts(func(name string) *host { return newHost(t, name, v35) }, 2)
			a, b := hosts[0], hosts[1]
			found(a, b)
			b.put("kept", "x")
			b.lead()
			b.program = crashing(t)
			for _, h := range hosts {
				h.version, h.binaries = v36, etcdDir(t, v36)
			}
			s := scene{h: b, args: []string{"join", "--version=" + v36, a.clientURL()}, check: func() {
				a.wantVoters("a", "b")
				wantKeys(map[string]string{"kept": "x"}, a, b)
				if got := b.serves(); got != v36 {
					t.Errorf("b runs etcd %s", got)
				}
			}}
			for _, phase := range []string{"install", "start", "start", "health"} {
				for _, place := range []string{".before", ".after"} {
					s.crash("join." + phase + place)
					f.what(b)
				}
			}
			s.end()
			a.ok("join", "--version="+v36, b.clientURL())
			wantKeys(map[string]string{"kept": "x"}, a, b)
		})
	}
}
