package top

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/testing/testpty"
)

// drawer is the variable that makes the test's program one that draws until it is ended.
const drawer = "TEST_TOP_DRAWS"

func TestMain(m *testing.M) {
	if os.Getenv(drawer) == "" {
		os.Exit(m.Run())
	}
	screen, leave, ok := OnTerminal(os.Stdout)
	if !ok {
		os.Exit(3)
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGUSR1) // before it draws, as what is drawn makes others send it
	if err := screen.Show("drawn\n"); err != nil {
		os.Exit(4)
	}
	for n := 0; ; n++ {
		select {
		case <-again:
			_ = screen.Show(fmt.Sprintf("page %d\n", n))
		case <-end:
			leave()
			os.Exit(0)
		}
	}
}

// A process that is stopped leaves the terminal as it was, and draws on when it is continued,
// as often as that happens.
func TestSuspend(t *testing.T) {
	p := testpty.Open(t, 80, 24)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), drawer+"=1", "TERM=xterm")
	cmd.Stdout = p.Program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	send := func(s syscall.Signal) {
		t.Helper()
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	p.Until(t, enter)
	p.Until(t, "drawn")
	for n := range 2 {
		send(syscall.SIGTSTP)
		if shown := p.Until(t, leave); strings.Contains(shown, enter) {
			t.Errorf("before it stops: %q", shown)
		}
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if err != nil || pid != cmd.Process.Pid || !status.Stopped() || status.StopSignal() != syscall.SIGSTOP {
			t.Fatalf("it is not stopped: %v %v", status, err)
		}
		send(syscall.SIGUSR1)
		send(syscall.SIGCONT)
		if shown := p.Until(t, enter); strings.Contains(shown, "page") {
			t.Errorf("drawn on the terminal of others: %q", shown)
		}
		p.Until(t, fmt.Sprintf("page %d", n))
	}
	send(syscall.SIGTERM)
	p.Until(t, leave)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// Where no shell could continue it, as in a session of its own, it is not stopped, and goes on.
func TestSuspendWithoutAShell(t *testing.T) {
	p := testpty.Open(t, 80, 24)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), drawer+"=1", "TERM=xterm")
	cmd.Stdout = p.Program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	p.Until(t, "drawn")
	for _, s := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGUSR1} {
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	if shown := p.Until(t, "page 0"); strings.Contains(shown, leave) {
		t.Errorf("%q", shown)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.Until(t, leave)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
