package etcdproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/etcdadm/etcdadm/pkg/internal/timerslack"
)

// outputDelay is how long output of a dead process is waited for. Only a
// process that it has left behind can still hold the other end.
const outputDelay = 2 * time.Second

// A run keeps one configuration running, from a Start to the next Stop. Its
// process is used by the goroutine of keep, and by Drain.
type run struct {
	s   *Supervisor
	cfg Config
	// stopping belongs to whoever has the supervisor's semaphore; stop is closed when
	// it becomes true.
	stopping bool
	stop     chan struct{}
	// grace is the time between SIGTERM and SIGKILL. It is set before stop is
	// closed.
	grace time.Duration
	// done is closed when no process is left.
	done chan struct{}
	// process is the one that was started last, nil before.
	process atomic.Pointer[os.Process]
	// first gets the result of the first start.
	first chan error
}

// A child is one process.
type child struct {
	cmd   *exec.Cmd
	began time.Time
	// exited gets one value when the process has been reaped and its output has
	// been passed on: how it ended.
	exited chan string
}

// keep starts the process, and starts it again whenever it is down, until
// stop is closed.
//
// It holds on to its operating system thread. The kernel sends the parent
// death signal when the *thread* that made a process ends, not when the
// process does (prctl(2); golang/go#27505), and the Go runtime ends threads as
// it likes, unless a goroutine is locked to them.
//
// It outlives the Start, whose ctx it takes the values of.
func (r *run) keep(ctx context.Context) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(r.done)
	ctx = context.WithoutCancel(ctx)
	for failures := 0; ; {
		c, err := r.spawn(ctx)
		if err != nil {
			r.s.statusFile.spawnFailed(err)
		} else {
			r.process.Store(c.cmd.Process)
			r.record(c)
			r.s.statusFile.started(c.cmd.Process.Pid, failures)
		}
		select {
		case r.first <- err:
		default: // not the first start
		}
		if c != nil {
			steady, stopped := r.attend(ctx, c)
			if steady {
				failures = 0
			}
			if stopped {
				break
			}
		}
		failures++
		if !r.pause(r.s.opts.Backoff.delay(failures)) {
			break
		}
	}
	r.s.statusFile.problem(removeRecord(r.s.opts.Dir))
	r.s.statusFile.stopped()
}

// attend watches a process until it is gone. It returns whether the process
// was to stop, and if not, whether it had stayed up for a while before it died.
func (r *run) attend(ctx context.Context, c *child) (steady, stopped bool) {
	stable := time.NewTimer(r.s.opts.Backoff.Stable)
	defer stable.Stop()
	for {
		select {
		case how := <-c.exited:
			r.s.statusFile.died(how)
			r.s.opts.Died(how)
			return time.Since(c.began) >= r.s.opts.Backoff.Stable, false
		case <-stable.C:
			r.s.statusFile.steady()
		case <-r.stop:
			r.s.statusFile.ended(r.terminate(ctx, c))
			return false, true
		}
	}
}

// terminate asks the process to go, has its clients and peers go, and makes it go if it does not.
func (r *run) terminate(ctx context.Context, c *child) (how string) {
	timeout := time.NewTimer(r.grace)
	defer timeout.Stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Signalling fails only where the process has just ended by itself.
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	clients := make(chan string, 1)
	go func() { clients <- cutOff(ctx, c.cmd.Process, r.cfg.ClientPorts, r.cfg.PeerPorts) }()
	select {
	case how = <-c.exited:
	case <-timeout.C:
		_ = c.cmd.Process.Kill()
		how = fmt.Sprintf("%s, as it had not ended %s after SIGTERM", <-c.exited, r.grace)
	}
	cancel()
	// The process has ended, and prints nothing at the same time.
	select {
	case text := <-clients:
		if text != "" {
			r.s.opts.Log(text)
		}
	case <-time.After(cutDelay): // the kernel does not answer
	}
	return how
}

// pause waits, and reports whether to go on.
func (r *run) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.stop:
		return false
	case <-timer.C:
	}
	select { // with a pause of nothing, both may have been ready
	case <-r.stop:
		return false
	default:
		return true
	}
}

// spawn starts the program. When it returns without error, the program itself
// runs (the exec has succeeded).
func (r *run) spawn(ctx context.Context) (*child, error) {
	more, err := r.before(ctx)
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	out := &lineWriter{emit: r.s.statusFile.line(r.s.opts.Log)}
	cmd := &exec.Cmd{
		Path: r.cfg.Path,
		Args: append([]string{r.cfg.Path}, r.cfg.Args...),
		// nil would mean the daemon's; of two by one name, the last counts
		Env:       append(append([]string{}, r.cfg.Env...), more...),
		Dir:       r.cfg.WorkDir,
		Stdout:    out,
		Stderr:    out,
		WaitDelay: outputDelay,
		SysProcAttr: &syscall.SysProcAttr{
			// The process dies with the daemon, see keep.
			Pdeathsig: syscall.SIGKILL,
			// A Ctrl-C on the terminal is for the daemon, which then stops etcd.
			Setpgid: true,
		},
	}
	if err := timerslack.Start(cmd); err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	_ = yieldMemory(cmd.Process.Pid) // a preference, no more
	c := &child{cmd: cmd, began: time.Now(), exited: make(chan string, 1)}
	go func() {
		err := cmd.Wait()
		out.flush()
		c.exited <- describe(cmd.ProcessState, err, time.Since(c.began))
	}()
	return c, nil
}

// before calls what is to be done before the start, which does not take place if
// the process is to stop meanwhile.
func (r *run) before(ctx context.Context) ([]string, error) {
	if r.cfg.Before == nil {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-r.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	more, err := r.cfg.Before(ctx)
	select {
	case <-r.stop:
		return nil, errStopping
	default:
		return more, err
	}
}

// errStopping is why a process that is to stop is not started.
var errStopping = errors.New("it is to stop")

// record writes the pid file. Where that is not possible (a full disk) the
// process runs nevertheless: it still dies with the daemon, and etcd's own
// locks keep a second etcd out of its data.
func (r *run) record(c *child) {
	rec, err := recordOf(c.cmd.Process.Pid, r.cfg.Path)
	if errors.Is(err, errGone) {
		return // it has died already
	}
	if err == nil {
		err = rec.write(r.s.opts.Dir)
	}
	r.s.statusFile.problem(err)
}

// describe says how a process ended: "exit status 1 after 2.1s".
func describe(ps *os.ProcessState, err error, ran time.Duration) string {
	if ps == nil {
		return fmt.Sprintf("unknown end (%v)", err)
	}
	return fmt.Sprintf("%s after %s", ps, ran.Round(time.Millisecond))
}
