//go:build crashpoints

package apply

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// A crash is a scenario of one operation: how the node comes to it, where it may
// be killed, and what must hold when the same operation has been given again.
type crash struct {
	op     plan.Operation
	before func(h *host)
	points []string
	// beside waits for what goes on after the operation has returned.
	beside func(h *host)
	// booted is checked when the daemon is back, before the operation is given
	// again.
	booted func(t *testing.T, h *host, point string)
	// again gives the operation again; nil means that it must simply succeed.
	again func(h *host)
	done  func(s *host) bool
}

func isBootstrapped(h *host) {
	h.must(prepare(), start(plan.StartNew))
	h.hasData()
}

func isStaged(h *host) {
	isBootstrapped(h)
	h.must(stageOp())
	h.ready()
}

func isStopped(h *host) {
	isBootstrapped(h)
	h.must(stop())
}

// stopped makes sure that nothing was started by itself.
func stopped(t *testing.T, h *host, _ string) {
	if h.pid() != 0 {
		t.Error("something was started by itself")
	}
}

func running(h *host) bool {
	return h.observe().Process.State == cluster.ProcessRunning && !h.disk().Assigned.Stopped
}

var crashes = map[string]crash{
	"prepare": {
		op: prepare(), points: []string{"member-prepare.before", "member-prepare.before-promise", "member-prepare.after"},
		booted: stopped,
		done:   func(h *host) bool { p := h.disk().Prepared; return p != nil && p.Token == "t1" },
	},
	"start new": {
		op: start(plan.StartNew), points: []string{
			"member-start.before-assign", "member-start.before-spawn", "member-start.after-spawn",
		},
		before: func(h *host) { h.must(prepare()) },
		booted: func(t *testing.T, h *host, point string) {
			if point != "member-start.after-spawn" {
				stopped(t, h, point) // nothing has run, so there is no data
			}
		},
		done: func(h *host) bool { h.hasData(); return running(h) && h.disk().Prepared == nil },
	},
	"start join": {
		op: start(plan.StartJoin), points: []string{
			"member-start.before-assign", "member-start.before-spawn", "member-start.after-spawn",
		},
		// An assignment without data cannot be distinguished from lost data: it is cleared,
		// and the member, which has no vote yet, joins again.
		again: func(h *host) {
			err := h.do(start(plan.StartJoin))
			if errors.Is(err, ErrPrecondition) && strings.Contains(err.Error(), "lost its data") {
				h.must(setAside(), start(plan.StartJoin))
			} else if err != nil {
				h.t.Error(err)
			}
		},
		done: func(h *host) bool { h.hasData(); return running(h) },
	},
	"start restart": {
		op: start(plan.StartRestart), points: []string{
			"member-start.before-assign", "member-start.before-spawn", "member-start.after-spawn",
		},
		before: isStopped, done: running,
	},
	"stop": {
		op: stop(), points: []string{"member-stop.before", "member-stop.before-signal", "member-stop.after"},
		before: isBootstrapped,
		booted: func(t *testing.T, h *host, point string) {
			if point != "member-stop.before" {
				stopped(t, h, point)
			}
		},
		done: func(h *host) bool { return h.pid() == 0 && h.disk().Assigned.Stopped },
	},
	"set aside": {
		op: setAside(), points: []string{"data-set-aside.before", "data-set-aside.before-clear", "data-set-aside.after"},
		before: isStopped, booted: stopped,
		done: func(h *host) bool {
			n := h.observe()
			return n.Disk.State == cluster.DiskEmpty && n.Assigned == nil && len(n.SetAside) == 1
		},
	},
	"quarantine": {
		op: &plan.QuarantineSet{Node: "a"}, points: []string{"quarantine.before-restart", "quarantine.before-record"},
		before: isBootstrapped,
		done: func(h *host) bool {
			return running(h) && h.disk().Assigned.Quarantined && strings.HasSuffix(h.env("ETCD_LISTEN_CLIENT_URLS"), ":3")
		},
	},
	"stage": {
		op: stageOp(), points: []string{
			"restore-stage.before", "restore-stage.after", "restore-stage.before-restore", "restore-stage.before-ready",
		},
		before: isBootstrapped, beside: (*host).ready,
		done: func(h *host) bool { h.ready(); return running(h) && h.disk().Assigned.Token == "t1" },
	},
	"switch": {
		op: switchOp(), points: []string{
			"restore-switch.before", "restore-switch.before-signal", "restore-switch.before-aside", "restore-switch.after-aside",
			"restore-switch.before-lease voters", "restore-switch.before-promise", "restore-switch.after",
		},
		before: isStaged,
		booted: func(t *testing.T, h *host, point string) {
			if point != "restore-switch.before" {
				stopped(t, h, point)
			}
		},
		done: func(h *host) bool {
			n := h.observe()
			return n.Disk.State == cluster.DiskEmpty && n.Assigned == nil && n.Staged == nil && len(n.SetAside) == 1 &&
				n.Prepared != nil && n.Prepared.Token == "t2" && h.pid() == 0
		},
	},
	"start restored": {
		op: startRestored(), points: []string{"member-start.before-adopt"},
		before: func(h *host) { isStaged(h); h.must(switchOp()) },
		done: func(h *host) bool {
			n := h.observe()
			return running(h) && n.Assigned.Quarantined && n.Disk.Token == "t2" && n.Prepared == nil
		},
	},
	"discard": {
		op: &plan.RestoreDiscard{Node: "a", Token: "t2"}, points: []string{
			"restore-discard.before", "restore-discard.after-record",
		},
		before: isStaged,
		done: func(h *host) bool {
			has, err := nodestate.Staged(h.o.DataDir, "t2")
			return running(h) && h.observe().Staged == nil && !has && err == nil
		},
	},
	"backup": {
		op: takeBackup, points: []string{"backup-take.before", "backup-take.after"},
		before: isBootstrapped, done: running,
	},
}

// inChild says, in the environment of a child, which scenario it shall die in.
const inChild, childDir = "APPLY_TEST_CRASH", "APPLY_TEST_DIR"

func crashHost(t *testing.T, dir string) *host {
	return newHost(t, func(o *LocalOptions) { o.DataDir, o.Backups, o.Restorer = dir, &backupTaker{}, &restorer{} })
}

// killedAt runs this test's child until its crash point.
func killedAt(t *testing.T, test, scenario, point, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), inChild+"="+scenario, childDir+"="+dir, crashpoint.Variable+"="+point,
		"TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL || ctx.Err() != nil {
		t.Fatalf("the child did not come to %s: %v\n%s", point, err, out)
	}
}

func TestCrashAndTheSameAgain(t *testing.T) {
	if scenario := os.Getenv(inChild); scenario != "" {
		h := crashHost(t, os.Getenv(childDir))
		if err := h.Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.must(crashes[scenario].op)
		if crashes[scenario].beside != nil {
			crashes[scenario].beside(h)
		}
		return
	}
	for name, c := range crashes {
		for _, point := range c.points {
			t.Run(name+"/"+point, func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "data")
				h := crashHost(t, dir)
				if c.before != nil {
					c.before(h)
				}
				h.close()
				killedAt(t, "TestCrashAndTheSameAgain", name, point, dir)
				h.start()
				if err := h.Boot(t.Context()); err != nil {
					t.Fatal(err)
				}
				if c.booted != nil {
					c.booted(t, h, point)
				}
				if c.again != nil {
					c.again(h)
				} else {
					h.must(c.op, c.op)
				}
				if !c.done(h) {
					t.Errorf("the operation's end is not reached: %+v, %+v", h.disk(), h.observe())
				}
			})
		}
	}
}

// crashEffects are the effects of the coordinator on the store, by the
// beginning of their crash points.
var crashEffects = map[string]plan.Operation{
	"incarnation-create": &plan.IncarnationCreate{Number: 1, Token: "t1", Version: writes, Voters: initialMembers("a")},
	"incarnation-mark":   mark,
	"spec-write":         &plan.SpecWrite{MemberCount: 3, EtcdVersion: etcdversion.Must("3.6.16")},
	"backup-prune":       &plan.BackupPrune{Remove: []string{"old"}},
}

func crashEffect(ctx context.Context, dir string, op plan.Operation) error {
	s, err := store.Open(ctx, dir)
	if err != nil {
		return err
	}
	st := newStage()
	st.obs.Store.SpecMissing = true
	if err := s.Put(ctx, "new/"+retention.MarkerFile, []byte("{}")); err != nil { // it is to stay
		return err
	}
	c := st.coordinator()
	c.Records = s
	return errors.Join(c.Do(ctx, cluster.Spec{}, st.obs, op), s.Close(ctx))
}

func TestCrashOfAnEffectOnTheStore(t *testing.T) {
	if scenario := os.Getenv(inChild); scenario != "" {
		if err := crashEffect(t.Context(), os.Getenv(childDir), crashEffects[scenario]); err != nil {
			t.Fatal(err)
		}
		return
	}
	for name, op := range crashEffects {
		for _, place := range []string{".before", ".after"} {
			t.Run(name+place, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				killedAt(t, "TestCrashOfAnEffectOnTheStore", name, name+place, dir)
				for range 2 {
					if err := crashEffect(t.Context(), dir, op); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

// TestCrashPointsAreAllPassed compares the points of the source with those of
// the scenarios.
func TestCrashPointsAreAllPassed(t *testing.T) {
	source, reported := map[string]bool{}, map[string]bool{}
	for _, name := range []string{"local.go", "data.go", "start.go", "backups.go", "restore.go"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`crashpoint\.Hit\("([^"]+)"\)`).FindAllSubmatch(b, -1) {
			source[string(m[1])] = true
		}
	}
	for _, c := range crashes {
		for _, p := range c.points {
			reported[p] = true
		}
	}
	if !maps.Equal(source, reported) || len(source) == 0 {
		t.Errorf("the source has %v, the scenarios %v", slices.Sorted(maps.Keys(source)), slices.Sorted(maps.Keys(reported)))
	}
}
