package initsystem

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// statusFileName is the file of a [StatusFile]. launchName is one that whoever launches a
// supervisor writes about it, so that it can be found and stopped before it
// says something itself.
const (
	statusFileName = "run.json"
	launchName     = "launch.json"
)

// A StatusFile is the file in which the supervisor of a directory ("etcdadm run")
// says how its etcd does. Its reader is the init system of kind process, maybe
// much later and after both have been killed; so processes are named in it in a
// way that no later process answers to. A supervisor that ends leaves it as it
// is: whoever waits for that end goes by the process.
type StatusFile struct {
	path       string
	supervisor process
}

// A Progress is what a supervisor says.
type Progress struct {
	State State
	// PID is etcd, 0 for none.
	PID int
	// Detail is one line about why.
	Detail string
	// LastLines are etcd's last lines of output if it is crashing.
	LastLines []string
}

// NewStatusFile returns the status file of dir for this process, which must be the only
// supervisor there.
func NewStatusFile(dir string) (*StatusFile, error) {
	self, err := identify(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("supervisor's status file: %w", err)
	}
	path := filepath.Join(dir, statusFileName)
	// What an earlier supervisor left that was killed does no harm but is in sight.
	_ = hostfs.RemoveTemp(path)
	return &StatusFile{path: path, supervisor: self}, nil
}

// Post replaces what the status file says.
func (b *StatusFile) Post(p Progress) error {
	n := status{Supervisor: b.supervisor, State: p.State, Detail: p.Detail, LastLines: p.LastLines}
	if p.PID != 0 {
		// One that has ended meanwhile is no longer anybody.
		if etcd, err := identify(p.PID); err == nil {
			n.Etcd = &etcd
		}
	}
	text, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("supervisor's status file: %w", err)
	}
	if err := hostfs.WriteFile(b.path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("supervisor's status file: %w", err)
	}
	return nil
}

// A status is the status file's content.
type status struct {
	Supervisor process  `json:"supervisor"`
	Etcd       *process `json:"etcd,omitempty"`
	State      State    `json:"state"`
	Detail     string   `json:"detail"`
	LastLines  []string `json:"lastLines,omitempty"`
}

// readStatus returns the status in a file, nil if there is none.
func readStatus(path string) (*status, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the supervisor's status file: %w", err)
	}
	var n status
	if err := json.Unmarshal(text, &n); err != nil {
		return nil, fmt.Errorf("read the supervisor's status file %s: %w", path, err)
	}
	return &n, nil
}

// remove removes a status file, and what a supervisor that was killed left of one.
func remove(path string) error {
	_ = hostfs.RemoveTemp(path)
	err := os.Remove(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the supervisor's status file: %w", err)
	}
	return nil
}

// A process is named by its number, by when it was made, in clock ticks since
// the boot, and by the kernel's name of the boot. The number alone is used
// again.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
	Boot  string `json:"boot"`
}

// identify names a process. The error is [fs.ErrNotExist] if nothing is left of
// it but its name.
func identify(pid int) (process, error) {
	p, _, err := inspect(pid)
	return p, err
}

// inspect also reports whether the process is about to end: its first thread
// has, and others still hold its files.
func inspect(pid int) (p process, ending bool, err error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return process{}, false, err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, syscall.ESRCH) { // it ended while it was read
		err = fs.ErrNotExist
	}
	if err != nil {
		return process{}, false, err
	}
	// proc_pid_stat(5): the number, the name in brackets, which may have blanks
	// and brackets in it, the state (field 3), threads (20), start (22).
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return process{}, false, fmt.Errorf("/proc/%d/stat has only %d fields", pid, len(fields)+2)
	}
	state, threads := string(fields[0]), string(fields[17])
	if state == "X" || state == "Z" && threads == "1" {
		return process{}, false, fs.ErrNotExist
	}
	start, err := strconv.ParseUint(string(fields[19]), 10, 64)
	return process{PID: pid, Start: start, Boot: string(bytes.TrimSpace(boot))}, state == "Z", err
}

// ticks is how many of the clock ticks of /proc there are in a second, on all
// platforms that Go knows (USER_HZ).
const ticks = 100

// uptime returns how long the process has run, or 0.
func (p process) uptime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0
	}
	return max(0, time.Duration(now.Nano())-time.Duration(p.Start)*time.Second/ticks)
}

// uptime returns how long a process has run, 0 if there is none of that number.
func uptime(pid int) time.Duration {
	p, err := identify(pid)
	if pid == 0 || err != nil {
		return 0
	}
	return p.uptime()
}

// lives reports whether the process still does something.
func (p process) lives() (bool, error) {
	if p.PID <= 0 {
		return false, nil
	}
	now, err := identify(p.PID)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return now == p, err
}

// stays reports whether the process lives, and is not about to end.
func (p process) stays() bool {
	now, ending, err := inspect(p.PID)
	return err == nil && now == p && !ending
}

// signal sends a signal to this process and no later one.
func (p process) signal(sig os.Signal) error {
	// Since Go 1.23 this holds on to the process itself, where the kernel lets
	// it (pidfd), so that what is checked next is what gets the signal.
	handle, err := os.FindProcess(p.PID)
	if err != nil {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	defer handle.Release()
	if lives, err := p.lives(); err != nil || !lives {
		return err
	}
	if err := handle.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	return nil
}

// living returns those that live.
func living(all ...*process) ([]process, error) {
	var left []process
	for _, p := range slices.DeleteFunc(all, func(p *process) bool { return p == nil }) {
		lives, err := p.lives()
		if err != nil {
			return nil, fmt.Errorf("check process %d: %w", p.PID, err)
		}
		if lives {
			left = append(left, *p)
		}
	}
	return left, nil
}
