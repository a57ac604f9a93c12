//go:build e2e

package kind

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// image is the node image, version that of our own images.
var (
	image   string
	version = "kind"
)

func TestMain(m *testing.M) {
	if _, err := docker(context.Background(), "version", "--format={{.Server.Version}}"); err != nil {
		fmt.Fprintf(os.Stderr, "== NOT TESTED: the scenarios in kind, because Docker does not answer: %v\n", err)
		fmt.Fprintln(os.Stderr, `== e2e/kind/setup.sh starts a daemon: eval "$(e2e/kind/setup.sh)"`)
		os.Exit(0)
	}
	if image = os.Getenv("KIND_NODE_IMAGE"); image == "" {
		cmd := exec.Command("node/build.sh")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			fmt.Fprintf(os.Stderr, "build the node image: %v\n", err)
			os.Exit(1)
		}
		image = strings.TrimSpace(string(out))
	}
	if err := usable(context.Background(), image); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// long skips a scenario where a short run is wanted: TestManagedStaticPods is the one that it has.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a short run has one scenario")
	}
}
