package isolate

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// confine bounds what this process takes: its memory, which it cannot have above what it
// has and the given bytes, and its place in the line of what the kernel kills for want of
// memory, which is the first.
func confine(memory int64) error {
	has, err := dataSize()
	if err != nil {
		return err
	}
	limit := uint64(has + memory)
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		return fmt.Errorf("limit the memory to %d bytes: %w", limit, err)
	}
	// A core would be as large. That it cannot be said is no danger.
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	// To be killed sooner is always permitted, but /proc may not be writable.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	return nil
}

// dataSize is how much the limit counts already.
func dataSize() (int64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmData:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/self/status has no VmData")
}
