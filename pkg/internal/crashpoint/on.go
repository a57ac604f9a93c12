//go:build crashpoints

package crashpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Enabled says that the process was built with crash points.
const Enabled = true

// hits counts the calls of Hit with the name that was asked for.
var hits atomic.Int64

// Hit kills the process with SIGKILL if the environment asks for it here, and
// does not return then.
func Hit(name string) {
	value := os.Getenv(Variable)
	if dir, ok := strings.CutPrefix(value, Dir); ok {
		if os.Remove(filepath.Join(dir, name)) == nil { // who removes it is the only one
			die()
		}
		return
	}
	want, number, numbered := strings.Cut(value, ":")
	n := int64(1)
	if numbered {
		var err error
		if n, err = strconv.ParseInt(number, 10, 64); err != nil || n < 1 {
			panic(fmt.Sprintf("crashpoint: %s=%s:%s does not end in a number from 1", Variable, want, number))
		}
	}
	if want != name || hits.Add(1) != n {
		return
	}
	die()
}

func die() {
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(fmt.Sprintf("crashpoint: kill own process: %v", err))
	}
	select {} // the signal is on its way; nothing more may happen here
}
