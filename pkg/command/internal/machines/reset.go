package machines

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/machineflags"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/host/operate"
)

// NewReset returns the command reset, also called leave.
func NewReset(program Program) *cobra.Command {
	cmd := &cobra.Command{
		Use: "reset", Aliases: []string{"leave"},
		Short: "remove this machine's member from its cluster, and clean up the machine",
		Long: `reset, also called leave, takes this machine's member out of its cluster, stops its etcd, moves its data aside,
and removes what init and join have written: configuration, certificates and binaries. The certificate
authority stays, and so does the cache of releases.

It refuses if the cluster would lose its quorum, or does not answer. The last member is not removed from the
member list: it is the cluster, and its data is moved aside, or deleted where both --discard-data and --force
say so.`,
		Example: "  etcdadm reset\n  etcdadm reset --skip-remove-member   # the cluster is gone, or another machine " +
			"removes the member",
		Args: cobra.NoArgs,
	}
	t := &task{cmd: cmd, goal: machine.Goal{Action: machine.Reset}, flags: machineflags.Add(cmd, machineflags.Paths)}
	var given string
	fs := cmd.Flags()
	fs.BoolVar(&t.goal.SkipRemoveMember, "skip-remove-member", false, "do not change the cluster's member list")
	fs.BoolVar(&t.goal.DiscardData, "discard-data", false, "delete the data instead of moving it aside")
	fs.BoolVar(&t.goal.Force, "force", false, "with --discard-data, delete the data of the last member, too")
	fs.BoolVar(&t.goal.RemoveCA, "remove-ca", false, "delete the certificate authority too")
	fs.StringVar(&given, "endpoints", "", "client `URLs` of other members, if this one does not run")
	t.addRun()
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if t.program, err = program(); err != nil {
			return err
		}
		if given != "" {
			if t.endpoints, err = endpoints(given, false); err != nil {
				return err
			}
		}
		m, r, err := t.run(cmd.Context())
		if err != nil || t.dryRun {
			return err
		}
		v := changed{string(m.Config().Name), len(r.Steps) > 0, stepLines(r.Steps), r.Last.Data.SetAside}
		return t.out.Print(cmd.OutOrStdout(), cli.Versioned("MemberResult", v), func(w io.Writer) error {
			if !v.Changed {
				fmt.Fprintln(w, "Nothing to do.")
				return nil
			}
			fmt.Fprintln(w, "This machine no longer has a member.")
			if wasLast(r) {
				fmt.Fprintln(w, "It was the last member: the cluster is gone.")
			}
			sayEven(w, m.VotersLeft())
			if n := len(v.SetAside); n > 0 && !t.goal.DiscardData {
				fmt.Fprintf(w, "Its data is in %s.\n", cli.Plain(v.SetAside[n-1]))
			}
			return nil
		})
	}
	return cmd
}

// wasLast says whether the member has left nobody behind.
func wasLast(r operate.Result) bool {
	return slices.ContainsFunc(r.Steps, endsCluster)
}

// endsCluster says whether it is the step with which the last member leaves.
func endsCluster(s machine.Step) bool {
	op, ok := s.Do.(*machine.Remember)
	return ok && op.Record.Last
}

// A changed is what reset and remove print for programs.
type changed struct {
	Member   string     `json:"member"`
	Changed  bool       `json:"changed"`
	Steps    []stepLine `json:"steps"`
	SetAside []string   `json:"setAside,omitempty"`
}

// oneMember takes the member to remove.
func oneMember(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return &cli.UsageError{Text: "the member to remove is missing", Next: "see the members: etcdadm status"}
	case 1:
		return nil
	}
	return &cli.UsageError{Text: fmt.Sprintf("%d members are named, and one is removed at a time", len(args)),
		Next: "etcdadm remove " + args[0]}
}

// NewRemove returns the command remove.
func NewRemove() *cobra.Command {
	cmd := &cobra.Command{
		Use: "remove MEMBER", Short: "remove a member whose machine is gone from the cluster",
		Long: `remove takes a member whose machine is dead out of the cluster that this machine's member is in. MEMBER is its
name, its ID or its peer URL. On a machine that is alive, run "etcdadm leave" there instead.

It refuses if the cluster would lose its quorum, and to remove a healthy member without --force.`,
		Example: "  etcdadm remove node3\n  etcdadm remove 8e9e05c52164694d",
		Args:    oneMember,
	}
	t := &task{cmd: cmd, goal: machine.Goal{Action: machine.Remove}, flags: machineflags.Add(cmd, machineflags.Paths)}
	var given string
	cmd.Flags().BoolVar(&t.goal.Force, "force", false, "remove a member that is healthy")
	cmd.Flags().StringVar(&given, "endpoints", "", "client `URLs` of members; by default this machine's own")
	t.addRun()
	cmd.ValidArgsFunction = cli.Complete(1, false, func(ctx context.Context, _ *cobra.Command) (_ []string, err error) {
		if given != "" {
			if t.endpoints, err = endpoints(given, false); err != nil {
				return nil, err
			}
		}
		return t.memberNames(ctx)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		t.goal.Target = args[0]
		if given != "" {
			if t.endpoints, err = endpoints(given, false); err != nil {
				return err
			}
		}
		_, r, err := t.run(cmd.Context())
		if err != nil || t.dryRun {
			return err
		}
		v := changed{Member: args[0], Changed: len(r.Steps) > 0, Steps: stepLines(r.Steps)}
		return t.out.Print(cmd.OutOrStdout(), cli.Versioned("MemberResult", v), func(w io.Writer) error {
			if v.Changed {
				fmt.Fprintf(w, "Member %s is removed; %d are left.\n", cli.Plain(args[0]), len(r.Last.Remote.Members))
				sayEven(w, r.Last.Remote.Voters())
			} else {
				fmt.Fprintf(w, "Nothing to do: the cluster has no member %s.\n", cli.Plain(args[0]))
			}
			return nil
		})
	}
	return cmd
}

// memberNames are the names of the members of the cluster, and the IDs of those that have none.
func (t *task) memberNames(ctx context.Context) (names []string, err error) {
	_, obs, err := t.see(func(m *operate.Machine) (machine.Observation, error) { return m.Observe(ctx, t.goal) })
	for _, m := range obs.Remote.Members {
		names = append(names, cmp.Or(string(m.Name), m.ID.String()))
	}
	slices.Sort(names)
	return names, err
}
