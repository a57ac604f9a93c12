// Package handovers has the command of etcdadm that hands a machine's etcd to
// etcd-manager and back.
package handovers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/internal/machineflags"
	"github.com/etcdadm/etcdadm/pkg/command/internal/storewait"
	"github.com/etcdadm/etcdadm/pkg/host/handover"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/host/operate"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// Program is the command line that runs this etcdadm again, to supervise etcd.
type Program func() ([]string, error)

// New returns the command handover.
func New(program Program) *cobra.Command {
	cmd := cli.Group("handover", "hand this machine's etcd to etcd-manager, or back")
	cmd.Long = `handover changes who runs the etcd of this machine: a person, with etcdadm, or the daemon etcd-manager. The
data stays on its file system, and the cluster keeps running. Hand over one machine at a time, and the next one
only when the last one serves again.`
	cmd.AddCommand(toManager(program), fromManager(program))
	return cmd
}

// A task is one of the two commands.
type task struct {
	cmd     *cobra.Command
	flags   *machineflags.Flags
	out     *cli.Output
	program Program
	o       handover.Options
	dir     machine.Action
	dryRun  bool
}

func newTask(cmd *cobra.Command, program Program, dir machine.Action) *task {
	t := &task{cmd: cmd, program: program, dir: dir, flags: machineflags.Add(cmd, machineflags.Member)}
	fs := cmd.Flags()
	fs.StringVar(&t.o.ManagerDir, "manager-data-dir", cluster.ManagerDir,
		"etcd-manager's data `directory`, on the file system of --data-dir")
	fs.StringVar(&t.o.PKIDir, "pki-dir", cluster.ManagerPKI,
		"`directory` of etcd-manager's certificate authorities")
	fs.StringVar(&t.o.EtcdDir, "etcd-dir", "/opt", "`directory` with the binaries of etcd-manager, in etcd-v<version>")
	fs.BoolVar(&t.dryRun, "dry-run", false, "print what would be done, and do nothing")
	t.out = cli.AddOutput(cmd, cli.Table, cli.JSON, cli.YAML)
	cmd.Args = cobra.NoArgs
	return t
}

func toManager(program Program) *cobra.Command {
	cmd := &cobra.Command{
		Use: "to-manager", Short: "hand this machine's etcd to etcd-manager",
		Long: `to-manager stops the etcd that etcdadm runs on this machine, moves its data to where etcd-manager keeps it, and
assigns the member to it. It prints etcd-manager's command line; the member is down until that runs.

All members must be healthy voters. The first machine writes into the control store which nodes elect the
coordinator of the daemons; the others follow it. So hand over all machines before you change members by hand
again, and write the spec when all are handed over.

If it is killed, run it again: it continues. from-manager undoes it.`,
		Example: "  etcdadm handover to-manager --backup-store s3://bucket/etcd --dry-run\n  etcdadm handover to-manager " +
			"--backup-store s3://bucket/etcd",
	}
	t := newTask(cmd, program, machine.ToManager)
	fs := cmd.Flags()
	fs.StringVar(&t.o.BackupStore, "backup-store", "",
		"`URL` of the control and backup store, the same one for all machines (required)")
	fs.StringVar(&t.o.ClusterName, "cluster-name", "etcd", "`name` of the cluster, for etcd-manager")
	fs.IntVar(&t.o.GRPCPort, "grpc-port", cluster.ManagerPort, "`port` of etcd-manager")
	fs.BoolVar(&t.o.NewIncarnation, "new-incarnation", false,
		"start without the other daemons: none of them runs a member of this cluster any more")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := environment(fs); err != nil {
			return err
		}
		if t.o.BackupStore == "" {
			return &cli.UsageError{Text: "--backup-store is missing",
				Next: "etcd-manager keeps the spec and the backups there"}
		}
		return t.run(cmd, t.sayDaemon)
	}
	return cmd
}

func fromManager(program Program) *cobra.Command {
	cmd := &cobra.Command{
		Use: "from-manager", Short: "take this machine's etcd back from etcd-manager",
		Long: `from-manager takes this machine's member back from etcd-manager, which must be stopped here. It withdraws
etcd-manager's order to run the member, moves the data to where etcdadm keeps it, and continues as
"etcdadm join" does.

While the other daemons run, pause them first (etcd-manager-ctl pause): a member that is down for longer than
the grace time is replaced if there is a spare machine. Keep etcd-manager from starting on this machine again.
etcdadm has one certificate authority, so etcd-manager's authorities for peers and for clients must be the same
one; they are if to-manager made them.`,
		Example: "  etcd-manager-ctl pause; systemctl disable --now etcd-manager\n  etcdadm handover from-manager",
	}
	t := newTask(cmd, program, machine.FromManager)
	var given string
	fs := cmd.Flags()
	fs.StringVar(&given, "endpoints", "",
		"client `URLs` of other members (default: those seen before, or derived from their peer URLs)")
	fs.BoolVar(&t.o.Alone, "alone", false, "start the member even if no other member answers")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := environment(fs); err != nil {
			return err
		}
		for word := range strings.SplitSeq(given, ",") {
			if word = strings.TrimSpace(word); word != "" {
				t.o.Endpoints = append(t.o.Endpoints, word)
			}
		}
		return t.run(cmd, func(w io.Writer, r handover.Result) {
			fmt.Fprintf(w, "Member %s is run by etcdadm again.\n", r.Journal.Node)
		})
	}
	return cmd
}

// own are the flags that package machineflags does not know. The variable of
// --etcd-dir is a list of directories, for programs that look for binaries.
var own = []string{"manager-data-dir", "pki-dir", "backup-store", "cluster-name", "grpc-port", "endpoints"}

// environment reads them from the environment where they are not given.
func environment(fs *pflag.FlagSet) error {
	for _, name := range own {
		value := os.Getenv(machineflags.Variable(name))
		if f := fs.Lookup(name); f == nil || f.Changed || value == "" {
			continue
		}
		if err := cli.Fill(fs, name, value); err != nil {
			return cli.Usagef("%s: %v", machineflags.Variable(name), err)
		}
	}
	return nil
}

// A view is what is printed for programs.
type view struct {
	Changed bool            `json:"changed"`
	Steps   []step          `json:"steps"`
	Daemon  *machine.Daemon `json:"daemon,omitempty"`
}

// A step is printed for programs.
type step struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// run hands over, or prints how.
func (t *task) run(cmd *cobra.Command, done func(io.Writer, handover.Result)) error {
	if err := t.complete(cmd); err != nil {
		return err
	}
	do := handover.Run
	if t.dryRun {
		do = handover.Plan
	}
	r, err := do(cmd.Context(), t.o, t.dir)
	if err != nil {
		if cmd.Context().Err() != nil && len(r.Steps) > 0 {
			err = cli.WithHint(err, "run the same command again to continue")
		}
		return usage(err)
	}
	v := view{Changed: len(r.Steps) > 0 && !t.dryRun, Steps: []step{}, Daemon: r.Daemon}
	for _, s := range r.Steps {
		v.Steps = append(v.Steps, step{s.Phase, s.Text()})
	}
	return t.out.Print(cmd.OutOrStdout(), cli.Versioned("Handover", v), func(w io.Writer) error {
		switch {
		case t.dryRun:
			for _, s := range v.Steps {
				fmt.Fprintf(w, "# %s: %s\n", s.Name, cli.Plain(s.Text))
			}
			if len(r.Steps) == 0 {
				fmt.Fprintln(w, "# nothing to do")
			}
		case len(r.Steps) == 0:
			fmt.Fprintln(w, "Nothing to do.")
			if r.Daemon != nil {
				done(w, r)
			}
		default:
			done(w, r)
		}
		return nil
	})
}

// complete fills in the rest of the options.
func (t *task) complete(cmd *cobra.Command) error {
	cfg, err := t.flags.Config()
	if err != nil {
		return err
	}
	t.o.Config = cfg
	program, err := t.program()
	if err != nil {
		return err
	}
	if j, err := handover.ReadJournal(cfg); err == nil && j != nil && !cmd.Flags().Changed("manager-data-dir") {
		t.o.ManagerDir = j.ManagerDir
	}
	t.o.Began = func(s machine.Step) { t.say("[%s] %s", s.Phase, s.Text()) }
	t.o.Fetching = func(url string) { t.say("downloading %s", url) }
	t.o.Waiting = func(text string) { t.say("waiting: %s", text) }
	t.o.Warned = func(of, text string) { t.say("[WARNING %s]: %s", of, text) }
	t.o.OpenStore = func(ctx context.Context, location string) (*store.Store, error) {
		return storewait.Open(ctx, location, 0, cmd.ErrOrStderr())
	}
	t.o.Open = func(cfg machine.Config, endpoints []string) (handover.Machine, error) {
		return operate.New(cmd.Context(), operate.Options{
			Config: cfg, Endpoints: endpoints, Program: program,
			Began:   func(s machine.Step) { t.say("[%s] %s", s.Phase, s.Text()) },
			Waiting: t.o.Waiting, Warned: t.o.Warned, Fetching: t.o.Fetching,
		})
	}
	return nil
}

// usage makes errors about the spec usage errors.
func usage(err error) error {
	var fields machine.FieldErrors
	if errors.As(err, &fields) {
		return &cli.UsageError{Text: err.Error(), Next: "etcdadm config validate"}
	}
	return err
}

// say reports progress, unless --log-level leaves that out.
func (t *task) say(format string, args ...any) {
	if f := t.cmd.Flags().Lookup("log-level"); f != nil && f.Value.String() != "info" && f.Value.String() != "debug" {
		return
	}
	fmt.Fprintln(t.cmd.ErrOrStderr(), cli.Plain(fmt.Sprintf(format, args...)))
}

// sayDaemon says what is to be done next.
func (t *task) sayDaemon(w io.Writer, r handover.Result) {
	d := r.Daemon
	fmt.Fprintf(w, "Member %s now belongs to etcd-manager, and is down until that runs. Start it on this machine:\n\n\t%s\n",
		d.Node, cli.Plain(d.Line))
	if len(d.LeaseVoters) == 0 {
		fmt.Fprintf(w, "\nThis machine starts without a record of the lease voters: %s.\n", cli.Plain(d.LeaseVotersWhy))
	}
	if d.Configure != "" {
		fmt.Fprintf(w, "\nWhen all machines are handed over, write the spec:\n\n\t%s\n", cli.Plain(d.Configure))
	}
}
