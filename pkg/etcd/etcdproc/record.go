package etcdproc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

const (
	recordName = "etcd.pid"
	lockName   = "etcd.pid.lock"
	// leftoverPollInterval is how often a leftover process is checked.
	leftoverPollInterval = 10 * time.Millisecond
)

// A record is the content of the pid file. A process number alone says little,
// because the kernel uses it again; number, start and boot together mean one
// process, or none. They stay the same when the process executes another
// program.
type record struct {
	PID int `json:"pid"`
	// Start is when the process was made, in clock ticks since the boot: field
	// 22 of /proc/PID/stat.
	Start uint64 `json:"start"`
	// Boot is the kernel's random name of the boot.
	Boot string `json:"boot"`
	// Path is the program, for the human reader.
	Path string `json:"path"`
}

// errGone says that there is no such process.
var errGone = errors.New("no such process")

// recordOf describes a living process.
func recordOf(pid int, path string) (record, error) {
	start, _, err := observeAt(pid)
	if err != nil {
		return record{}, fmt.Errorf("pid file: %w", err)
	}
	boot, err := bootName()
	if err != nil {
		return record{}, fmt.Errorf("pid file: %w", err)
	}
	return record{PID: pid, Start: start, Boot: boot, Path: path}, nil
}

// lives reports whether the process of the record still runs.
func (r record) lives() (bool, error) {
	boot, err := bootName()
	if err != nil || boot != r.Boot {
		return false, err
	}
	start, alive, err := observeAt(r.PID)
	if errors.Is(err, errGone) {
		return false, nil
	}
	return alive && start == r.Start, err
}

func bootName() (string, error) {
	name, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(bytes.TrimSpace(name)), err
}

// observeAt returns when a process was made, and whether it still does anything.
// The error is errGone if there is no such process.
func observeAt(pid int) (start uint64, alive bool, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return 0, false, errGone
	}
	if err != nil {
		return 0, false, err
	}
	// The fields are those of proc_pid_stat(5), where the first has the number
	// 1. The second is a program's name in brackets, which may itself have
	// spaces and brackets; what comes after it begins with the third.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0, false, fmt.Errorf("/proc/%d/stat has %d fields after the name", pid, len(fields))
	}
	const first = 3
	state, threads := string(fields[0]), string(fields[20-first])
	start, err = strconv.ParseUint(string(fields[22-first]), 10, 64)
	// A process whose first thread has ended is a zombie from then on, and may
	// still have threads that hold its files open.
	return start, state != "Z" && state != "X" || state == "Z" && threads != "1", err
}

// write replaces the record as a whole. It is not synced to the disk: it means
// something only as long as the kernel lives that runs the process, and that
// long the kernel has it.
func (r record) write(dir string) error {
	content, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("pid file: %w", err)
	}
	path := filepath.Join(dir, recordName)
	if err := os.WriteFile(path+".tmp", append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("pid file: %w", err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("pid file: %w", err)
	}
	return nil
}

// removeRecord says that no process is left. A record that cannot be removed
// does no harm: its process does not live.
func removeRecord(dir string) error {
	err := os.Remove(filepath.Join(dir, recordName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("pid file: %w", err)
	}
	return nil
}

// killLeftover makes sure that the process of dir's record, if there is one,
// is gone. It gets SIGKILL, which etcd is made to survive: nobody reads its
// output or waits for it any more.
func killLeftover(ctx context.Context, dir string) error {
	content, err := os.ReadFile(filepath.Join(dir, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("pid file: %w", err)
	}
	var r record
	if err := json.Unmarshal(content, &r); err != nil {
		// A record is replaced as a whole, so this is none of ours, and there is
		// nothing to learn from it.
		return removeRecord(dir)
	}
	// From Go 1.23 on this holds a pidfd, where the kernel has them, so that
	// the signal reaches the process that is checked next or nobody.
	p, err := os.FindProcess(r.PID)
	if err != nil {
		return fmt.Errorf("leftover etcd (pid %d): %w", r.PID, err)
	}
	defer p.Release()
	for range wait.Every(ctx, leftoverPollInterval) {
		alive, err := r.lives()
		if err != nil {
			return fmt.Errorf("leftover etcd (pid %d): %w", r.PID, err)
		}
		if !alive {
			return removeRecord(dir)
		}
		if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("leftover etcd (pid %d): %w", r.PID, err)
		}
	}
	return fmt.Errorf("leftover etcd (pid %d) does not end: %w", r.PID, ctx.Err())
}

// lockDir keeps other supervisors out of dir until it is unlocked. The kernel lets go of
// the lock when the daemon ends, however it ends. The etcd that it was about to start
// then has it for a moment, which is waited for.
func lockDir(dir string) (*hostfs.LockedFile, error) {
	l, err := hostfs.Lock(filepath.Join(dir, lockName))
	if errors.As(err, new(*hostfs.LockedError)) {
		return nil, ErrBusy
	}
	return l, err
}
