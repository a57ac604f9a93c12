//go:build crashpoints

package handover

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
)

// The test binary, started again with these variables, hands a machine over.
const hostVariable, directionVariable = "HANDOVER_TEST_HOST", "HANDOVER_TEST_DIRECTION"

func TestMain(m *testing.M) {
	if root := os.Getenv(hostVariable); root != "" {
		h := hostAt(&testing.T{}, filepath.Dir(root), filepath.Base(root))
		if _, err := Run(context.Background(), h.o, machine.Action(os.Getenv(directionVariable))); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// crash hands h over and is killed at a point. It reports whether it came there.
func crash(h *host, d machine.Action, point string) bool {
	h.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashpoint.Variable+"="+point, hostVariable+"="+h.root, directionVariable+"="+string(d))
	out, err := cmd.CombinedOutput()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case status.Signaled() && status.Signal() == syscall.SIGKILL:
		return true
	case err != nil:
		h.t.Fatalf("%s at %s: %v: %s", d, point, err, out)
	}
	return false
}

// points are all there are, with the times that each is passed. A directory is
// renamed, a file removed, a pair of keys written in between.
func points(steps ...string) []string {
	var list []string
	for _, s := range steps {
		list = append(list, "handover."+s+".before", "handover."+s+".after")
	}
	return list
}

// Killed at any point, and then at any other one, the machine is handed over in
// the end, and at no time can both sides run the member.
func TestCrashThereAndBack(t *testing.T) {
	ways := map[machine.Action][]string{
		machine.ToManager: append(points("certificates", "record", "journal", "stop", "files", "move", "assign", "done"),
			"handover.certificates.between:1", "handover.certificates.between:2", "handover.files.between:1"),
		machine.FromManager: points("certificates", "journal", "unassign", "move", "start", "done"),
	}
	for d, points := range ways {
		for i, point := range points {
			t.Run(string(d)+" "+point, func(t *testing.T) {
				t.Parallel()
				h := newCluster(t, "a", "b", "c")[0]
				if d == machine.FromManager {
					h.ok(machine.ToManager)
					h.must(os.RemoveAll(h.cfg.Paths.Certificates))
				}
				if !crash(h, d, point) {
					t.Fatal("it was not killed")
				}
				h.at()
				if crash(h, d, points[(i+3)%len(points)]) {
					h.at()
				}
				h.ok(d)
				here, there := h.at()
				if s := h.state(); there != (d == machine.ToManager) || here != h.running() || (s.Assigned != nil) != there {
					t.Errorf("data here %t, there %t; running %t, assigned %+v", here, there, h.running(), s.Assigned)
				}
				if d == machine.ToManager && (h.state().LeaseVoters.Token != "c1" || len(h.records()) != 1) {
					t.Errorf("the lease voters are %+v, of %+v", h.state().LeaseVoters, h.records())
				}
				wantSteps(t, h.ok(d))
				for _, p := range []string{h.root, h.cfg.Paths.Data, h.o.ManagerDir} {
					left, _ := filepath.Glob(filepath.Join(p, ".*"))
					for _, l := range left {
						if !strings.HasPrefix(filepath.Base(l), ".etcd") {
							t.Errorf("%s is left", l)
						}
					}
				}
			})
		}
	}
}

// Killed while it hands over, at any point, it can be handed back instead.
func TestCrashAndHandBack(t *testing.T) {
	for _, point := range points("journal", "stop", "files", "move", "assign", "done") {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			h := newCluster(t, "a", "b", "c")[0]
			if !crash(h, machine.ToManager, point) {
				t.Fatal("it was not killed")
			}
			if point == "handover.journal.before" {
				return // there is nothing to hand back
			}
			h.ok(machine.FromManager)
			if here, _ := h.at(); !here || !h.running() {
				t.Errorf("data here %t, running %t", here, h.running())
			}
		})
	}
}
