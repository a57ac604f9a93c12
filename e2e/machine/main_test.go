package machine

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// The versions of etcd that the tests run.
const v35, v36, v37 = "3.5.35", "3.6.16", "3.7.3"

var versions = []string{v35, v36, v37}

// programs are the paths of etcdadm, built when first asked for: as it is, and
// with the points at which it can be made to crash.
var programs struct {
	// dir is for what the tests make once and share.
	dir           string
	plain, points func() (string, error)
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "etcdadm-e2e-machine-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programs.dir = dir
	programs.plain, programs.points = builder(dir, "plain", ""), builder(dir, "points", "crashpoints")
	// The tests wait most of the time: for elections, and for etcd to take changes
	// of its member list, which it does only when all have been well for 5 s.
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))); err != nil {
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

// builder returns the path of etcdadm with the build tags, which it builds at
// most once.
func builder(dir, name, tags string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		if given := os.Getenv("ETCDADM_BIN"); given != "" && tags == "" {
			return filepath.Abs(filepath.Join(given, "etcdadm"))
		}
		bin := filepath.Join(dir, name, "etcdadm")
		cmd := exec.CommandContext(context.Background(), "go", "build", "-tags="+tags, "-o", bin,
			"github.com/etcdadm/etcdadm/etcdadm")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build etcdadm: %w\n%s", err, out)
		}
		return bin, nil
	})
}

// program returns the path of etcdadm.
func program(t *testing.T) string { return built(t, programs.plain) }

// crashing returns the path of an etcdadm that has crash points.
func crashing(t *testing.T) string { return built(t, programs.points) }

func built(t *testing.T, get func() (string, error)) string {
	t.Helper()
	bin, err := get()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// etcdDir returns the directory with the programs of an etcd version.
func etcdDir(t *testing.T, version string) string {
	t.Helper()
	dirs := os.Getenv("ETCDADM_ETCD_DIR")
	if dirs == "" {
		t.Skip("ETCDADM_ETCD_DIR is not set: it lists the directories with etcd-v3.6.16 and so on; go run ./images path " +
			"prints one")
	}
	path, err := harness.EtcdBinary(dirs, version, "etcd")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(path)
}
