//go:build !crashpoints

package etcdrelease

import (
	"context"
	"os/exec"
	"runtime/debug"
	"testing"
	"time"
)

// TestCrashes runs the tests of crash_test.go, which need a build with crash
// points.
func TestCrashes(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the tests once more")
	}
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skip(err)
	}
	args := []string{"test", "-tags", "crashpoints", "-count=1", "-run=^TestCrash"}
	if raced() {
		args = append(args, "-race") // what has been built with it need not be built again
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, goCommand, append(args, ".")...).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// raced reports whether this test was built with the race detector.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-race" && s.Value == "true" {
			return true
		}
	}
	return false
}
