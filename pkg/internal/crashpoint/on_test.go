//go:build crashpoints

package crashpoint

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The test binary, started again with this variable, passes its points and
// prints each that it survived.
const points = "CRASHPOINT_TEST_POINTS"

func TestMain(m *testing.M) {
	if list := os.Getenv(points); list != "" {
		for p := range strings.SplitSeq(list, ",") {
			Hit(p)
			os.Stdout.WriteString(p + ";")
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestHit(t *testing.T) {
	tests := []struct {
		name, at, points string
		// survived is what the process printed before its end.
		survived string
		killed   bool
		exit     int
	}{
		{name: "nothing asked", at: "", points: "a,b", survived: "a;b;"},
		{name: "another name", at: "c", points: "a,b", survived: "a;b;"},
		{name: "not a prefix", at: "ab", points: "a,abc", survived: "a;abc;"},
		{name: "first hit", at: "b", points: "a,b,b", survived: "a;", killed: true},
		{name: "first hit by number", at: "b:1", points: "a,b", survived: "a;", killed: true},
		{name: "third hit", at: "b:3", points: "b,a,b,a,b,b", survived: "b;a;b;a;", killed: true},
		{name: "too few hits", at: "b:3", points: "b,b,a", survived: "b;b;a;"},
		{name: "not a number", at: "b:x", points: "a", exit: 2},
		{name: "number zero", at: "b:0", points: "a", exit: 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), Variable+"="+tt.at, points+"="+tt.points)
			out, _ := cmd.Output()
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			killed := status.Signaled() && status.Signal() == syscall.SIGKILL
			if string(out) != tt.survived || killed != tt.killed || !killed && status.ExitStatus() != tt.exit {
				t.Errorf("survived %q, %v; want %q, killed: %t, exit: %d", out, cmd.ProcessState, tt.survived, tt.killed, tt.exit)
			}
		})
	}
}

// A process that is given a directory dies where a file there says, and the file is gone.
func TestHitOfADirectory(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		armed, points, survived string
	}{
		{"", "a,b", "a;b;"}, {"b", "a,b,c", "a;"}, {"", "b", "b;"},
	} {
		if tt.armed != "" {
			if err := os.WriteFile(filepath.Join(dir, tt.armed), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), Variable+"="+Dir+dir, points+"="+tt.points)
		out, _ := cmd.Output()
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if string(out) != tt.survived || status.Signaled() != (tt.armed != "") {
			t.Errorf("armed %q: survived %q, %v; want %q", tt.armed, out, cmd.ProcessState, tt.survived)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%v is left", left)
		}
	}
}
