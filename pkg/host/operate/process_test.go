package operate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// The test binary, started through a link of this name, waits until its
// standard input ends: that is an etcd, as far as anybody can see from outside.
const sleeper = "etcd"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == sleeper {
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// install copies the test binary.
func install(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, sleeper)
	if err := errors.Join(os.WriteFile(path+".new", b, 0o755), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
	return path
}

// runs starts the binary and returns its process, which ends with the test.
func runs(t *testing.T, binary string, env ...string) int {
	t.Helper()
	cmd := exec.Command(binary)
	cmd.Env = env
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	// The kernel notifies the parent that the program is new before the process has
	// its environment.
	testwait.Until(t, "the environment of a process", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid))
		return err == nil && len(b) > 0
	})
	return cmd.Process.Pid
}

func TestOutdated(t *testing.T) {
	binary := install(t, t.TempDir())
	other := install(t, t.TempDir())
	written := map[string]string{"ETCD_NAME": "a", "ETCD_DATA_DIR": "/d", "GOMAXPROCS": "2"}
	env := []string{"ETCD_NAME=a", "ETCD_DATA_DIR=/d", "PATH=/bin", "ETCDCTL_API=3"}
	with := func(more ...string) []string { return append(append([]string{}, env...), more...) }
	mark := initfiles.UnitVariable + "=m"
	tests := []struct {
		name    string
		env     []string
		written map[string]string
		mark    string
		binary  string
		want    bool
	}{
		{"the same", env, written, "", binary, false},
		{"another value", []string{"ETCD_NAME=b", "ETCD_DATA_DIR=/d"}, written, "", binary, true},
		{"one fewer", []string{"ETCD_NAME=a"}, written, "", binary, true},
		{"one more", with("ETCD_LOG_LEVEL=debug"), written, "", binary, true},
		{"another process variable", with("GOMAXPROCS=7"), written, "", binary, false},
		{"another unit", with(mark), written, "", binary, true},
		{"the same unit", with(mark), written, "m", binary, false},
		{"before there was a mark", env, written, "m", binary, true},
		{"another binary", env, written, "", other, true},
		{"no binary", env, written, "", filepath.Join(t.TempDir(), sleeper), false},
		{"nothing written", env, nil, "", binary, false},
		{"an empty value", with("ETCD_LOG_LEVEL="), map[string]string{
			"ETCD_NAME": "a", "ETCD_DATA_DIR": "/d", "ETCD_LOG_LEVEL": "",
		}, "", binary, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := outdated(runs(t, binary, tt.env...), tt.written, tt.mark, tt.binary); got != tt.want {
				t.Errorf("outdated: %v, want %v", got, tt.want)
			}
		})
	}
	t.Run("replaced", func(t *testing.T) {
		dir := t.TempDir()
		mine := install(t, dir)
		pid := runs(t, mine, env...)
		if outdated(pid, written, "", mine) {
			t.Error("before")
		}
		install(t, dir)
		if !outdated(pid, written, "", mine) {
			t.Error("a process goes on with a binary that was replaced")
		}
	})
	t.Run("no process", func(t *testing.T) {
		for _, pid := range []int{0, 1 << 22} {
			if outdated(pid, written, "", binary) {
				t.Errorf("process %d", pid)
			}
		}
	})
	t.Run("another program", func(t *testing.T) {
		if outdated(os.Getpid(), written, "", binary) {
			t.Error("whoever has the number now is not our etcd")
		}
	})
}

func TestTaken(t *testing.T) {
	port := testport.Free(t)
	if taken(testport.Local, port) {
		t.Error("a free port is taken")
	}
	l, err := net.Listen("tcp", net.JoinHostPort(testport.Local, strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !taken(testport.Local, port) {
		t.Error("a port that somebody listens at is free")
	}
	if taken("192.0.2.1", port) {
		t.Error("an address that is not ours is taken")
	}
}

func TestListening(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	good := "https://" + l.Addr().String()
	for urls, want := range map[string]bool{
		"": false, "%": false, "https://127.0.0.1:1": false, good: true, "https://127.0.0.1:1," + good: true,
	} {
		if got := listening(t.Context(), strings.Split(urls, ",")); got != want {
			t.Errorf("%s: %v", urls, got)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if listening(over, []string{good}) {
		t.Error("asked after the end")
	}
}

func TestReadOnlyAndNearest(t *testing.T) {
	root := t.TempDir()
	if got := nearest(filepath.Join(root, "a", "b")); got != root {
		t.Errorf("nearest is %s", got)
	}
	cfg := machine.Defaults()
	cfg.Service.InitSystem = machine.Process
	for _, p := range []*string{&cfg.Paths.Data, &cfg.Paths.Certificates, &cfg.Paths.Environment, &cfg.Paths.Install} {
		*p = filepath.Join(root, "rw")
	}
	if bad, _ := readOnly(cfg); len(bad) > 0 {
		t.Errorf("%q cannot be written", bad)
	}
	ro := filepath.Join(root, "ro")
	if err := os.Mkdir(ro, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", ro, "tmpfs", unix.MS_RDONLY, ""); errors.Is(err, unix.EPERM) {
		t.Skip("mounting is not permitted here")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(ro, unix.MNT_DETACH) })
	cfg.Paths.Environment = filepath.Join(ro, "etcd")
	if bad, forbidden := readOnly(cfg); len(bad) != 1 || bad[0] != cfg.Paths.Environment || len(forbidden) > 0 {
		t.Errorf("%q cannot be written, %q by others than root", bad, forbidden)
	}
	cfg.Paths.Data = t.TempDir()
	asNobody(t, func() {
		cfg.Paths.Certificates = cfg.Paths.Data
		bad, forbidden := readOnly(cfg)
		if !slices.Contains(bad, cfg.Paths.Environment) || slices.Contains(forbidden, cfg.Paths.Environment) ||
			!slices.Contains(forbidden, cfg.Paths.Data) {
			t.Errorf("by nobody %q cannot be written, of which root could write %q", bad, forbidden)
		}
	})
	if syncTime(ro) != 0 {
		t.Error("a disk that cannot be written was measured")
	}
	if syncTime(root) <= 0 {
		t.Error("a disk was not measured")
	}
	if left, _ := filepath.Glob(filepath.Join(root, ".etcdadm-sync-*")); len(left) > 0 {
		t.Errorf("the measuring leaves %q", left)
	}
}

// asNobody has access(2) report in f what a user without rights may do.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	runtime.LockOSThread() // the ID is that of a thread
	defer runtime.UnlockOSThread()
	const nobody, same = 65534, ^uintptr(0)
	before := uintptr(os.Getuid())
	if _, _, err := unix.RawSyscall(unix.SYS_SETREUID, nobody, same, 0); err != 0 {
		t.Skip("another user's rights cannot be taken here")
	}
	defer func() {
		if _, _, err := unix.RawSyscall(unix.SYS_SETREUID, before, same, 0); err != 0 {
			t.Error(err)
		}
	}()
	f()
}
