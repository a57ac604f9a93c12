// Package timerslack lets the kernel end the waits of this process together, and start
// children that wait as ever. A thread that waits may be woken up later by its timer slack
// (prctl(2), PR_SET_TIMERSLACK), 50 microseconds by default.
package timerslack

import (
	"fmt"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// What prctl(2) is asked for.
const (
	setTimerSlack = 29 // PR_SET_TIMERSLACK
	getTimerSlack = 30 // PR_GET_TIMERSLACK
)

// usual is the timer slack in nanoseconds that this process had before [Widen], zero where that has
// not been called.
var usual atomic.Uintptr

// Widen gives all threads of this process, those to come too, a timer slack of d. Programs
// that use C cannot do it: their error is [syscall.ENOTSUP].
func Widen(d time.Duration) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := get()
	if err != nil {
		return err
	}
	_, _, errno := syscall.AllThreadsSyscall(syscall.SYS_PRCTL, setTimerSlack, uintptr(d), 0)
	if errno != 0 {
		return fmt.Errorf("set the timer slack: %w", errno)
	}
	usual.CompareAndSwap(0, before)
	return nil
}

// Start starts cmd with the timer slack that this process had before [Widen]: a child has that of the
// thread that makes it.
func Start(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if before := usual.Load(); before != 0 {
		if now, err := get(); err == nil && set(before) == nil {
			defer func() { _ = set(now) }()
		}
	}
	return cmd.Start()
}

// get returns the timer slack of this thread.
func get() (uintptr, error) {
	ns, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, getTimerSlack, 0, 0)
	if errno != 0 {
		return 0, fmt.Errorf("get the timer slack: %w", errno)
	}
	return ns, nil
}

// set sets that of this thread, and of those that it makes.
func set(ns uintptr) error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, ns, 0); errno != 0 {
		return fmt.Errorf("set the timer slack: %w", errno)
	}
	return nil
}
