package manager

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

const (
	// firstPagesDelay is when a daemon has started and has used what it needs for that, pagesInterval how
	// often it gives back what else it has used in passing, as for a backup.
	firstPagesDelay = 15 * time.Second
	pagesInterval   = 10 * time.Minute
)

// timerSlack is how much later than asked for the kernel may wake up a thread of the daemon, so that
// it wakes up once for what is due at about the same time. What the daemon waits for takes some hundred
// times as long.
const timerSlack = time.Millisecond

// keepFewPages gives free memory and pages of the program back, again and again until ctx ends.
func keepFewPages(ctx context.Context) {
	for pause := firstPagesDelay; wait.For(ctx, pause) == nil; pause = pagesInterval {
		debug.FreeOSMemory()
		// Without it the daemon only takes more memory.
		_ = givePagesBack()
	}
}

// givePagesBack unmaps the pages of the program's file, of which the daemon has the clouds' SDKs and
// other programs and needs a small part at rest. What is needed again is mapped again, from the
// kernel's cache as a rule. Pages that the program may write are left alone.
func givePagesBack() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer func() { _ = maps.Close() }()
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		start, end, ok := readOnlyPart(lines.Text(), program)
		if !ok {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("give pages back: %w", errno)
		}
	}
	return lines.Err()
}

// readOnlyPart returns the addresses of a line of /proc/self/maps that maps a part of a file which
// nobody may write.
func readOnlyPart(line, file string) (start, end uintptr, ok bool) {
	fields := strings.Fields(line) // 00400000-01a2b000 r-xp 00000000 fe:00 1234 /usr/local/bin/etcd-manager
	if len(fields) < 6 || strings.Join(fields[5:], " ") != file || len(fields[1]) != 4 {
		return 0, 0, false
	}
	if access := fields[1]; access[0] != 'r' || access[1] != '-' || access[3] != 'p' {
		return 0, 0, false
	}
	n, err := fmt.Sscanf(fields[0], "%x-%x", &start, &end)
	return start, end, err == nil && n == 2 && start < end
}
