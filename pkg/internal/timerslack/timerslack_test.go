package timerslack

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary, started again with this variable, says what timer slack it has.
const asked = "TIMERSLACK_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(asked) != "" {
		ns, err := get()
		fmt.Print(ns, " ", err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(t *testing.T, start func(*exec.Cmd) error) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd, out := exec.Command(exe), &strings.Builder{}
	cmd.Env, cmd.Stdout = append(os.Environ(), asked+"=1"), out
	if err := start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

const wide = 300 * time.Microsecond

// widen makes the slack of this process wide, where it uses C that of this thread.
func widen(t *testing.T) (before uintptr) {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	before, err := get()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		usual.Store(0)
		if err := Widen(time.Duration(before)); errors.Is(err, syscall.ENOTSUP) {
			_ = set(before)
		}
		usual.Store(0)
	})
	switch err := Widen(wide); {
	case errors.Is(err, syscall.ENOTSUP):
		usual.Store(before)
		err = set(uintptr(wide))
		fallthrough
	case err != nil:
		if err != nil {
			t.Fatal(err)
		}
	}
	return before
}

func TestChildrenWaitAsEver(t *testing.T) {
	before := widen(t)
	if got, want := child(t, Start), fmt.Sprint(before, " <nil>"); got != want {
		t.Errorf("a child has a timer slack of %s, want %s", got, want)
	}
	if now, err := get(); err != nil || now != uintptr(wide) {
		t.Errorf("the thread that started it has %d (%v), want %d", now, err, wide)
	}
	// What makes it necessary.
	if got, want := child(t, (*exec.Cmd).Start), fmt.Sprint(uintptr(wide), " <nil>"); got != want {
		t.Errorf("a child that is started otherwise has a timer slack of %s, want %s", got, want)
	}
}

func TestWithoutWidenChildrenHaveTheParents(t *testing.T) {
	own, err := get()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := child(t, Start), fmt.Sprint(own, " <nil>"); got != want {
		t.Errorf("a child has a timer slack of %s, want %s", got, want)
	}
}

// All threads have it: those that were there before, which Go's own monitor is one of, and new ones.
func TestAllThreadsWaitLonger(t *testing.T) {
	held := make(chan uintptr)
	ask := make(chan struct{})
	go func() { // on a thread of its own
		runtime.LockOSThread()
		held <- 0
		<-ask
		ns, _ := get()
		held <- ns
	}()
	<-held
	if err := Widen(wide); errors.Is(err, syscall.ENOTSUP) {
		close(ask)
		t.Skip("this test uses C: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = Widen(time.Duration(usual.Load()))
		usual.Store(0)
	})
	close(ask)
	if got := <-held; got != uintptr(wide) {
		t.Errorf("a thread of before has %d, want %d", got, wide)
	}
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile("/proc/" + e.Name() + "/timerslack_ns")
		if errors.Is(err, os.ErrPermission) {
			t.Skip(err)
		}
		if got := strings.TrimSpace(string(b)); err == nil && got != fmt.Sprint(uintptr(wide)) {
			t.Errorf("thread %s has %s, want %d", e.Name(), got, wide)
		}
	}
	go func() {
		runtime.LockOSThread()
		ns, _ := get()
		held <- ns
	}()
	if got := <-held; got != uintptr(wide) {
		t.Errorf("a new thread has %d, want %d", got, wide)
	}
}
