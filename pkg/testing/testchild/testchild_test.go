package testchild

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Threads that end take nothing with them that was started here.
func TestAProgramOutlivesThreads(t *testing.T) {
	var programs []*exec.Cmd
	for range 8 {
		cmd := exec.Command("sleep", "600")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := Start(cmd); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}()
		programs = append(programs, cmd)
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() { runtime.LockOSThread() }) // and never unlock it
		}
		all.Wait()
	}
	for _, cmd := range programs {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			t.Errorf("one is gone: %s, %v", stat, err)
		}
		if group, err := syscall.Getpgid(cmd.Process.Pid); err != nil || group != cmd.Process.Pid {
			t.Errorf("its group is %d, %v", group, err)
		}
	}
}

const childVariable = "ETCDADM_TESTCHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("sleep", "600")
	if err := Start(cmd); err != nil {
		os.Exit(3)
	}
	os.Stdout.WriteString(strconv.Itoa(cmd.Process.Pid) + "\n")
	time.Sleep(time.Minute)
}

// Also a process that is killed takes its programs with it.
func TestAProgramDoesNotOutliveTheTest(t *testing.T) {
	self := exec.Command(os.Args[0])
	self.Env = append(os.Environ(), childVariable+"=1")
	out, err := self.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := Start(self); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 100)
	n, err := out.Read(said)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(said[:n])))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("its program does not run: %v", err)
	}
	_ = self.Process.Kill()
	_ = self.Wait()
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(until) {
			t.Fatal("its program lives on")
		}
	}
}

func TestAProgramThatIsNotThere(t *testing.T) {
	if err := Start(exec.Command("/nowhere/at/all")); err == nil {
		t.Error("it starts")
	}
}
