package etcdproc

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// stray starts a child that no supervisor knows.
func stray(t *testing.T) *exec.Cmd {
	t.Helper()
	cfg := does("stubborn stay")
	cmd := &exec.Cmd{Path: cfg.Path, Args: []string{cfg.Path}, Env: cfg.Env}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("child says %q, %v", line, err)
	}
	return cmd
}

func readRecord(t *testing.T, dir string) record {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, recordName))
	if err != nil {
		t.Fatal(err)
	}
	var r record
	if err := json.Unmarshal(content, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTheRecordIsOfTheProcess(t *testing.T) {
	dir := t.TempDir()
	s, _ := supervise(t, Options{Dir: dir})
	start(t, s, does("stay"))
	r := readRecord(t, dir)
	if r.PID != s.Status().PID || r.Path != does("").Path {
		t.Errorf("record %+v, status %+v", r, s.Status())
	}
	if ok, err := r.lives(); !ok || err != nil {
		t.Errorf("lives = %t, %v", ok, err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ok, err := r.lives(); ok || err != nil {
		t.Errorf("after Stop, lives = %t, %v", ok, err)
	}
}

func TestALeftoverIsKilledBeforeAnythingStarts(t *testing.T) {
	dir := t.TempDir()
	left := stray(t)
	r, err := recordOf(left.Process.Pid, left.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	supervise(t, Options{Dir: dir})
	if alive(left.Process.Pid) {
		t.Error("New returned before the leftover was gone")
	}
	if _, err := os.Stat(filepath.Join(dir, recordName)); err == nil {
		t.Error("the leftover's record is still there")
	}
}

func TestAnotherProcessOfTheSameNumberIsLeftAlone(t *testing.T) {
	tests := map[string]func(*record){
		"made at another time": func(r *record) { r.Start++ },
		"of an earlier boot":   func(r *record) { r.Boot = "00000000-0000-0000-0000-000000000000" },
		"of init's number":     func(r *record) { r.PID = 1 },
		"of no number":         func(r *record) { r.PID = 0 },
		"of a negative number": func(r *record) { r.PID = -r.PID },
	}
	for name, edit := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			other := stray(t)
			r, err := recordOf(other.Process.Pid, other.Path)
			if err != nil {
				t.Fatal(err)
			}
			edit(&r)
			if err := r.write(dir); err != nil {
				t.Fatal(err)
			}
			supervise(t, Options{Dir: dir})
			if !alive(other.Process.Pid) {
				t.Error("an innocent process was killed")
			}
		})
	}
}

func TestARecordThatCannotBeUnderstoodIsRemoved(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, recordName), []byte("12"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := supervise(t, Options{Dir: dir})
	start(t, s, does("stay"))
	if r := readRecord(t, dir); r.PID != s.Status().PID {
		t.Errorf("record %+v", r)
	}
}

func TestAnUnwritableRecordDoesNotStopEtcd(t *testing.T) {
	dir := t.TempDir()
	s, _ := supervise(t, Options{Dir: dir})
	if err := os.Mkdir(filepath.Join(dir, recordName+".tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	start(t, s, does("stay"))
	if st := s.Status(); st.State != cluster.ProcessRunning || !strings.Contains(st.Problem, "pid file") {
		t.Errorf("status %+v, want it to run and to name the problem", st)
	}
	if err := os.Remove(filepath.Join(dir, recordName+".tmp")); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := s.Status(); st.Problem != "" {
		t.Errorf("problem %q, want none any more", st.Problem)
	}
}

func TestADirectoryHasOneSupervisor(t *testing.T) {
	dir := t.TempDir()
	s, _ := supervise(t, Options{Dir: dir})
	start(t, s, does("stay"))
	if _, err := New(t.Context(), Options{Dir: dir}); !errors.Is(err, ErrBusy) {
		t.Fatalf("a second New: %v, want ErrBusy", err)
	}
	if st := s.Status(); !alive(st.PID) {
		t.Error("the second New killed the process of the first")
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	supervise(t, Options{Dir: dir})
}

func TestNewNeedsItsDirectory(t *testing.T) {
	if _, err := New(t.Context(), Options{Dir: filepath.Join(t.TempDir(), "missing")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want that it does not exist", err)
	}
}

func TestTheProcessDiesWithAKilledDaemon(t *testing.T) {
	dir := t.TempDir()
	cfg := does("supervise:" + dir)
	daemon := &exec.Cmd{Path: cfg.Path, Args: []string{cfg.Path}, Env: cfg.Env}
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	var pid int
	if _, scanErr := fmt.Sscanf(line, "child %d <nil>", &pid); err != nil || scanErr != nil || !alive(pid) {
		t.Fatalf("daemon says %q, %v, %v", line, err, scanErr)
	}
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait() // it was killed
	testwait.Until(t, "the end of the child", func() bool { return !alive(pid) })
	// The next daemon begins where this one was cut off.
	s, _ := supervise(t, Options{Dir: dir})
	start(t, s, does("stay"))
}

// The etcd that a killed supervisor was about to start has its lock for a moment.
func TestTheLockOfADeadSupervisor(t *testing.T) {
	dir := t.TempDir()
	dead := exec.Command("/proc/self/exe", "-test.run=^$")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, dead.Process.Pid)
	}
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		t.Fatal(err)
	}
	freed := time.AfterFunc(50*time.Millisecond, func() { f.Close() })
	defer freed.Stop()
	s, err := New(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
