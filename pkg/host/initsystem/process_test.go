package initsystem_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdproc"
	"github.com/etcdadm/etcdadm/pkg/host/initsystem"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// etcd plays an etcd that does what the words say.
func etcd(words []string) int {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	for _, word := range words {
		verb, arg, _ := strings.Cut(word, ":")
		switch verb {
		case "print":
			fmt.Println(arg)
		case "ready":
			conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: os.Getenv("NOTIFY_SOCKET"), Net: "unixgram"})
			if err == nil {
				_, err = conn.Write([]byte("READY=1"))
			}
			if err != nil {
				fmt.Println(err)
			}
		case "alone": // say so if another one with the same file lives
			f, err := os.OpenFile(arg, os.O_CREATE|os.O_RDWR, 0o600)
			if err == nil {
				err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
			}
			if err != nil {
				fmt.Println("DOUBLED", err)
			}
			fmt.Println("alone", os.Getpid())
			defer f.Close()
		case "slow":
			time.Sleep(300 * time.Millisecond)
		case "stay":
			<-terminated
			fmt.Println("terminated")
			return 0
		case "exit":
			code, _ := strconv.Atoi(arg)
			return code
		}
	}
	return 0
}

// A host is a machine without an init system.
type host struct {
	dir, env string
	sys      initsystem.System
	options  initsystem.Options
}

func newHost(t *testing.T, words string) *host {
	t.Helper()
	base := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := &host{dir: filepath.Join(base, "state", "run"), env: filepath.Join(base, "etcd.env")}
	if err := os.Symlink(self, filepath.Join(base, "etcd")); err != nil {
		t.Fatal(err)
	}
	h.does(t, words)
	h.options = initsystem.Options{
		Kind: "process", Dir: h.dir, Etcd: filepath.Join(base, "etcd"), EnvFile: h.env, Run: []string{self, "run"},
	}
	h.sys = newSystem(t, h.options)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := h.sys.Stop(ctx); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(h.log())
		}
	})
	return h
}

// does sets what the next etcd does.
func (h *host) does(t *testing.T, words string) {
	t.Helper()
	write(t, h.env, "ETCD_TEST=\""+words+"\"\nGORACE=atexit_sleep_ms=0\n", 0o600)
}

func (h *host) log() string {
	b, _ := os.ReadFile(filepath.Join(h.dir, "etcd.log"))
	return string(b)
}

// says waits until the log has a text: what an etcd prints comes by way of its
// supervisor, later than that it is ready.
func (h *host) says(t *testing.T, text string) {
	t.Helper()
	testwait.Until(t, "etcd to say "+text, func() bool { return strings.Contains(h.log(), text) })
}

// await waits for a state.
func (h *host) await(t *testing.T, want initsystem.State) initsystem.Status {
	t.Helper()
	var st initsystem.Status
	testwait.Until(t, string(want), func() bool {
		st = status(t, h.sys)
		return st.State == want
	})
	return st
}

// pids returns the supervisor and its etcd, as the status file has them.
func (h *host) pids(t *testing.T) (supervisor, etcd int) {
	t.Helper()
	testwait.Until(t, "both processes on the status file", func() bool {
		b, _ := os.ReadFile(filepath.Join(h.dir, "run.json"))
		if n, _ := fmt.Sscanf(string(b), `{"supervisor":{"pid":%d,`, &supervisor); n != 1 {
			return false
		}
		_, rest, ok := strings.Cut(string(b), `"etcd":{"pid":`)
		if !ok {
			return false
		}
		n, _ := fmt.Sscanf(rest, "%d", &etcd)
		return n == 1
	})
	return supervisor, etcd
}

// alive reports whether a process does anything. A dead child of the test that
// nobody has waited for does not.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

func TestProcessFromStartToEnd(t *testing.T) {
	t.Parallel()
	h := newHost(t, "print:hello ready stay")
	if st := status(t, h.sys); st.State != initsystem.Absent || st.Enabled {
		t.Errorf("at first: %+v", st)
	}
	mustDo(t, h.sys.Stop)
	mustDo(t, h.sys.Start)
	st := h.await(t, initsystem.Running)
	supervisor, etcd := h.pids(t)
	if !st.Enabled || st.PID != etcd {
		t.Errorf("%+v, log %s", st, h.log())
	}
	h.says(t, "hello\n")
	if sid, err := syscall.Getpgid(supervisor); err != nil || sid != supervisor {
		t.Errorf("the supervisor is in the group %d (%v)", sid, err)
	}
	mustDo(t, h.sys.Start)
	mustDo(t, h.sys.Reload)
	if again, same := h.pids(t); again != supervisor || same != etcd {
		t.Errorf("a second start has started something: %d, %d", again, same)
	}
	mustDo(t, h.sys.Stop)
	if alive(supervisor) || alive(etcd) || !strings.Contains(h.log(), "terminated\n") {
		t.Errorf("after Stop: supervisor %v, etcd %v, log %s", alive(supervisor), alive(etcd), h.log())
	}
	if st := status(t, h.sys); st.State != initsystem.Stopped || st.Enabled {
		t.Errorf("%+v", st)
	}
	mustDo(t, h.sys.Stop)
}

func TestProcessStartsWithoutWaitingForEtcd(t *testing.T) {
	t.Parallel()
	h := newHost(t, "stay") // never ready
	mustDo(t, h.sys.Start)
	if st := status(t, h.sys); st.State != initsystem.Starting || !strings.Contains(st.Detail, "not ready yet") {
		t.Errorf("%+v", st)
	}
	mustDo(t, h.sys.Stop)
}

func TestProcessRestartReadsTheFilesAgain(t *testing.T) {
	t.Parallel()
	h := newHost(t, "print:one ready stay")
	mustDo(t, h.sys.Start)
	before := h.await(t, initsystem.Running)
	h.does(t, "print:two ready stay")
	mustDo(t, h.sys.Restart)
	after := h.await(t, initsystem.Running)
	if alive(before.PID) || before.PID == after.PID {
		t.Errorf("before %+v, after %+v, log %s", before, after, h.log())
	}
	h.says(t, "two\n")
}

// Whoever launched a supervisor was killed before that was on record.
func TestProcessThatNobodyKnowsOf(t *testing.T) {
	t.Parallel()
	h := newHost(t, "ready stay")
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	quiet, err := etcdproc.New(t.Context(), etcdproc.Options{Dir: h.dir, Log: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error, 1)
	go func() { started <- h.sys.Start(t.Context()) }()
	testwait.Until(t, "the second to give way", func() bool {
		b, _ := os.ReadFile(filepath.Join(h.dir, "run.err"))
		return strings.Contains(string(b), initsystem.ErrSupervised.Error())
	})
	if err := quiet.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := h.options
	unknown := exec.Command(o.Run[0], append(o.Run[1:], "--etcd="+o.Etcd, "--env-file="+o.EnvFile, "--dir="+o.Dir,
		"--log-file="+filepath.Join(o.Dir, "etcd.log"))...)
	if err := unknown.Start(); err != nil {
		t.Fatal(err)
	}
	if err := <-started; err != nil {
		t.Error(err)
	}
	if st := h.await(t, initsystem.Running); st.PID == 0 {
		t.Errorf("%+v", st)
	}
	mustDo(t, h.sys.Stop)
	if err := unknown.Wait(); err != nil {
		t.Errorf("the one that ran ended with %v", err)
	}
}

func TestProcessThatCrashes(t *testing.T) {
	t.Parallel()
	h := newHost(t, "print:why exit:3")
	mustDo(t, h.sys.Start)
	st := h.await(t, initsystem.Crashing)
	if !strings.Contains(st.Detail, "exit status 3") || len(st.LastLines) != 1 || st.LastLines[0] != "why" {
		t.Errorf("%+v", st)
	}
	mustDo(t, h.sys.Stop)
	if st := status(t, h.sys); st.State != initsystem.Stopped {
		t.Errorf("%+v", st)
	}
}

func TestProcessThatIsKilledIsBack(t *testing.T) {
	t.Parallel()
	h := newHost(t, "ready stay")
	mustDo(t, h.sys.Start)
	before := h.await(t, initsystem.Running)
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "another etcd", func() bool {
		st := status(t, h.sys)
		return st.State == initsystem.Running && st.PID != before.PID && st.PID != 0
	})
}

func TestKilledSupervisorTakesItsEtcdAlong(t *testing.T) {
	t.Parallel()
	alone := filepath.Join(t.TempDir(), "alone")
	h := newHost(t, "alone:"+alone+" ready stay")
	mustDo(t, h.sys.Start)
	h.await(t, initsystem.Running)
	said := func(etcd int) {
		testwait.Until(t, "etcd to say whether it is alone", func() bool {
			return strings.Contains(h.log(), fmt.Sprintf("alone %d\n", etcd)) || strings.Contains(h.log(), "DOUBLED")
		})
	}
	for range 5 {
		supervisor, etcd := h.pids(t)
		said(etcd)
		if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		testwait.Until(t, "the supervisor's end", func() bool { return !alive(supervisor) })
		mustDo(t, h.sys.Start) // whether or not its etcd has ended
		now, _ := h.pids(t)
		if alive(etcd) || alive(supervisor) || now == supervisor {
			t.Fatalf("supervisor %d (%v), etcd %d (%v), now %d", supervisor, alive(supervisor), etcd, alive(etcd), now)
		}
		h.await(t, initsystem.Running)
	}
	_, etcd := h.pids(t)
	said(etcd)
	if strings.Contains(h.log(), "DOUBLED") {
		t.Error(h.log())
	}
}

func TestStopAfterTheSupervisorWasKilled(t *testing.T) {
	t.Parallel()
	h := newHost(t, "ready stay")
	mustDo(t, h.sys.Start)
	supervisor, etcd := h.pids(t)
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	mustDo(t, h.sys.Stop)
	if alive(supervisor) || alive(etcd) {
		t.Errorf("supervisor %v, etcd %v", alive(supervisor), alive(etcd))
	}
	if _, err := os.Stat(filepath.Join(h.dir, "run.json")); err == nil {
		t.Error("the status file of the killed supervisor is still there")
	}
}

// TestStatusFileOfTheDead has status files that name processes which are not ours.
func TestStatusFileOfTheDead(t *testing.T) {
	t.Parallel()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	for name, process := range map[string]string{
		"its number is used again": fmt.Sprintf(`{"pid":%d,"start":1,"boot":%q}`, os.Getpid(),
			strings.TrimSpace(string(boot))),
		"of another boot": fmt.Sprintf(`{"pid":%d,"start":1,"boot":"x"}`, os.Getpid()),
		"no such process": `{"pid":4194304,"start":1,"boot":"x"}`,
		"no process":      `{"pid":0}`,
		"a group":         `{"pid":-1}`,
	} {
		h := newHost(t, "ready stay")
		write(t, filepath.Join(h.dir, "run.json"),
			fmt.Sprintf(`{"supervisor":%s,"etcd":%s,"state":"running"}`, process, process), 0o600)
		if st := status(t, h.sys); st.State != initsystem.Stopped {
			t.Errorf("%s: %+v", name, st)
		}
		mustDo(t, h.sys.Stop) // this test goes on
		mustDo(t, h.sys.Start)
		h.await(t, initsystem.Running)
	}
}

func TestStatusFileThatCannotBeRead(t *testing.T) {
	t.Parallel()
	h := newHost(t, "ready stay")
	path := filepath.Join(h.dir, "run.json")
	write(t, path, "nonsense", 0o600)
	for name, do := range map[string]func(context.Context) error{
		"Start": h.sys.Start, "Stop": h.sys.Stop, "Restart": h.sys.Restart} {
		if err := do(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func TestManyStartsAtOnce(t *testing.T) {
	t.Parallel()
	alone := filepath.Join(t.TempDir(), "alone")
	h := newHost(t, "alone:"+alone+" ready stay")
	var all sync.WaitGroup
	for range 4 {
		other := newSystem(t, h.options)
		all.Go(func() {
			if err := other.Start(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	h.await(t, initsystem.Running)
	h.says(t, "alone ")
	if log := h.log(); strings.Contains(log, "DOUBLED") || strings.Count(log, "alone ") != 1 {
		t.Error(log)
	}
}

func TestProcessThatCannotStart(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(h *host)
		want   string
	}{
		{"no etcd", func(h *host) { h.options.Etcd += "d" }, "exit status 1"},
		{"no environment", func(h *host) { h.options.EnvFile += "d" }, "no such file or directory"},
		{"no such command", func(h *host) { h.options.Run = append(h.options.Run, "--nonsense") }, "unknown flag --nonsense"},
		{"no program", func(h *host) { h.options.Run = []string{"/nonsense"} }, "/nonsense"},
		{"a file in the way", func(h *host) { h.options.Dir = h.env + "/run" }, "file exists"},
	}
	for _, tt := range tests {
		h := newHost(t, "stay")
		tt.change(h)
		s := newSystem(t, h.options)
		err := s.Start(t.Context())
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want ... %s", tt.name, err, tt.want)
		}
		var start *initsystem.StartError
		if errors.As(err, &start) && !strings.Contains(start.Hint(), "etcd.log") {
			t.Errorf("%s: hint %q", tt.name, start.Hint())
		}
		if tt.name == "a file in the way" {
			continue
		}
		if st := status(t, s); st.State != initsystem.Stopped {
			t.Errorf("%s: %+v", tt.name, st)
		}
	}
}

func TestStartGivesUpOnASupervisorThatSaysNothing(t *testing.T) {
	t.Parallel()
	h := newHost(t, "stay")
	script := filepath.Join(t.TempDir(), "mute")
	write(t, script, "#!/bin/sh\necho $$ > "+script+".pid\nexec sleep 60\n", 0o755)
	h.options.Run = []string{script}
	s := newSystem(t, h.options)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Start(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	testwait.Until(t, "its end", func() bool { return status(t, s).State == initsystem.Stopped })
}

func TestStopThatHasNoTime(t *testing.T) {
	t.Parallel()
	h := newHost(t, "ready slow stay")
	h.does(t, "ready stay slow") // its end takes a moment longer
	mustDo(t, h.sys.Start)
	h.await(t, initsystem.Running)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.sys.Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	mustDo(t, h.sys.Stop) // goes on where the first has left off
}
