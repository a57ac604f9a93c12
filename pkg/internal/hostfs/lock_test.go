package hostfs

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain lets a test run this binary as a second process that takes a lock
// and holds it until its standard input ends.
func TestMain(m *testing.M) {
	if path := os.Getenv("HOSTFS_TEST_LOCK"); path != "" {
		if _, err := Lock(path); err != nil {
			println(err.Error())
			os.Exit(1)
		}
		os.Stdout.WriteString("locked\n")
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestLockRefusesSecondHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Lock(path)
	var locked *LockedError
	if !errors.As(err, &locked) || locked.Path != path || locked.Holder != os.Getpid() {
		t.Fatalf("got %v, want a LockedError with our process id", err)
	}
	if want := fmt.Sprintf("ps -fp %d", os.Getpid()); !strings.HasSuffix(locked.Hint(), want) {
		t.Errorf("the hint is %q, want %q at its end", locked.Hint(), want)
	}
	for range 2 {
		if err := l.Unlock(); err != nil {
			t.Fatal(err)
		}
	}
	wantContent(t, path, "")
	again, err := Lock(path)
	if err != nil {
		t.Fatalf("after unlock: %v", err)
	}
	defer again.Unlock()
}

// A killed process frees its lock, and what it wrote into the file does not
// outlive the next holder.
func TestLockOfAnotherProcessEndsWithIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HOSTFS_TEST_LOCK="+path)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("second process said %q, %v", line, err)
	}

	_, err = Lock(path)
	var locked *LockedError
	if !errors.As(err, &locked) || locked.Holder != cmd.Process.Pid {
		t.Errorf("got %v, want held by %d", err, cmd.Process.Pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // "signal: killed"
	l, err := Lock(path)
	if err != nil {
		t.Fatalf("after the holder was killed: %v", err)
	}
	defer l.Unlock()
	if got := holder(l.f); got != os.Getpid() {
		t.Errorf("lock file names %d, want %d", got, os.Getpid())
	}
}

// A child that has not come to exec has the lock of its dead parent for a moment.
func TestLockOfADeadHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	dead := exec.Command("/proc/self/exe", "-test.run=^$")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	put(t, path, strconv.Itoa(dead.Process.Pid))
	left := func() *os.File {
		t.Helper()
		f, err := os.Open(path)
		if err == nil {
			err = flock(f)
		}
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for range 2 {
		f := left()
		freed := time.AfterFunc(50*time.Millisecond, func() { f.Close() })
		defer freed.Stop()
		if held, err := Held(path); held || err != nil {
			t.Fatalf("held: %t, %v", held, err)
		}
	}
	f := left()
	freed := time.AfterFunc(50*time.Millisecond, func() { f.Close() })
	defer freed.Stop()
	l, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if held, err := Held(path); !held || err != nil { // this process has not ended
		t.Errorf("held: %t, %v", held, err)
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
	// Where it stays locked, the wait ends.
	put(t, path, strconv.Itoa(dead.Process.Pid))
	defer left().Close()
	if _, err := Lock(path); !errors.As(err, new(*LockedError)) {
		t.Errorf("error is %v", err)
	}
}

func TestLockFailures(t *testing.T) {
	dir := t.TempDir()
	if _, err := Lock(dir); err == nil {
		t.Error("a directory was locked")
	}
	if _, err := Lock(filepath.Join(dir, "none", "lock")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want not exist", err)
	}
	for _, content := range []string{"", "not a number", "-4"} {
		path := filepath.Join(dir, "lock")
		put(t, path, content)
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := flock(f); err != nil {
			t.Fatal(err)
		}
		_, err = Lock(path)
		if err == nil || !strings.Contains(err.Error(), "locked by another process") {
			t.Errorf("content %q: got %v", content, err)
		}
		f.Close()
	}
}

// The process id is a courtesy; without room for it the lock still holds.
func TestLockOnFullDisk(t *testing.T) {
	dir := tinyDisk(t)
	path := filepath.Join(dir, "lock")
	put(t, path, "")
	_ = os.WriteFile(filepath.Join(dir, "fill"), make([]byte, 128<<10), 0o600) // ENOSPC is the point
	l, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	var locked *LockedError
	if _, err := Lock(path); !errors.As(err, &locked) {
		t.Fatalf("got %v, want LockedError", err)
	}
}
