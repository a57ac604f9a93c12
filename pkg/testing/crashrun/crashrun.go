// Package crashrun runs the crash tests of a package, which need a build with
// crash points, among its ordinary tests, and names what end-to-end tests set
// to crash a program that was built with them.
package crashrun

import (
	"context"
	"os/exec"
	"runtime/debug"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
)

// Variable is the environment variable that says where to crash.
const Variable = crashpoint.Variable

// Dir begins a value of [Variable] that is a directory of points.
const Dir = crashpoint.Dir

// limit protects from hanging only; the tests are built once more within it.
const limit = 5 * time.Minute

// Run builds the tests of the package in the working directory with crash
// points, and runs those whose names begin with TestCrash.
func Run(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds the tests once more")
	}
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skip(err)
	}
	t.Parallel()
	args := []string{"test", "-tags", "crashpoints", "-count=1", "-run=^TestCrash", "-vet=off", "-ldflags=-w"}
	if raced() {
		args = append(args, "-race") // what has been built with it need not be built again
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if out, err := exec.CommandContext(ctx, goCommand, append(args, ".")...).CombinedOutput(); err != nil {
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
