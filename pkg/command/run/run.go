// Package run is the command "etcdadm run": etcd in the foreground, started
// again when it dies, for containers and for init systems of any kind.
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdproc"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/initsystem"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
	"github.com/etcdadm/etcdadm/pkg/internal/logfile"
)

const long = `Run etcd in the foreground with the environment of a file that "etcdadm init" or
"etcdadm join" has written, and restart it when it ends: at once the first time,
then with growing delays.

The command ends on SIGTERM, SIGINT or SIGHUP, after etcd has ended. etcd never
outlives it, and two of them never run with one --dir.

With --init-system=process, init and join start it in the background; nothing starts
it after a reboot. For that, make it the command of a container, or of a service of
an init system that etcdadm does not know:

  OpenRC     command=/usr/local/bin/etcdadm, command_args=run, command_background=true
  runit, s6  exec etcdadm run
  container  ENTRYPOINT ["etcdadm", "run", "--env-file=/etc/etcd/etcd.env"]

If NOTIFY_SOCKET is set, as systemd does for Type=notify, it sends READY=1 when etcd
is ready.`

// options are the flags.
type options struct {
	envFile, etcd, dir, logFile, require string
	logSize                              int64
	stopTimeout                          time.Duration
}

// New returns the command.
func New() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:     "run",
		Short:   "run etcd in the foreground and keep it running",
		Long:    long,
		Example: "  etcdadm run --env-file=/etc/etcd/etcd.env --etcd=/opt/bin/etcd",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// A terminal that is closed must not take etcd with it by force.
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
			defer stop()
			return o.run(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.envFile, "env-file", "/etc/etcd/etcd.env",
		"file with etcd's whole environment; etcd gets nothing else")
	fs.StringVar(&o.etcd, "etcd", "/opt/bin/etcd", "the program")
	fs.StringVar(&o.dir, "dir", "/var/lib/etcdadm",
		"directory for the state of this command; only one can use it at a time")
	fs.StringVar(&o.logFile, "log-file", "",
		"file for the output of etcd and of this command, instead of stdout and stderr")
	fs.StringVar(&o.require, "require", "",
		"file that must exist for etcd to be started: it is missing if the data disk is not mounted")
	fs.Int64Var(&o.logSize, "log-size", 32<<20,
		"size in bytes at which the log file is renamed to end in .1 and a new one is begun")
	fs.DurationVar(&o.stopTimeout, "stop-timeout", 30*time.Second, "how long to wait for etcd to end before it is killed")
	cli.Sections(cmd,
		cli.FlagSection{Title: "What runs", Common: []string{"env-file", "etcd", "require", "stop-timeout"}},
		cli.FlagSection{Title: "Where it writes", Common: []string{"dir", "log-file", "log-size"}},
	)
	return cmd
}

// validate makes the paths absolute.
func (o *options) validate() error {
	for _, p := range []*string{&o.envFile, &o.etcd, &o.dir, &o.logFile} {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return err
		}
		*p = abs
	}
	switch {
	case o.envFile == "" || o.etcd == "" || o.dir == "":
		return cli.Usagef("--env-file, --etcd and --dir must not be empty")
	case o.logSize < 1<<10:
		return cli.Usagef("--log-size is less than 1024")
	case o.stopTimeout <= 0:
		return cli.Usagef("--stop-timeout must be positive")
	}
	return nil
}

// run keeps etcd running until ctx ends.
func (o options) run(ctx context.Context, out, errOut io.Writer) (err error) {
	if err := o.validate(); err != nil {
		return err
	}
	if o.require != "" {
		if _, err := os.Stat(o.require); err != nil {
			return cli.WithHint(fmt.Errorf("etcd is not started: %w", err), "check whether the disk of the data is mounted")
		}
	}
	env, err := o.environment()
	if err != nil {
		return err
	}
	lines, messages := line(out), line(errOut)
	if o.logFile != "" {
		log, err := logfile.Open(o.logFile, o.logSize)
		if err != nil {
			return cli.WithHint(err, "name a file in an existing directory with --log-file")
		}
		defer log.Close()
		lines, messages = log.Line, log.Line
	}
	if err := hostfs.MakeDir(o.dir, 0o700); err != nil {
		return err
	}
	sup, err := etcdproc.New(ctx, etcdproc.Options{Dir: o.dir, Log: lines, StopTimeout: o.stopTimeout})
	if errors.Is(err, etcdproc.ErrBusy) {
		return cli.WithHint(fmt.Errorf("%w: %w", initsystem.ErrSupervised, err), "for another etcd give another --dir")
	}
	if err != nil {
		return err
	}
	// etcd ends first. It may take its time although ctx is over; Close itself
	// kills it when that is up.
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.stopTimeout+15*time.Second)
		defer cancel()
		err = errors.Join(err, sup.Close(end))
	}()
	ready, err := listenReady()
	if err != nil {
		return err
	}
	defer ready.close()
	r := runner{sup: sup, ready: ready, messages: func(text string) { messages(now() + " etcdadm: " + text) }}
	if r.statusFile, err = initsystem.NewStatusFile(o.dir); err != nil {
		return err
	}
	return r.keep(ctx, o.command(env, ready.name))
}

// command returns what runs etcd.
func (o options) command(env []string, ready string) etcdproc.Config {
	return etcdproc.Config{
		Path: o.etcd, Env: append(env, notifySocket+"="+ready),
		ClientPorts: etcdconf.ClientPorts(env), PeerPorts: etcdconf.PeerPorts(env),
	}
}

// environment reads the environment file.
func (o options) environment() ([]string, error) {
	text, err := os.ReadFile(o.envFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.WithHint(fmt.Errorf("environment of etcd: %w", err),
			"etcdadm init or etcdadm join writes it; or name another one with --env-file")
	}
	if err != nil {
		return nil, fmt.Errorf("environment of etcd: %w", err)
	}
	vars, err := initfiles.ParseEnvFile(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.envFile, err)
	}
	var env []string
	for _, k := range slices.Sorted(maps.Keys(vars)) {
		if k != notifySocket {
			env = append(env, k+"="+vars[k])
		}
	}
	return env, nil
}

// now is the time before a message of our own; etcd's lines have one.
func now() string { return time.Now().UTC().Format(time.RFC3339) }

// line returns a function that writes lines to w. A reader that has gone away
// is no reason to stop etcd.
func line(w io.Writer) func(string) {
	return func(text string) { fmt.Fprintln(w, text) }
}

// A runner passes on how etcd does.
type runner struct {
	sup        *etcdproc.Supervisor
	statusFile *initsystem.StatusFile
	messages   func(string)
	ready      *readyListener
	// readyPID is the process that has said that it is ready, and that we
	// have said so ourselves.
	readyPID int
	reported bool
	last     string
}

// keep runs etcd until ctx ends.
func (r *runner) keep(ctx context.Context, cfg etcdproc.Config) error {
	if err := r.sup.Start(ctx, cfg); err != nil {
		return cli.WithHint(err, "fetch etcd with etcdadm download, or name the program with --etcd")
	}
	if err := r.post(); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			r.messages("stops etcd")
			return nil
		case r.readyPID = <-r.ready.pids:
		case <-r.sup.Changed():
		}
		// From here on it is more important that etcd runs than that somebody can
		// read how it does.
		if err := r.post(); err != nil {
			r.messages(err.Error())
		}
	}
}

// post says how etcd does, to the status file and to people.
func (r *runner) post() error {
	st := r.sup.Status()
	p := initsystem.Progress{
		State: initsystem.Starting, PID: st.PID, Detail: fmt.Sprintf("etcd (process %d) is not ready yet", st.PID),
	}
	switch {
	case st.State == cluster.ProcessCrashing && st.Restarts == 0:
		// It may have been killed by somebody, and is started again at once.
		p.Detail = fmt.Sprintf("etcd ended (%s) and is restarted", st.LastExit)
	case st.State == cluster.ProcessCrashing:
		p.State, p.LastLines = initsystem.Crashing, st.LastLines
		p.Detail = fmt.Sprintf("etcd ended (%s), restarted %d times", st.LastExit, st.Restarts)
	case st.PID == r.readyPID:
		p.State, p.Detail = initsystem.Running, fmt.Sprintf("etcd (process %d) is ready", st.PID)
	}
	if p.State == initsystem.Running && !r.reported {
		r.reported = true
		if err := notifyReady(os.Getenv(notifySocket)); err != nil {
			r.messages(err.Error())
		}
	}
	if p.Detail != r.last {
		r.last = p.Detail
		r.messages(p.Detail)
	}
	return r.statusFile.Post(p)
}
