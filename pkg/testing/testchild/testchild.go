// Package testchild starts programs that do not outlive the test that needs them.
package testchild

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// Start starts a program that the kernel kills when this process ends, however
// it ends. What else the command's SysProcAttr says is kept.
//
// All are started by one thread that lives as long as the process: the death
// signal comes when the thread ends that started the program (prctl(2),
// golang/go#27505), and threads end wherever a goroutine is locked to one and
// returns.
func Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	starts() <- func() { started <- cmd.Start() }
	return <-started
}

// starts is what the thread has to do.
var starts = sync.OnceValue(func() chan<- func() {
	c := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range c {
			f()
		}
	}()
	return c
})
