package machine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// eventually waits until ok returns nil.
func eventually(t *testing.T, within time.Duration, what string, ok func() error) {
	t.Helper()
	if err := poll(within, ok); err != nil {
		t.Fatalf("waited %s for %s: %v", within, what, err)
	}
}

// poll calls ok until it returns nil, and returns its last error when the time
// is over.
func poll(within time.Duration, ok func() error) error {
	return testwait.Try(context.Background(), within, func(context.Context) error { return ok() })
}

// onStatusFile returns the processes that the host's status files name: the supervisor
// and etcd. A dead one is 0, and so is one that is not the host's.
func (h *host) onStatusFile() (supervisor, etcd int) {
	for _, name := range []string{"launch.json", "run.json"} {
		var statusFile struct{ Supervisor, Etcd struct{ PID int } }
		b, err := os.ReadFile(filepath.Join(h.path("data")+".run", name))
		if err != nil || json.Unmarshal(b, &statusFile) != nil {
			continue
		}
		supervisor, etcd = h.own(statusFile.Supervisor.PID), h.own(statusFile.Etcd.PID)
	}
	return supervisor, etcd
}

// own returns pid if it lives and belongs to the host.
func (h *host) own(pid int) int {
	if pid > 0 && namesDir(pid, h.root) {
		return pid
	}
	return 0
}

// kill ends the host's etcd and its supervisor at once.
func (h *host) kill() {
	h.t.Helper()
	known := func() []int {
		supervisor, etcd := h.onStatusFile()
		return slices.DeleteFunc([]int{supervisor, etcd, h.systemdEtcd()}, func(pid int) bool { return pid == 0 })
	}
	for _, pid := range known() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	eventually(h.t, commandTime, "the end of "+h.name, func() error {
		if left := known(); len(left) > 0 {
			return fmt.Errorf("processes %v live", left)
		}
		return nil
	})
}

// cutPower kills them and all else that runs on the host, as a supervisor that has not said yet
// that it is one, and waits until their ports are free.
func (h *host) cutPower() {
	h.t.Helper()
	h.kill()
	eventually(h.t, commandTime, "the end of all on "+h.name, func() error {
		left := h.processes()
		for _, p := range left {
			pid, _, _ := strings.Cut(p, " ")
			if n, err := strconv.Atoi(pid); err == nil {
				_ = syscall.Kill(n, syscall.SIGKILL)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("%v live", left)
		}
		return h.unbound()
	})
}

// unbound says which port of the host's etcd is still bound. A process that was killed has
// its sockets until its last thread is gone; a machine without power has none.
func (h *host) unbound() error {
	if h.space != nil {
		return nil // in a network of its own
	}
	for _, port := range []int{h.clientPort, h.peerPort} {
		l, err := net.Listen("tcp", net.JoinHostPort(h.address, strconv.Itoa(port)))
		if err != nil {
			return err
		}
		_ = l.Close()
	}
	return nil
}

// end ends the host with its test, and shows its log if the test failed.
func (h *host) end() {
	h.kill()
	// What the kernel is about to end is not left over.
	var left []string
	_ = poll(time.Minute, func() error {
		if left = h.processes(); len(left) > 0 {
			return errors.New("they live")
		}
		return nil
	})
	for _, p := range left {
		h.t.Errorf("%s: a process is left: %s", h.name, p)
		pid, _, _ := strings.Cut(p, " ")
		if n, err := strconv.Atoi(pid); err == nil {
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
	}
	if h.t.Failed() {
		h.t.Logf("---- etcd of %s:\n%s", h.name, tail(h.log(), 4000))
	}
}

// log returns what etcd of the host has written.
func (h *host) log() string {
	// Nothing was said where there is none.
	supervised, _ := os.ReadFile(filepath.Join(h.path("data")+".run", "etcd.log"))
	other, _ := os.ReadFile(h.path("fake", "log"))
	return string(supervised) + string(other)
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// processes returns the living processes that name the host's directory.
func (h *host) processes() []string {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var found []string
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if pid != os.Getpid() && namesDir(pid, h.root) {
			b, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			found = append(found, strconv.Itoa(pid)+" "+string(bytes.ReplaceAll(b, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// namesDir says whether a process lives whose command line or environment has a
// path below dir.
func namesDir(pid int, dir string) bool {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return false
	}
	if fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]); len(fields) == 0 || string(fields[0]) == "Z" ||
		string(fields[0]) == "X" {
		return false
	}
	for _, name := range []string{"cmdline", "environ"} {
		if b, err := os.ReadFile(filepath.Join(proc, name)); err == nil && bytes.Contains(b, []byte(dir+"/")) {
			return true
		}
	}
	return false
}
