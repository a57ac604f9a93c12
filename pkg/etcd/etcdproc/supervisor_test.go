package etcdproc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func TestStartIsIdempotent(t *testing.T) {
	s, out := supervise(t, Options{})
	if st := s.Status(); st.State != cluster.ProcessStopped || st.PID != 0 {
		t.Fatalf("before Start: %+v", st)
	}
	start(t, s, does("stay"))
	first := s.Status()
	if first.State != cluster.ProcessRunning || !alive(first.PID) {
		t.Fatalf("after Start: %+v", first)
	}
	start(t, s, does("stay"))
	if again := s.Status(); again.PID != first.PID {
		t.Errorf("the second Start made pid %d of %d", again.PID, first.PID)
	}
	testwait.Until(t, "the child's word", func() bool { return out.has("ready") })
}

func TestAnotherConfigurationReplacesTheProcess(t *testing.T) {
	s, _ := supervise(t, Options{})
	start(t, s, does("stay"))
	for _, edit := range []func(*Config){
		func(c *Config) { c.Env = append(c.Env, "ETCD_X=1") },
		func(c *Config) { c.Args = []string{"-x"} },
		func(c *Config) { c.WorkDir = "/" },
	} {
		old := s.Status().PID
		cfg := does("stay")
		edit(&cfg)
		start(t, s, cfg)
		if st := s.Status(); st.PID == old || alive(old) || !alive(st.PID) || st.Restarts != 0 {
			t.Errorf("of pid %d came %+v", old, st)
		}
	}
}

func TestConfigIsTheCallersToReuse(t *testing.T) {
	s, _ := supervise(t, Options{})
	cfg := does("stay")
	cfg.Env = append(cfg.Env, "ETCD_NAME=a")
	start(t, s, cfg)
	old := s.Status().PID
	cfg.Env[1] = "ETCD_NAME=b"
	start(t, s, cfg)
	if s.Status().PID == old {
		t.Error("a change in the caller's slice was not seen as another configuration")
	}
}

func TestRestartMakesANewProcessOfTheSameConfiguration(t *testing.T) {
	s, _ := supervise(t, Options{})
	if err := s.Restart(t.Context()); !errors.Is(err, ErrStopped) {
		t.Errorf("restart of nothing: %v, want ErrStopped", err)
	}
	start(t, s, does("stay"))
	old := s.Status().PID
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := s.Status(); st.PID == old || alive(old) || !alive(st.PID) {
		t.Errorf("of pid %d came %+v", old, st)
	}
}

func TestStopIsGraceful(t *testing.T) {
	s, out := supervise(t, Options{StopTimeout: time.Minute})
	start(t, s, does("stay"))
	testwait.Until(t, "the child's word", func() bool { return out.has("ready") })
	pid := s.Status().PID
	for range 2 { // stopping twice is fine
		if err := s.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if alive(pid) {
			t.Fatal("Stop returned before the process was gone")
		}
	}
	st := s.Status()
	if st.State != cluster.ProcessStopped || st.PID != 0 || !strings.HasPrefix(st.LastExit, "signal: terminated after ") {
		t.Errorf("status %+v", st)
	}
	if len(st.LastLines) != 1 || st.LastLines[0] != "ready" {
		t.Errorf("last lines %q", st.LastLines)
	}
}

func TestStopKillsWhoIgnoresIt(t *testing.T) {
	s, out := supervise(t, Options{StopTimeout: 50 * time.Millisecond})
	start(t, s, does("stubborn stay"))
	testwait.Until(t, "the child's word", func() bool { return out.has("ready") })
	pid := s.Status().PID
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if alive(pid) {
		t.Fatal("Stop returned before the process was gone")
	}
	if got := s.Status().LastExit; !strings.HasPrefix(got, "signal: killed after ") ||
		!strings.HasSuffix(got, "as it had not ended 50ms after SIGTERM") {
		t.Errorf("last exit %q", got)
	}
}

func TestStopThatIsCutShortGoesOnByItself(t *testing.T) {
	s, out := supervise(t, Options{StopTimeout: 5 * time.Second})
	cfg := does("stubborn stay")
	start(t, s, cfg)
	testwait.Until(t, "the child's word", func() bool { return out.has("ready") })
	pid := s.Status().PID
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Stop: %v, want the deadline", err)
	}
	if err := s.Restart(t.Context()); !errors.Is(err, ErrStopped) {
		t.Errorf("Restart of what is being stopped: %v, want ErrStopped", err)
	}
	// The same configuration is not what runs any more: it is being stopped.
	start(t, s, cfg)
	if st := s.Status(); st.PID == pid || alive(pid) || !alive(st.PID) {
		t.Errorf("of pid %d came %+v", pid, st)
	}
}

func TestCallsWaitForTheirTurnAsLongAsTheyMay(t *testing.T) {
	s, out := supervise(t, Options{StopTimeout: time.Hour})
	start(t, s, does("stubborn stay"))
	testwait.Until(t, "the child's word", func() bool { return out.has("ready") })
	pid := s.Status().PID
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(context.Background()) }()
	testwait.Until(t, "Stop to have the semaphore", func() bool { return len(s.semaphore) == 0 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Start(ctx, does("stay")); !errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), "earlier start or stop") {
		t.Errorf("Start: %v", err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestWhatDiesComesBack(t *testing.T) {
	died := make(chan string, 9)
	s, _ := supervise(t, Options{Backoff: Backoff{Step: time.Hour}, Died: func(how string) { died <- how }})
	start(t, s, does("stay"))
	old := s.Status().PID
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "a new process", func() bool { pid := s.Status().PID; return pid != 0 && pid != old })
	st := s.Status()
	if st.State != cluster.ProcessRunning || st.Restarts != 1 || !strings.HasPrefix(st.LastExit, "signal: killed after ") {
		t.Errorf("status %+v", st)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if how := <-died; how != st.LastExit || len(died) > 0 {
		t.Errorf("it reports %q, and %d times more", how, len(died))
	}
}

func TestACrashLoopSlowsDownAndShowsWhy(t *testing.T) {
	s, out := supervise(t, Options{Backoff: Backoff{Step: time.Hour}})
	start(t, s, does("print:hello complain:panic mutter:last-words exit:3"))
	// The first death costs no wait, the second an hour.
	testwait.Until(t, "the second death", func() bool { st := s.Status(); return st.Restarts == 1 && st.PID == 0 })
	st := s.Status()
	if st.State != cluster.ProcessCrashing || !strings.HasPrefix(st.LastExit, "exit status 3 after ") {
		t.Errorf("status %+v", st)
	}
	if got := strings.Join(st.LastLines, ","); got != "hello,panic,last-words" {
		t.Errorf("last lines %q", got)
	}
	if got := strings.Join(out.all(), ","); got != "hello,panic,last-words,hello,panic,last-words" {
		t.Errorf("logged %q", got)
	}
	// A stop does not wait for the hour to pass.
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := s.Status(); st.State != cluster.ProcessStopped {
		t.Errorf("status %+v", st)
	}
}

func TestAProcessOfManyDeathsIsCrashingUntilItHasStayedUp(t *testing.T) {
	counter := filepath.Join(t.TempDir(), "deaths")
	s, out := supervise(t, Options{Backoff: Backoff{Step: time.Millisecond, Stable: 12 * time.Second}})
	start(t, s, does("fail-times:"+counter+"=3 stay"))
	testwait.Until(t, "the process that stays", func() bool { return out.has("ready") && s.Status().PID != 0 })
	st := s.Status()
	if st.State != cluster.ProcessCrashing || st.PID == 0 || st.Restarts != 3 {
		t.Errorf("when it is up: %+v", st)
	}
	if len(st.LastLines) != 1 || st.LastLines[0] != "failure 3" {
		t.Errorf("last lines %q, want those of the last failure", st.LastLines)
	}
	testwait.Until(t, "the process to be trusted", func() bool { return s.Status().State == cluster.ProcessRunning })
	later := s.Status()
	if later.PID != st.PID || !later.Since.After(st.Since) || later.LastLines[0] != "ready" {
		t.Errorf("when it has stayed up: %+v", later)
	}
}

func TestDeathsAreForgottenAfterAWhile(t *testing.T) {
	// Each process stays up for longer than Stable, so that none waits the hour.
	s, _ := supervise(t, Options{Backoff: Backoff{Step: time.Hour, Stable: 20 * time.Millisecond}})
	start(t, s, does("for:60ms exit:1"))
	testwait.Until(t, "many restarts", func() bool { return s.Status().Restarts >= 4 })
}

func TestAMissingProgramIsAnErrorAndIsTriedAgain(t *testing.T) {
	s, out := supervise(t, Options{Backoff: Backoff{Step: time.Millisecond, Max: 10 * time.Millisecond}})
	cfg := does("stay")
	program := cfg.Path
	cfg.Path = filepath.Join(t.TempDir(), "etcd")
	for range 2 { // the second time it is the same error, not a second attempt
		if err := s.Start(t.Context(), cfg); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("Start: %v, want that it does not exist", err)
		}
	}
	if st := s.Status(); st.State != cluster.ProcessCrashing || st.PID != 0 || !strings.Contains(st.LastExit, cfg.Path) {
		t.Errorf("status %+v", st)
	}
	if err := os.Symlink(program, cfg.Path); err != nil { // the mount appears
		t.Fatal(err)
	}
	testwait.Until(t, "the process", func() bool { return out.has("ready") && s.Status().PID != 0 })
	start(t, s, cfg)
}

func TestProgramsThatCannotRun(t *testing.T) {
	s, _ := supervise(t, Options{})
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("not a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir: "permission denied", text: "exec format error", "etcd": "not absolute",
	} {
		if err := s.Start(t.Context(), Config{Path: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestTheProcessGetsNothingButWhatItIsGiven(t *testing.T) {
	t.Setenv("ETCD_NAME", "the daemon's")
	s, out := supervise(t, Options{})
	cfg := does("environ stay")
	cfg.Args = []string{"--one", "two"}
	cfg.WorkDir = "/"
	start(t, s, cfg)
	testwait.Until(t, "one variable, the directory and an own process group", func() bool {
		return out.has("environ 1 wd / group true args --one two")
	})
}

func TestChangesAreReported(t *testing.T) {
	s, _ := supervise(t, Options{})
	waitFor := func(what string, ok func(Status) bool) {
		t.Helper()
		deadline := time.After(testwait.Limit)
		for !ok(s.Status()) {
			select {
			case <-s.Changed():
			case <-deadline:
				t.Fatalf("no change led to: %s", what)
			}
		}
	}
	start(t, s, does("stay"))
	waitFor("running", func(st Status) bool { return st.State == cluster.ProcessRunning })
	old := s.Status().PID
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor("running again", func(st Status) bool { return st.PID != 0 && st.PID != old })
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitFor("stopped", func(st Status) bool { return st.State == cluster.ProcessStopped })
}

// The parent death signal is sent when the thread that forked ends. A caller's
// thread must therefore not be the one.
func TestTheProcessOutlivesTheThreadOfItsStarter(t *testing.T) {
	s, _ := supervise(t, Options{})
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and end with it: the runtime ends the thread
		done <- s.Start(context.Background(), does("stay"))
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	pid := s.Status().PID
	// Give threads every reason to come and go.
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			runtime.LockOSThread()
			_, _ = os.ReadFile("/proc/self/stat")
		})
	}
	wg.Wait()
	if st := s.Status(); st.PID != pid || st.Restarts != 0 || !alive(pid) {
		t.Errorf("pid %d became %+v", pid, st)
	}
}

func TestStartsAndStopsInAnyOrderLeaveOneProcessAtMost(t *testing.T) {
	dir := t.TempDir()
	s, out := supervise(t, Options{StopTimeout: 5 * time.Second, Backoff: Backoff{Step: time.Millisecond}})
	alone := "alone:" + filepath.Join(dir, "alone") + " "
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 5 {
				var err error
				switch i {
				case 0:
					err = s.Start(context.Background(), does(alone+"stay"))
				case 1:
					err = s.Start(context.Background(), does(alone+"print:b exit:1"))
				case 2:
					err = s.Stop(context.Background())
				case 3:
					err = s.Restart(context.Background())
				}
				if err != nil && !errors.Is(err, ErrStopped) {
					t.Error(err)
				}
				s.Status()
			}
		})
	}
	wg.Wait()
	start(t, s, does(alone+"stay"))
	for _, line := range out.all() {
		if strings.HasPrefix(line, "DOUBLED") {
			t.Fatal("two processes lived at the same time")
		}
	}
}

func TestAClosedSupervisorDoesNothing(t *testing.T) {
	s, _ := supervise(t, Options{})
	start(t, s, does("stay"))
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context(), does("stay")); !errors.Is(err, ErrClosed) {
		t.Errorf("Start: %v", err)
	}
	if err := s.Restart(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Restart: %v", err)
	}
	if err := s.Stop(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Stop: %v", err)
	}
}

// TestAStopDoesNotWaitForWhatComesBeforeAStart: others are asked before a start,
// which may take long.
func TestAStopDoesNotWaitForWhatComesBeforeAStart(t *testing.T) {
	s, out := supervise(t, Options{})
	cfg := does("stay")
	began := make(chan struct{})
	cfg.Before = func(ctx context.Context) ([]string, error) {
		close(began)
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(testwait.Limit):
			t.Error("nobody asked it to stop")
			return nil, nil
		}
	}
	started := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { started <- s.Start(ctx, cfg) }()
	<-began
	cancel() // the order has ended, the run has not
	if err := <-started; !errors.Is(err, context.Canceled) {
		t.Errorf("start: %v", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if st := s.Status(); out.has("ready") || !strings.Contains(st.LastExit, "it is to stop") {
		t.Errorf("it was started although it was to stop: %+v", st)
	}
}
