package machines

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/internal/machineflags"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/host/operate"
)

// NewInit returns the command init with its phases.
func NewInit(program Program) *cobra.Command {
	return memberCommand(program, machine.Init, &cobra.Command{
		Use: "init", Short: "create a cluster with this machine's member as its first",
		Long: `init installs etcd on this machine, makes a certificate authority unless there is one, issues certificates and
starts etcd as the first member of a new cluster. With --snapshot the cluster begins with that data.

init never touches existing data: where there is a member it refuses. Run again, it continues where it stopped,
and says so when nothing is left to do.

` + phaseList(machine.Init),
		Example: "  etcdadm init --version 3.6.16\n  etcdadm init --snapshot /root/etcd.db\n  etcdadm init --init-system " +
			"kubelet --dry-run",
		Args: initArgs,
	})
}

// initArgs takes none: the name of the member is a flag.
func initArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if len(cmd.SuggestionsFor(args[0])) > 0 {
		return cli.Known(cmd, args)
	}
	return &cli.UsageError{Text: fmt.Sprintf("init takes no argument, and %q is one", args[0]),
		Next: "--name gives the member another name than the machine's; init phase NAME runs one phase"}
}

// NewJoin returns the command join with its phases.
func NewJoin(program Program) *cobra.Command {
	return memberCommand(program, machine.Join, &cobra.Command{
		Use: "join ENDPOINT[,ENDPOINT...]", Short: "add this machine's member to a running cluster",
		Long: `join installs etcd on this machine, issues certificates with the certificate authority that was copied here,
adds the member to the cluster as a learner, starts it, and promotes it to a voter when it has caught up. The
endpoints are client URLs of members; one that answers is enough.

On a machine whose member already runs it applies what differs: another --version upgrades the member in place.
A join that cannot finish is undone. Run again, it continues where it stopped.

` + phaseList(machine.Join),
		Example: "  etcdadm join https://10.0.0.1:2379\n  etcdadm join https://10.0.0.1:2379,https://10.0.0.2:2379 " +
			"--version 3.6.16",
		Args: endpointArgs,
	})
}

func phaseList(a machine.Action) string {
	var b strings.Builder
	b.WriteString("Phases, each of them also a command (" + string(a) + " phase NAME):\n")
	for _, p := range machine.Phases(a) {
		fmt.Fprintf(&b, "  %-24s %s\n", p.Name, p.Short)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// endpointArgs takes one argument or more: the retired etcdadm ignored the
// further ones.
func endpointArgs(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return &cli.UsageError{Text: "the endpoint is missing", Next: "etcdadm join https://10.0.0.1:2379"}
	}
	return nil
}

// memberCommand gives a command that builds a member its flags and its phases.
func memberCommand(program Program, a machine.Action, cmd *cobra.Command) *cobra.Command {
	var skip []string
	t := builder(cmd, program, a, func(t *task) {
		t.goal.Skip = skip
		t.warnUnknown()
	})
	t.addChecks()
	cmd.Flags().StringSliceVar(&skip, "skip-phases", nil, "`names` of phases to skip")
	phase := cli.Group("phase", "run one phase of "+string(a))
	phase.Long = phaseList(a)
	for _, p := range machine.Phases(a) {
		c := &cobra.Command{Use: p.Name, Short: p.Short, Args: cobra.NoArgs}
		if a == machine.Join {
			c.Use, c.Args = p.Name+" ENDPOINT[,ENDPOINT...]", endpointArgs
		}
		t := builder(c, program, a, func(t *task) { t.goal.Phase = p.Name })
		if a == machine.Join && (p.Name == "start" || p.Name == "health") {
			t.addChecks() // both wait for the members to connect
		}
		phase.AddCommand(c)
	}
	cmd.AddCommand(phase)
	return cmd
}

// builder makes cmd work towards a goal that set completes.
func builder(cmd *cobra.Command, program Program, a machine.Action, set func(*task)) *task {
	t := &task{cmd: cmd, goal: machine.Goal{Action: a}}
	groups := []machineflags.Group{machineflags.Member}
	if a == machine.Init {
		groups = append(groups, machineflags.Snapshot)
	} else {
		groups = append(groups, machineflags.Join)
		cmd.Flags().BoolVar(&t.goal.SetAsideData, "set-aside-data", false,
			"move data of another cluster, or of a removed member, aside")
		cmd.Flags().BoolVar(&t.goal.ReplaceMember, "replace-member", false,
			"replace the member at this machine's address, whose data is gone: remove it and add it again")
	}
	cmd.Flags().StringVar(&t.goal.AcceptVersionRisk, "accept-version-risk", "",
		"go on even if the data has, or may have, what the version does not tolerate; the `REASON` is recorded")
	t.flags = machineflags.Add(cmd, groups...)
	t.addRun()
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		set(t)
		if t.program, err = program(); err != nil {
			return err
		}
		if a == machine.Join {
			if len(args) > 1 {
				t.warn("only the first argument is used; ignored: %s", strings.Join(args[1:], " "))
			}
			if t.endpoints, err = endpoints(args[0], t.goal.Phase == "certificates"); err != nil {
				return err
			}
			t.warnPeerPort()
			t.goal.AnyPeerPorts = slices.ContainsFunc(t.ignore, isPeerPorts)
		}
		return t.build(cmd.Context())
	}
	return t
}

// isPeerPorts says that a person goes on where a member does not reach this machine. It has to be
// named: who ignores all checks did not mean the quorum.
func isPeerPorts(id string) bool { return strings.EqualFold(id, "PeerPorts") }

// A built is what init and join print for programs.
type built struct {
	Member string `json:"member"`
	// Join is the command for the next machine.
	Join    string     `json:"join,omitempty"`
	Changed bool       `json:"changed"`
	Steps   []stepLine `json:"steps"`
}

// build runs the task and says what came of it.
func (t *task) build(ctx context.Context) error {
	m, r, err := t.run(ctx)
	if err != nil || t.dryRun {
		return err
	}
	cfg := m.Config()
	v := built{Member: string(cfg.Name), Changed: len(r.Steps) > 0, Steps: stepLines(r.Steps)}
	if t.goal.Action == machine.Init && (t.goal.Phase == "" || t.goal.Phase == machine.PostInit) {
		v.Join = "etcdadm join " + machine.URLs(cfg).Client[0]
	}
	if t.goal.Action == machine.Join && (t.goal.Phase == "" || t.goal.Phase == "health") {
		for _, pair := range m.Apart(ctx, r.Last.Remote.Members) {
			t.warn("%s: %s", pair, machine.OpenPeerPorts)
		}
	}
	return t.out.Print(t.cmd.OutOrStdout(), cli.Versioned("MemberResult", v), func(w io.Writer) error {
		t.sayBuilt(w, cfg, r)
		if v.Join != "" {
			fmt.Fprintf(w, "To add a machine, copy %s from %s to the same directory there, and run on it:\n\n\t%s\n",
				authority(cfg), cfg.Paths.Certificates, v.Join)
		}
		if v.Changed && t.goal.Phase == "" || t.goal.Phase == machine.RenewalPhase {
			fmt.Fprint(w, renewalWords(cfg, r.Last.Renewal))
		}
		return nil
	})
}

// authority says what the next machine needs to have certificates.
func authority(cfg machine.Config) string {
	if _, err := os.Stat(cfg.Paths.Certificate("ca.key")); err != nil {
		return "ca.crt, and certificates that were signed for it,"
	}
	return "ca.crt and ca.key"
}

// sayEven says of an even number of voters that another one is wanted.
func sayEven(w io.Writer, voters int) {
	if text := cluster.EvenVoters(voters); text != "" {
		fmt.Fprintln(w, text+": join one more.")
	}
}

func (t *task) sayBuilt(w io.Writer, cfg machine.Config, r operate.Result) {
	left := slices.Contains(t.goal.Skip, "health")
	switch {
	case len(r.Steps) == 0 && t.goal.Phase == machine.PostInit:
	case len(r.Steps) == 0:
		fmt.Fprintln(w, "Nothing to do.")
	case t.goal.Phase != "":
		fmt.Fprintf(w, "Phase %s is done.\n", t.goal.Phase)
	case left:
		fmt.Fprintf(w, "All phases but %s are done; etcdadm %s phase health waits until the member %s.\n",
			strings.Join(t.goal.Skip, ", "), t.goal.Action, map[machine.Action]string{
				machine.Init: "serves", machine.Join: "serves, and promotes it to a voter"}[t.goal.Action])
	case t.goal.Action == machine.Join:
		fmt.Fprintf(w, "Member %s is a voter of the cluster, at %s.\n", cfg.Name, machine.URLs(cfg).Client[0])
		sayEven(w, r.Last.Remote.Voters())
	default:
		fmt.Fprintf(w, "Member %s serves at %s.\n", cfg.Name, machine.URLs(cfg).Client[0])
	}
}
