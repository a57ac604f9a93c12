// Package e2e tests whole clusters: real daemons, real etcd, real disks.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/e2e/standin"
	"github.com/etcdadm/etcdadm/pkg/host/volumes"
)

// The versions of etcd that the tests run.
const v35, v36, v37 = "3.5.35", "3.6.16", "3.7.3"

var programs struct {
	dir                   string
	plain, points, runner func() (string, error)
}

func TestMain(m *testing.M) {
	if standin.Wanted() {
		if err := standin.OnHost(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(volumes.HostExecFailed)
		}
		fmt.Fprintln(os.Stderr, standin.Run(context.Background(), os.Args[1:]))
		os.Exit(1)
	}
	dir, err := os.MkdirTemp("", "etcdadm-e2e-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	build := func(name, tags string) func() (string, error) {
		return sync.OnceValues(func() (string, error) {
			bin := filepath.Join(dir, name)
			return bin, harness.Build(context.Background(), bin, tags)
		})
	}
	programs.plain, programs.points = build("plain", ""), build("points", "crashpoints")
	programs.runner = sync.OnceValues(func() (string, error) {
		return harness.BuildLogRunner(context.Background(), dir)
	})
	// The tests wait most of the time, for leases and polls to pass.
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0)))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// options returns what every cluster of the tests has: the programs, built once
// or from ETCDADM_BIN, and etcd from ETCDADM_ETCD_DIR.
func options(t *testing.T, flags ...string) harness.Options {
	t.Helper()
	dirs := os.Getenv("ETCDADM_ETCD_DIR")
	if dirs == "" {
		t.Skip("ETCDADM_ETCD_DIR is not set: it lists the directories with etcd-v3.6.16 and so on; go run ./images path " +
			"prints one")
	}
	bin := os.Getenv("ETCDADM_BIN")
	if bin == "" {
		var err error
		if bin, err = programs.plain(); err != nil {
			t.Fatal(err)
		}
	}
	return harness.Options{Bin: bin, EtcdDirs: dirs, Flags: flags}
}

// start returns a cluster without nodes.
func start(t *testing.T, flags ...string) *harness.Cluster {
	t.Helper()
	return harness.New(t.Context(), t, options(t, flags...))
}

// quick are flags for tests that wait for the times of the policy. On a busy machine a
// member that is well may not be heard of for some seconds.
var quick = []string{"--replace-grace=6s", "--bootstrap-grace=2s"}

// calm are flags for tests in which one member is replaced, and no other one: one that is well
// is not taken for lost, however busy the machine is.
var calm = []string{"--replace-grace=30s", "--bootstrap-grace=2s"}
