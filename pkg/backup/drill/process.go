package drill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/internal/timerslack"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// Priorities of what a drill runs: it must not slow down the member beside it.
const (
	niceLeast = 19
	// Best effort, the last of its classes (linux/ioprio.h). The class "idle" could
	// wait forever beside a busy etcd.
	ioLeast      = 2<<13 | 7
	ioWhoProcess = 1
)

// quietly runs f, and what f starts, at the lowest priority. The priority is
// that of a thread, which is not used for anything else afterwards: f is the
// last thing that it does.
func quietly(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked
		// Without these it is only less considerate.
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, niceLeast)
		_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ioWhoProcess, 0, ioLeast)
		f()
	}()
	<-done
}

// stopTime is how long an etcd that was killed may take to be gone.
const stopTime = 10 * time.Second

// A process is the etcd of a trial.
type process struct {
	cmd  *exec.Cmd
	said *tail
	// gone is closed when it has ended.
	gone chan struct{}
}

// socket is the name of the one that clients use, relative to the directory in
// which etcd runs: etcd wants the form of host and port.
const socket = "client:1"

// quota is etcd's largest suggested one.
const quota = 8 << 30

// start runs etcd on a data directory of about a size. It must be called by a thread that
// lives as long as etcd is to: etcd is killed when that ends.
func start(etcd, dir, data string, size int64) (*process, error) {
	p := &process{said: &tail{}, gone: make(chan struct{})}
	p.cmd = exec.Command(etcd,
		"--name="+memberName, "--data-dir="+data,
		"--listen-client-urls=unix://"+socket, "--advertise-client-urls=unix://"+socket,
		"--listen-peer-urls=unix://peer:1",
		// What it writes is thrown away.
		"--unsafe-no-fsync", "--logger=zap", "--log-level=warn",
		// It shall serve what is there, and not raise an alarm for its size. etcd
		// reserves as many addresses.
		"--quota-backend-bytes="+strconv.FormatInt(2*size+quota, 10),
	)
	p.cmd.Dir = dir
	p.cmd.Env = []string{} // an ETCD_* variable of ours is not for it
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	p.cmd.WaitDelay = time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := timerslack.Start(p.cmd); err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	go func() {
		defer close(p.gone)
		_ = p.cmd.Wait() // what it died of is in ProcessState
	}()
	return p, nil
}

// kill ends the process and returns when it is gone. It has nothing to save.
func (p *process) kill() error {
	// It may have ended by itself.
	_ = p.cmd.Process.Kill()
	select {
	case <-p.gone:
		return nil
	case <-time.After(stopTime):
		return fmt.Errorf("etcd (pid %d) does not end", p.cmd.Process.Pid)
	}
}

// died is the error for a process that has ended by itself.
func (p *process) died() error {
	return fmt.Errorf("etcd ended (%s); its output: %s", p.cmd.ProcessState, p.said)
}

// peakMemory returns the most memory that the process has had so far, in
// bytes, zero if the kernel does not report.
func (p *process) peakMemory() int64 {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// tailSize is how much of what etcd says is kept.
const tailSize = 16 << 10

// maxSaid is how much of it an error carries.
const maxSaid = 1 << 10

// A tail keeps the end of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, b...)
	t.b = t.b[max(0, len(t.b)-tailSize):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := bytes.Split(bytes.TrimSpace(t.b), []byte("\n"))
	// What follows a panic is where it was, not what.
	for i, line := range lines {
		if bytes.HasPrefix(line, []byte("panic: ")) {
			lines = lines[:i+1]
			break
		}
	}
	text := bytes.Join(lines[max(0, len(lines)-2):], []byte("; "))
	return string(text[max(0, len(text)-maxSaid):])
}

// askInterval is the pause between two questions to an etcd that is starting.
const askInterval = 10 * time.Millisecond

// errEnded says that a context ended while etcd was waited for.
var errEnded = errors.New("etcd did not serve in time")

// await calls ask until it succeeds, the process ends or the context does.
func (p *process) await(ctx context.Context, ask func(context.Context) error) error {
	for {
		try, cancel := context.WithTimeout(ctx, time.Second)
		err := ask(try)
		cancel()
		if err == nil {
			return nil
		}
		stopped := wait.Until(ctx, askInterval, p.gone)
		select {
		case <-p.gone:
			return p.died()
		default:
		}
		if stopped != nil {
			return fmt.Errorf("%w: %w; the last answer: %w; its output: %s", errEnded, stopped, err, p.said)
		}
	}
}
