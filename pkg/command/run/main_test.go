package run

import (
	"bytes"
	"context"
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

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// The test binary is also "etcdadm run", and an etcd through a link of that
// name.
func TestMain(m *testing.M) {
	switch {
	case filepath.Base(os.Args[0]) == "etcd":
		os.Exit(etcd(strings.Fields(os.Getenv("ETCD_TEST"))))
	case len(os.Args) > 1 && os.Args[1] == "run":
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		root := cli.Group("etcdadm", "")
		root.AddCommand(New())
		code := cli.Run(ctx, root, os.Args[1:])
		stop()
		os.Exit(code)
	}
	// Otherwise the race detector makes each of these processes last a second.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// etcd plays an etcd that does what the words say.
func etcd(words []string) int {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	for _, word := range words {
		verb, arg, _ := strings.Cut(word, ":")
		switch verb {
		case "print":
			fmt.Println(arg)
		case "environ":
			for _, v := range os.Environ() {
				fmt.Println("env", v)
			}
		case "count":
			n, _ := strconv.Atoi(arg)
			for i := range n {
				fmt.Println("line", i)
			}
		case "ready":
			if err := notifyReady(os.Getenv(notifySocket)); err != nil {
				fmt.Println(err)
			}
		case "stay":
			fmt.Println("stays", os.Getpid())
			<-terminated
			fmt.Println("terminated")
		case "stubborn":
			signal.Ignore(syscall.SIGTERM)
		case "exit":
			code, _ := strconv.Atoi(arg)
			return code
		}
	}
	return 0
}

// output collects what a process prints.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// A foreground is an "etcdadm run" that the test has started.
type foreground struct {
	cmd      *exec.Cmd
	out, err output
	ended    chan struct{}
	code     int
}

func (f *foreground) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := f.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// wait returns the exit code, -1 for a signal.
func (f *foreground) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-f.ended:
	case <-time.After(testwait.Limit):
		t.Fatalf("it does not end: %s%s", f.out.String(), f.err.String())
	}
	return f.code
}

// place is a directory with an etcd and its environment.
type place struct {
	dir, etcd, env string
}

func newPlace(t *testing.T, words string) place {
	t.Helper()
	dir := t.TempDir()
	p := place{dir: filepath.Join(dir, "state"), etcd: filepath.Join(dir, "etcd"), env: filepath.Join(dir, "etcd.env")}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, p.etcd); err != nil {
		t.Fatal(err)
	}
	text := "# a comment\nETCD_TEST=\"" + words + "\"\nGORACE=atexit_sleep_ms=0\nNOTIFY_SOCKET=/nowhere\n"
	if err := os.WriteFile(p.env, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p place) args(more ...string) []string {
	return append([]string{"run", "--dir=" + p.dir, "--etcd=" + p.etcd, "--env-file=" + p.env}, more...)
}

// run starts the command; it is killed when the test ends.
func run(t *testing.T, env []string, args ...string) *foreground {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := &foreground{cmd: exec.Command(self, args...), ended: make(chan struct{})}
	f.cmd.Env = append(os.Environ(), env...)
	f.cmd.Stdout, f.cmd.Stderr = &f.out, &f.err
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(f.ended)
		_ = f.cmd.Wait() // the code says it
		f.code = f.cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		_ = f.cmd.Process.Kill()
		<-f.ended
		if t.Failed() {
			t.Logf("stdout:\n%s\nstderr:\n%s", f.out.String(), f.err.String())
		}
	})
	return f
}

func (f *foreground) awaits(t *testing.T, text string) {
	t.Helper()
	testwait.Until(t, text, func() bool { return strings.Contains(f.out.String()+f.err.String(), text) })
}

// etcdPID is the process that a playing etcd which stays has printed last.
func (f *foreground) etcdPID(t *testing.T) (pid int) {
	t.Helper()
	testwait.Until(t, "etcd to stay", func() bool {
		out := f.out.String()
		n, _ := fmt.Sscanf(out[max(0, strings.LastIndex(out, "stays ")):], "stays %d\n", &pid)
		return n == 1
	})
	return pid
}

// listen returns a socket for NOTIFY_SOCKET, and what comes in there.
func listen(t *testing.T) (name string, messages chan string) {
	t.Helper()
	name = "@etcdadm-test/" + strconv.Itoa(os.Getpid()) + t.Name()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	messages = make(chan string, 10)
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 1<<10)
		for {
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			messages <- string(b[:n])
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	return name, messages
}
