package initsystem

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

const (
	// launchTimeout bounds the wait for a supervisor to have started etcd. It
	// first makes sure that no etcd of an earlier one is left, which may take 10 s.
	launchTimeout = 30 * time.Second
	// logName is etcd's output, complaintName that of a supervisor which could
	// not even open the log.
	logName       = "etcd.log"
	complaintName = "run.err"
)

// ErrSupervised is what "etcdadm run" ends with where another one has its directory.
var ErrSupervised = errors.New("a supervisor of etcd runs already")

// A supervised etcd is kept running by "etcdadm run", a process in the
// background. Nothing starts that after a reboot.
type supervised struct {
	dir     string
	command []string
	// child is the supervisor that this value has started, until it is reaped; 0
	// for none.
	child int
	// ended is how the last child ended.
	ended string
}

func newProcess(o Options) (*supervised, error) {
	for what, path := range map[string]string{
		"supervisor's directory": o.Dir, "path of etcd": o.Etcd, "path of the environment file": o.EnvFile,
	} {
		if !filepath.IsAbs(path) {
			return nil, fmt.Errorf("%s %q is not absolute", what, path)
		}
	}
	run := o.Run
	if len(run) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		run = []string{self, "run"}
	}
	command := append(append([]string{}, run...),
		"--etcd="+o.Etcd, "--env-file="+o.EnvFile, "--dir="+o.Dir, "--log-file="+filepath.Join(o.Dir, logName))
	if o.Require != "" {
		command = append(command, "--require="+o.Require)
	}
	return &supervised{dir: o.Dir, command: command}, nil
}

// An observation is what is in the status files, and what of it lives.
type observation struct {
	// status is the supervisor's own, nil for none.
	status *status
	// left are the living: supervisor, etcd, and a supervisor that was launched
	// and has not said anything.
	left []process
}

func (l observation) supervised() bool {
	return l.status != nil && len(l.left) > 0 && l.left[0] == l.status.Supervisor
}

func (s *supervised) observe() (observation, error) {
	s.reap()
	own, err := readStatus(filepath.Join(s.dir, statusFileName))
	if err != nil {
		return observation{}, err
	}
	launched, err := readStatus(filepath.Join(s.dir, launchName))
	if err != nil {
		return observation{}, err
	}
	var named []*process
	if own != nil {
		named = append(named, &own.Supervisor, own.Etcd)
	}
	if launched != nil {
		named = append(named, &launched.Supervisor)
	}
	left, err := living(named...)
	return observation{status: own, left: left}, err
}

// Status reads the status file.
func (s *supervised) Status(context.Context) (Status, error) {
	l, err := s.observe()
	switch {
	case err != nil:
		return Status{}, err
	case l.supervised():
		st := Status{State: l.status.State, Enabled: true, Detail: l.status.Detail, LastLines: l.status.LastLines}
		if l.status.Etcd != nil {
			st.PID, st.Uptime = l.status.Etcd.PID, l.status.Etcd.uptime()
		}
		return st, nil
	case len(l.left) > 0 && l.status != nil && l.status.Etcd != nil && l.left[0] == *l.status.Etcd:
		// The kernel is about to kill it: it dies with its supervisor.
		pid := l.left[0].PID
		return Status{State: Running, PID: pid,
			Detail: fmt.Sprintf("etcd (process %d) runs without its supervisor", pid)}, nil
	case len(l.left) > 0:
		return Status{State: Starting, Detail: "the supervisor starts"}, nil
	}
	if _, err := os.Stat(s.dir); err != nil {
		return Status{State: Absent, Detail: "there is no " + s.dir}, nil
	}
	return Status{State: Stopped, Detail: "no supervisor runs"}, nil
}

// Start starts a supervisor in a session of its own, unless one lives, and
// returns when it has started etcd for the first time. The error is a
// [*StartError] when it ended instead.
func (s *supervised) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, launchTimeout)
	defer cancel()
	if err := hostfs.MakeDir(s.dir, 0o700); err != nil {
		return fmt.Errorf("start the supervisor of etcd: %w", err)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return fmt.Errorf("start the supervisor of etcd: %w", err)
	}
	defer unlock()
	living, err := s.settled(ctx)
	if err != nil || living {
		return err
	}
	if err := s.launch(); err != nil {
		return fmt.Errorf("start the supervisor of etcd: %w", err)
	}
	if err := s.awaitLaunch(ctx); err != nil {
		return err
	}
	return remove(filepath.Join(s.dir, launchName))
}

// lock keeps others from launching a supervisor at the same time, and waits for
// one who does.
func (s *supervised) lock(ctx context.Context) (unlock func(), err error) {
	for range wait.Every(ctx, pollInterval/10) {
		var l *hostfs.LockedFile
		if l, err = hostfs.Lock(filepath.Join(s.dir, "launch.lock")); err == nil {
			return func() { _ = l.Unlock() }, nil
		}
		if busy := (*hostfs.LockedError)(nil); !errors.As(err, &busy) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: %w", err, ctx.Err())
}

// settled reports whether a supervisor lives. One that was launched by somebody
// who was killed may yet begin to, and one that is about to end must have ended
// before another can begin.
func (s *supervised) settled(ctx context.Context) (living bool, err error) {
	var l observation
	for range wait.Every(ctx, pollInterval/10) {
		l, err = s.observe()
		switch {
		case err != nil:
			return false, err
		case l.supervised() && l.left[0].stays():
			return true, nil
		case len(l.left) == 0 || l.status != nil && l.status.Etcd != nil && l.left[0] == *l.status.Etcd:
			return false, nil // the new supervisor sees to an etcd that is left
		}
	}
	return false, fmt.Errorf("wait for the supervisor of etcd (process %d): %w", l.left[0].PID, ctx.Err())
}

// launch starts the supervisor. It belongs to nobody's terminal or working
// directory, and lives on when this process ends.
func (s *supervised) launch() error {
	complaint, err := os.OpenFile(filepath.Join(s.dir, complaintName), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer complaint.Close()
	cmd := exec.Command(s.command[0], s.command[1:]...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = complaint, complaint
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// What is said there is for whoever has started this process.
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "NOTIFY_SOCKET=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	self, err := identify(cmd.Process.Pid)
	if err == nil {
		b := &StatusFile{path: filepath.Join(s.dir, launchName), supervisor: self}
		err = b.Post(Progress{State: Starting, Detail: "the supervisor starts"})
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it may have ended already
		_ = cmd.Process.Kill()
		return errors.Join(err, cmd.Wait())
	}
	s.child, s.ended = cmd.Process.Pid, ""
	return cmd.Process.Release()
}

// awaitLaunch waits until the supervisor says that it has started etcd, or has
// ended.
func (s *supervised) awaitLaunch(ctx context.Context) error {
	for range wait.Every(ctx, pollInterval/10) {
		l, err := s.observe()
		switch {
		case err != nil:
			return err
		case l.supervised():
			return nil
		case s.ended != "":
			said := strings.Join(lastLines(tail(filepath.Join(s.dir, complaintName))), "; ")
			// Whoever launched an earlier one may have been killed before that was on record.
			// It will say in a moment that it runs.
			if !strings.Contains(said, ErrSupervised.Error()) {
				return &StartError{
					Output: said, Log: filepath.Join(s.dir, logName), Err: errors.New("it ended (" + s.ended + ")"),
				}
			}
		}
	}
	// It has said nothing, so nobody could find it to stop it.
	if s.child != 0 {
		_ = syscall.Kill(s.child, syscall.SIGTERM)
	}
	return &StartError{Log: filepath.Join(s.dir, logName), Err: ctx.Err()}
}

// reap checks whether the supervisor that this value has started has ended, and
// lets the kernel forget it.
func (s *supervised) reap() {
	if s.child == 0 {
		return
	}
	var ws unix.WaitStatus
	pid, err := unix.Wait4(s.child, &ws, unix.WNOHANG, nil)
	switch {
	case errors.Is(err, unix.EINTR), err == nil && pid != s.child:
		return
	case err != nil:
		s.ended = err.Error()
	case ws.Signaled():
		s.ended = "signal: " + ws.Signal().String()
	default:
		s.ended = fmt.Sprintf("exit status %d", ws.ExitStatus())
	}
	s.child = 0
}

// Stop ends the supervisor, which ends its etcd, and waits until both are gone.
// An etcd without a supervisor is reported itself.
func (s *supervised) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	asked := map[process]bool{}
	var first process
	for range wait.Every(ctx, pollInterval/10) {
		l, err := s.observe()
		if err != nil {
			return fmt.Errorf("stop etcd: %w", err)
		}
		if len(l.left) == 0 {
			return errors.Join(remove(filepath.Join(s.dir, statusFileName)), remove(filepath.Join(s.dir, launchName)))
		}
		first = l.left[0]
		if !asked[first] {
			if err := first.signal(syscall.SIGTERM); err != nil {
				return fmt.Errorf("stop etcd: %w", err)
			}
			asked[first] = true
		}
	}
	return fmt.Errorf("wait for the end of process %d (%s): %w", first.PID, filepath.Base(s.command[0]), ctx.Err())
}

// Restart is Stop and Start. The new supervisor reads the environment file
// again.
func (s *supervised) Restart(ctx context.Context) error {
	if err := s.Stop(ctx); err != nil {
		return err
	}
	return s.Start(ctx)
}

// Reload does nothing: files are read when something starts.
func (s *supervised) Reload(context.Context) error { return nil }
