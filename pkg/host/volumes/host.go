package volumes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// HostExecCommand is the first argument with which a program runs a command of
// the host: see [HostExec].
const HostExecCommand = "__hostexec"

// hostDirs are where the host's commands are, in the host's file system.
var hostDirs = []string{"/", "/bin", "/usr/sbin", "/usr/bin", "/sbin"}

// A Host is the machine below the container.
type Host struct {
	// Root is where the host's file system is in the container, / where there
	// is no container.
	Root string
	// Process is a process in the host's mount namespace, 1 if it is 0.
	Process int
}

func (h Host) contained() bool { return h.Root != "" && h.Root != "/" }

// path returns where a path of the host is for this process.
func (h Host) path(p string) string { return filepath.Join("/", h.Root, p) }

func (h Host) proc(name string) string {
	return h.path(fmt.Sprintf("/proc/%d/%s", max(h.Process, 1), name))
}

// run runs a command of the host in the host's mount namespace and returns
// what it wrote and its exit code.
func (h Host) run(ctx context.Context, name string, args ...string) (string, int, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	if h.contained() {
		all := append([]string{HostExecCommand, h.proc("ns/mnt"), name}, args...)
		cmd = exec.CommandContext(ctx, "/proc/self/exe", all...)
	}
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	// Half a file system is worse than a late end: nothing is killed midway.
	cmd.Cancel = func() error { return nil }
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", -1, fmt.Errorf("run %s on the host: %w", name, err)
	}
	code := cmd.ProcessState.ExitCode()
	text := out.String()
	if code != 0 {
		text += problems.String()
	}
	if code == HostExecFailed {
		return text, code, fmt.Errorf("run %s on the host: %s", name, strings.TrimSpace(text))
	}
	return text, code, nil
}

// HostExecFailed is the exit code that says that no command was run.
const HostExecFailed = 125

// HostExec joins the mount namespace args[0] and becomes the command args[1]
// found there, with the arguments that follow. A program calls it first of
// all if its first argument is [HostExecCommand]. It returns only with an error:
// the program says it and exits with [HostExecFailed].
func HostExec(args []string) error {
	if len(args) < 2 {
		return errors.New(HostExecCommand + " takes a mount namespace and a command")
	}
	// A thread that shares its root directory with others cannot change its
	// mount namespace. Exec keeps what this thread has.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("leave the shared root directory: %w", err)
	}
	ns, err := os.Open(args[0])
	if err != nil {
		return fmt.Errorf("open the host's mount namespace: %w; does the pod have hostPID?", err)
	}
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("join the host's mount namespace: %w; is the container privileged?", err)
	}
	for _, dir := range hostDirs {
		path := filepath.Join(dir, args[1])
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return unix.Exec(path, args[1:], os.Environ())
		}
	}
	return fmt.Errorf("the host has no command %s in %s", args[1], strings.Join(hostDirs, " "))
}
