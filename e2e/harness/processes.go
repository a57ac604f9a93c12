package harness

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// A process is one line of the kernel's list.
type process struct {
	pid, parent int
	state       string
	argv        []string
}

// processes returns the living processes; those that end meanwhile are left
// out, and those that nobody has waited for.
func processes() []process {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var all []process
	for _, dir := range dirs {
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue
		}
		// The second field is the program's name in parentheses and may hold anything.
		_, rest, ok := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(" "))
		fields := strings.Fields(string(rest))
		if !ok || len(fields) < 2 || fields[0] == "Z" {
			continue
		}
		p := process{state: fields[0]}
		p.pid, _ = strconv.Atoi(filepath.Base(dir))
		p.parent, _ = strconv.Atoi(fields[1])
		cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		p.argv = strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
		all = append(all, p)
	}
	return all
}

// etcdOf returns the process number of a process's etcd, 0 if it has none. One that only
// prints its version, as the daemon asks it to, is none.
func etcdOf(pid int) int { return etcdProcess(pid).pid }

func etcdProcess(pid int) process {
	for _, p := range processes() {
		if p.parent == pid && filepath.Base(p.argv[0]) == "etcd" && !slices.Contains(p.argv, "--version") {
			return p
		}
	}
	return process{}
}

// using returns the processes whose command line or environment names dir.
func using(dir string) []process {
	var found []process
	for _, p := range processes() {
		environ, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "environ"))
		if p.pid != os.Getpid() &&
			(strings.Contains(strings.Join(p.argv, " "), dir) || bytes.Contains(environ, []byte(dir))) {
			found = append(found, p)
		}
	}
	return found
}

// below returns a process's children, and theirs.
func below(pid int) []process {
	all := processes()
	var found []process
	for parents := []int{pid}; len(parents) > 0; parents = parents[1:] {
		for _, p := range all {
			if p.parent == parents[0] {
				found, parents = append(found, p), append(parents, p.pid)
			}
		}
	}
	return found
}

// daemonBelow returns the number of the daemon in a pod that a process runs, 0 for none.
func daemonBelow(pid int) int {
	for _, p := range below(pid) {
		if filepath.Base(p.argv[0]) == "etcd-manager" {
			return p.pid
		}
	}
	return 0
}

// terminatePod sends SIGTERM to the first process of a pod, as the kubelet does.
func terminatePod(pid int) {
	if all := below(pid); len(all) > 0 {
		_ = syscall.Kill(all[0].pid, syscall.SIGTERM)
	}
}

// killPod kills all processes of a pod, as the kubelet does: none may begin another one
// meanwhile.
func killPod(pid int) {
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, p := range below(pid) {
			_ = syscall.Kill(p.pid, sig)
		}
	}
}
