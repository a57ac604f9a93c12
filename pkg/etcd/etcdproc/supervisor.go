package etcdproc

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

var (
	// ErrClosed is returned by the methods of a Supervisor after Close.
	ErrClosed = errors.New("supervisor of etcd is closed")
	// ErrBusy is returned by New while another supervisor has the directory.
	ErrBusy = errors.New("another process supervises etcd here")
	// ErrStopped is returned by Restart when nothing has been started.
	ErrStopped = errors.New("etcd is stopped")
)

// Options configure a [Supervisor]. Zero values mean the defaults.
type Options struct {
	// Dir holds the pid file and its lock. It must exist, and survive a restart
	// of the daemon. Whoever must not run etcd at the same time shares it.
	Dir string
	// Log gets each line that the process prints, without the line end, and what there is
	// to say of its clients when it has ended, see [Config.ClientPorts]. Lines
	// longer than 16 KiB are cut, and of very many of one kind only some are given to
	// it, with the number of the others. It is called from one goroutine at a time; as
	// long as it does not return, the process waits with its output. It must not
	// call methods of the Supervisor.
	Log func(line string)
	// Died, if it is not nil, is called each time that the process has ended by itself, with
	// how. It must not call methods of the Supervisor.
	Died func(how string)
	// Backoff is the time between two restarts.
	Backoff Backoff
	// StopTimeout is the time between SIGTERM and SIGKILL, by default 10 s.
	StopTimeout time.Duration
	// Now is the clock of [Status.Since], by default time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = func(string) {}
	}
	if o.Died == nil {
		o.Died = func(string) {}
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = 10 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Backoff = o.Backoff.withDefaults()
	return o
}

// Config is a command to keep running.
type Config struct {
	// Path is the program, an absolute path.
	Path string
	// Args are its arguments, without the program's name.
	Args []string
	// Env is its whole environment; nothing is inherited.
	Env []string
	// WorkDir is its working directory, by default that of the daemon.
	WorkDir string
	// ClientPorts are those at which the process takes clients. After SIGTERM, clients that
	// are still connected 0.15 s after it has closed their listener are cut off, as it would
	// wait for them; [Options.Log] receives how many.
	ClientPorts []uint16
	// PeerPorts are those at which it takes peers, which are cut off at once when their
	// listener is closed, where there are ClientPorts. Two Configs that differ only in the
	// ports are equal.
	PeerPorts []uint16
	// Before, if there is one, is called before each start of the process, which
	// does not take place if it fails. What it returns is added to Env for this
	// start, and takes the place of what is there by the same name. Two Configs
	// that differ only in it are equal. Its context ends when the process is to
	// stop, and nothing is started then.
	Before func(ctx context.Context) ([]string, error)
}

func (c Config) equal(d Config) bool {
	return c.Path == d.Path && c.WorkDir == d.WorkDir && slices.Equal(c.Args, d.Args) && slices.Equal(c.Env, d.Env)
}

func (c Config) clone() Config {
	c.Args, c.Env = slices.Clone(c.Args), slices.Clone(c.Env)
	c.ClientPorts, c.PeerPorts = slices.Clone(c.ClientPorts), slices.Clone(c.PeerPorts)
	return c
}

// Status is how the process does.
type Status struct {
	// State is stopped when nothing was started or it has been stopped, crashing
	// while the process is down or has died three times in a row without having
	// stayed up for [Backoff.Stable], and running otherwise.
	State cluster.ProcessState
	// PID is the process, 0 when there is none.
	PID int
	// Since is when State began; a restarted process begins again.
	Since time.Time
	// Restarts counts how often the process was started again since Start.
	Restarts int
	// LastExit is how the last process ended, or why it could not be started.
	LastExit string
	// LastLines are the last lines of output, at most 20 and cut to 1 KiB each:
	// of the process that died last while crashing, otherwise of the present or
	// last one.
	LastLines []string
	// Problem is what went wrong without stopping the process, "" for nothing:
	// the pid file could not be written.
	Problem string
}

// A Supervisor keeps one process running. Its methods may be called from any
// goroutine; Start, Restart, Stop and Close take turns.
type Supervisor struct {
	opts       Options
	lock       *hostfs.LockedFile
	statusFile statusFile

	// semaphore holds a token while nobody has it. run and closed belong to whoever
	// took it.
	semaphore chan struct{}
	run       *run
	closed    bool
}

// New returns a supervisor that has started nothing. A process that an earlier
// supervisor of the same directory has left behind is killed and gone before
// New returns; if it does not go within [Options.StopTimeout] or ctx, that is
// an error. The error is [ErrBusy] if the earlier supervisor still lives.
func New(ctx context.Context, o Options) (*Supervisor, error) {
	o = o.withDefaults()
	lock, err := lockDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("supervise etcd in %s: %w", o.Dir, err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.StopTimeout)
	defer cancel()
	if err := killLeftover(ctx, o.Dir); err != nil {
		return nil, errors.Join(fmt.Errorf("supervise etcd in %s: %w", o.Dir, err), lock.Unlock())
	}
	s := &Supervisor{opts: o, lock: lock, semaphore: make(chan struct{}, 1)}
	s.statusFile.init(o.Now)
	s.semaphore <- struct{}{}
	return s, nil
}

// Start makes cfg the command that is kept running, and returns when it has
// been started for the first time. It does nothing if cfg is what it keeps
// running already; a process of another configuration is stopped first.
//
// An error means that the program could not be started, or that ctx ended
// before the old process was gone. In the first case, Start keeps trying in
// the background, as for a process that dies (a volume with the program may be
// mounted late), until the next Start or Stop; another Start of the same cfg
// returns the latest such error.
func (s *Supervisor) Start(ctx context.Context, cfg Config) error {
	return s.StartWithin(ctx, cfg, s.opts.StopTimeout)
}

// StartWithin is Start with another time between SIGTERM and SIGKILL for a process of another
// configuration, as in [Supervisor.StopWithin].
func (s *Supervisor) StartWithin(ctx context.Context, cfg Config, grace time.Duration) error {
	if !filepath.IsAbs(cfg.Path) {
		return fmt.Errorf("start etcd: path %q is not absolute", cfg.Path)
	}
	if err := s.take(ctx); err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	defer s.give()
	if s.run != nil && !s.run.stopping && s.run.cfg.equal(cfg) {
		return s.statusFile.startError()
	}
	return s.replace(ctx, cfg.clone(), grace)
}

// Restart stops the process and starts it again with the configuration of the
// last Start: after a change that the configuration does not show. The error
// is [ErrStopped] if there is nothing to restart.
func (s *Supervisor) Restart(ctx context.Context) error {
	if err := s.take(ctx); err != nil {
		return fmt.Errorf("restart etcd: %w", err)
	}
	defer s.give()
	if s.run == nil || s.run.stopping {
		return fmt.Errorf("restart etcd: %w", ErrStopped)
	}
	return s.replace(ctx, s.run.cfg, s.opts.StopTimeout)
}

// Stop ends the process and returns when it is gone: it gets SIGTERM, and
// after [Options.StopTimeout] SIGKILL. If ctx ends before, Stop returns its
// error, and the process is still being ended. Stopping what is stopped is
// fine.
func (s *Supervisor) Stop(ctx context.Context) error {
	return s.StopWithin(ctx, s.opts.StopTimeout)
}

// StopWithin is Stop with another time between SIGTERM and SIGKILL; in less than some 0.2 s
// no client is cut off. What etcd has acknowledged is on the disk also where it is killed.
// A Stop that is under way keeps its time.
func (s *Supervisor) StopWithin(ctx context.Context, grace time.Duration) error {
	if err := s.take(ctx); err != nil {
		return fmt.Errorf("stop etcd: %w", err)
	}
	defer s.give()
	return s.halt(ctx, grace)
}

// Close stops the process like Stop, and ends the supervisor: its directory is
// free for another one. If it returns an error, it can be called again. Closing
// twice is fine.
func (s *Supervisor) Close(ctx context.Context) error {
	if err := s.take(ctx); err != nil {
		if errors.Is(err, ErrClosed) {
			return nil
		}
		return fmt.Errorf("stop etcd: %w", err)
	}
	defer s.give()
	if err := s.halt(ctx, s.opts.StopTimeout); err != nil {
		return err
	}
	s.closed = true
	return s.lock.Unlock()
}

// Status returns how the process does now.
func (s *Supervisor) Status() Status { return s.statusFile.status() }

// Changed returns a channel that gets a value after [Supervisor.Status] has
// changed in more than its lines. Changes in quick succession are one value;
// there is one channel, meant for one reader.
func (s *Supervisor) Changed() <-chan struct{} { return s.statusFile.changed }

// take waits for the semaphore; give ends it.
func (s *Supervisor) take(ctx context.Context) error {
	select {
	case <-s.semaphore:
	case <-ctx.Done():
		return fmt.Errorf("wait for an earlier start or stop: %w", ctx.Err())
	}
	if s.closed {
		s.give()
		return ErrClosed
	}
	return nil
}

func (s *Supervisor) give() { s.semaphore <- struct{}{} }

// replace ends what runs, which has so long to end by itself, and begins to keep cfg running.
func (s *Supervisor) replace(ctx context.Context, cfg Config, grace time.Duration) error {
	if err := s.halt(ctx, grace); err != nil {
		return err
	}
	r := &run{
		s:     s,
		cfg:   cfg,
		stop:  make(chan struct{}),
		done:  make(chan struct{}),
		first: make(chan error, 1),
	}
	s.run = r
	s.statusFile.begin()
	go r.keep(ctx)
	select {
	case err := <-r.first:
		return err
	case <-ctx.Done():
		return fmt.Errorf("wait for the start of %s: %w", cfg.Path, ctx.Err())
	}
}

// halt ends the run, if there is one, and waits until it has ended.
func (s *Supervisor) halt(ctx context.Context, grace time.Duration) error {
	if s.run == nil {
		return nil
	}
	if !s.run.stopping {
		s.run.stopping, s.run.grace = true, grace
		close(s.run.stop)
	}
	select {
	case <-s.run.done:
		s.run = nil
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of etcd (pid %d): %w", s.Status().PID, ctx.Err())
	}
}
