package etcdadm

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"etcdadm": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			code := cli.Run(ctx, newTree(openFake, findFake), os.Args[1:])
			stop()
			os.Exit(code)
		},
	})
}

// TestScripts runs the scripts in testdata/script. Besides the commands of
// package testscript they have
//
//	adm CODE ARGS...  run etcdadm; it must exit with CODE
//	world NAME        begin the fake world of that name
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			// Under the race detector a process waits a second before it exits.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("ETCDADM_TEST_WORLD", env.WorkDir+"/world.json")
			env.Setenv("ETCDADM_NODES", "10.0.0.1:8000")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"adm":   adm,
			"world": world,
		},
	})
}

func adm(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec("etcdadm", args[1:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code is %d, want %d", got, want)
	}
}

func world(ts *testscript.TestScript, _ bool, args []string) {
	w, err := bootstrappedWorld(time.Now().UTC())
	switch args[0] {
	case "bootstrapped":
	case "empty":
		w = emptyWorld(time.Now().UTC())
	case "coordinated", "uncoordinated":
		for i := range w.Observation.Nodes {
			w.Observation.Nodes[i].Lease = cluster.Lease{Term: 4, Holder: "b", Running: args[0] == "coordinated"}
		}
	case "one-down":
		down(&w, 2)
	case "lost":
		down(&w, 1)
		down(&w, 2)
	case "held":
		w.Spec.MemberCount = 5
	case "no-spec":
		w.Spec = cluster.Spec{}
	case "versions": // of which all nodes have binaries
		for i := range w.Observation.Nodes {
			w.Observation.Nodes[i].Versions = []etcdversion.Version{
				etcdversion.Must("3.5.35"), etcdversion.Must("3.6.16"), etcdversion.Must("3.7.3"),
			}
		}
		w.Observation.ClusterVersion = etcdversion.Must("3.6.0")
	case "old-patch": // which the spec wants to leave, and which has nothing that speaks against it
		for i := range w.Observation.Nodes {
			n := &w.Observation.Nodes[i]
			n.Assigned.Version, n.Hazards = etcdversion.Must("3.5.21"), cluster.NoHazards()
			n.Versions = []etcdversion.Version{n.Assigned.Version, etcdversion.Must("3.6.16"), etcdversion.Must("3.7.3")}
			w.Observation.Members[i].Version = n.Assigned.Version
		}
		w.Observation.ClusterVersion, w.Spec.EtcdVersion = etcdversion.Must("3.5.0"), etcdversion.Must("3.7.3")
	case "locked":
		w.Holder = "b"
	case "hanging":
		w.Hang = true
	default:
		w.Holder = args[0]
	}
	ts.Check(err)
	ts.Check((&fake{file: ts.MkAbs("world.json"), w: w}).write())
}

// down makes the i-th node disappear, a moment ago.
func down(w *fakeWorld, i int) {
	w.Observation.Nodes[i].Reachable = false
	w.Observation.Members[i].Healthy = false
	w.Observation.Members[i].UnhealthySince = w.Observation.At.Add(-time.Second)
	if w.Observation.Leader == w.Observation.Members[i].ID {
		w.Observation.Leader = 0
	}
}
