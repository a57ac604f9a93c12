package etcdadm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/node/apply"
)

// groups are the first words of the operations' paths.
var groups = map[string]string{
	"member":       "start, stop, add, promote and remove members",
	"downgrade":    "have etcd prepare to run the previous minor version",
	"data":         "move old etcd data aside, and delete it",
	"incarnation":  "record that a cluster was bootstrapped",
	"spec":         "write a spec that the store has lost, or that of a restore",
	"restore":      "restore a backup on all nodes, and switch to it",
	"request":      "take requests out of the queue",
	"lease-voters": "record who may grant the coordinator's lease",
	"quarantine":   "keep clients away from members, and let them in again",
	"backup":       "take, verify, try and delete backups",
}

// steps is what the help of each group says, and byHand what a person uses instead: it is in the help
// of the group and of each of its operations.
const steps = `These are single steps of a plan for a cluster that etcd-manager runs. "etcdadm plan" prints them.`

var byHand = map[string]string{
	"backup": `

To take a backup by hand use "etcdadm snapshot save STORE-URL", of any etcd, or "etcd-manager-ctl take-backup",
which asks the coordinator. "etcd-manager-ctl" also has verify, drill and prune.`,
	"restore": `

To restore a backup use "etcd-manager-ctl restore-backup", which asks the coordinator.`,
	"request": `

To delete a request use "etcd-manager-ctl delete-command".`,
	"spec": `

To write a spec use "etcd-manager-ctl configure-cluster".`,
	"member": `

For an etcd that is run by hand use "etcdadm join", "reset", "remove" and "move-leader". The daemons replace a member
by themselves, when its machine is gone. "etcdadm status" lists the members.`,
	"downgrade": `

To change the etcd version use "etcd-manager-ctl configure-cluster --etcd-version=VERSION". "etcdadm upgrade plan"
shows the steps.`,
	"lease-voters": `

To recover lost lease voters use "etcd-manager-ctl recover-lease-voters", which also works without a coordinator.`,
}

// elsewhere is the hint for a command that a group does not have, and nothing like it, where
// another one does what may be meant.
var elsewhere = map[string]string{
	"member": "the members: etcdadm status; the single steps of a plan: etcdadm member --help",
	"backup": "the backups: etcd-manager-ctl list-backups; the single steps of a plan: etcdadm backup --help",
}

// known is [cli.Known] with that hint.
func known(hint string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := cli.Known(cmd, args)
		var usage *cli.UsageError
		if hint != "" && errors.As(err, &usage) && usage.Next == cmd.CommandPath()+" --help" {
			usage.Next = hint
		}
		return err
	}
}

// addOperations adds a command for each operation, below a group for the
// first word of its path.
func (t *tool) addOperations(root *cobra.Command) {
	made := map[string]*cobra.Command{}
	for _, k := range plan.Kinds() {
		first, second, _ := strings.Cut(k.Path, " ")
		group := made[first]
		if group == nil {
			group = t.connected(cli.Group(first, groups[first]))
			group.GroupID = "do"
			group.Long = steps + byHand[first]
			group.Args = known(elsewhere[first])
			made[first] = group
			root.AddCommand(group)
		}
		group.AddCommand(t.operation(second, k))
	}
}

// operation returns the command of one kind of operation.
func (t *tool) operation(name string, k plan.Kind) *cobra.Command {
	op := k.New()
	long := fmt.Sprintf("Purpose: %s.\n\nNeeds: %s\n\nDone: %s", k.Short, k.Needs, k.Done)
	if k.Destructive {
		long = "Destructive: it stops, removes or deletes something.\n\n" + long
	}
	first, _, _ := strings.Cut(k.Path, " ")
	long = cli.Wrap(long) + byHand[first]
	cmd := &cobra.Command{
		Use: name, Short: k.Short, Long: long, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := plan.Validate(op); err != nil {
				return &cli.UsageError{Text: err.Error(), Next: cmd.CommandPath() + " --help"}
			}
			return t.do(cmd, op)
		},
	}
	cmd.Flags().SortFlags = false
	for _, f := range k.Flags() {
		cmd.Flags().Var(&value{op: op, flag: f}, f.Name, f.Doc)
		if names := observed[f.Name]; names != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cli.CompleteWord(t.words(names))) // the flag is there
		}
	}
	return cmd
}

// A value is one flag of an operation. Setting it sets the operation's field.
type value struct {
	op    plan.Operation
	flag  plan.Flag
	given []string
}

// String, Set and Type make it a flag.
func (v *value) String() string { return strings.Join(v.given, ",") }

// Set is as strict as plan.Parse: only a repeated flag may be given twice.
func (v *value) Set(s string) error {
	if len(v.given) > 0 && !v.flag.Repeated {
		return fmt.Errorf("it is given twice")
	}
	v.given = append(v.given, s)
	return plan.Set(v.op, v.flag.Name, s)
}

// Type names the value in help texts.
func (v *value) Type() string { return v.flag.Type }

// A result is what an operation's command prints for programs.
type result struct {
	Operation string  `json:"operation"`
	Seconds   float64 `json:"seconds"`
}

// do carries op out. A person sees the progress on the error output, so that
// the standard output stays free.
func (t *tool) do(cmd *cobra.Command, op plan.Operation) error {
	line := plan.Line(op)
	progress := io.Discard
	if t.out.Text() {
		progress = cmd.ErrOrStderr()
	}
	if d := apply.Deadline(op); d > t.connect.Timeout && !cmd.Flags().Changed("timeout") {
		t.connect.Timeout = d // what a coordinator gives it
	}
	began := time.Now()
	err := t.run(cmd, func(ctx context.Context, c Cluster) error {
		fmt.Fprintf(progress, "doing: %s\n", cli.Plain(line))
		if err := c.Do(ctx, op); err != nil {
			return fmt.Errorf("%s: %w", plan.KindOf(op).Path, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Fprintf(progress, "done in %s\n", took.Round(time.Millisecond))
	did := cli.Versioned("OperationResult", result{line, took.Seconds()})
	return t.out.Print(cmd.OutOrStdout(), did, func(io.Writer) error { return nil })
}
