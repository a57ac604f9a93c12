//go:build !crashpoints

package handover

import (
	"context"
	"os/exec"
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
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, goCommand, "test", "-tags", "crashpoints", "-count=1", "-run=^TestCrash", ".").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
