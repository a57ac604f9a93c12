// Package testchild starts programs that do not outlive the test that needs them.
package testchild

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
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

// Named starts a process that does nothing and has the command line, which begins with
// the name of a program. It ends with the test.
func Named(t testing.TB, argv ...string) (pid int) {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	// The shell waits for its standard input, and shows the arguments as they are.
	program := filepath.Join(t.TempDir(), argv[0])
	if err := os.Symlink(sh, program); err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: program, Args: append([]string{program, "-c", "echo; read line", program}, argv[1:]...)}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
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
