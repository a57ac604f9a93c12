package etcdadm

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/command/internal/machines"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

func (t *tool) observeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "observe", Short: "observe once and print the whole observation", GroupID: "show",
		Long: `Observes once and prints all that it sees of this machine and its cluster. With --backup-store or
--nodes, and on a machine where a daemon runs, it asks the daemons of a managed cluster instead;
plan --observation reads that.`,
		Args: cobra.NoArgs,
	}
	out := cli.AddOutput(cmd, cli.JSON, cli.YAML)
	here := machines.AddStatus(cmd, out)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if managed, err := t.managed(cmd); err != nil {
			return err
		} else if !managed && !t.connect.given(cmd.Flags()) {
			return here.Observe(cmd)
		}
		return t.run(cmd, func(ctx context.Context, c Cluster) error {
			_, obs, err := c.Observe(ctx)
			if err != nil {
				return fmt.Errorf("observe: %w", err)
			}
			return out.Print(cmd.OutOrStdout(), cli.Versioned("ClusterObservation", obs), nil)
		})
	}
	return cmd
}

func (t *tool) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "observe once and print the state of the member and its cluster", GroupID: "machine",
		Long: `Observes once, itself, and prints the state of this machine's member and its cluster. With
--backup-store or --nodes, and on a machine where a daemon runs, it asks the daemons of a managed cluster
instead; "etcd-manager-ctl status" prints what their coordinator published last.`,
		Args: cobra.NoArgs,
	}
	here := machines.AddStatus(t.connected(cmd), t.out)
	check := render.AddCheck(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if managed, err := t.managed(cmd); err != nil {
			return err
		} else if !managed && !t.connect.given(cmd.Flags()) {
			return here.Run(cmd, *check)
		}
		return t.run(cmd, func(ctx context.Context, c Cluster) error {
			spec, obs, err := c.Observe(ctx)
			if err != nil {
				return fmt.Errorf("observe: %w", err)
			}
			return t.status(cmd, spec, obs, *check)
		})
	}
	return cmd
}

// status prints an observation as if a coordinator had published it.
func (t *tool) status(cmd *cobra.Command, spec cluster.Spec, obs cluster.Observation, check bool) error {
	r, op := render.Observed(spec, obs)
	st := render.NewStatus(&r, obs.At)
	st.Requests = obs.Store.Requests
	if op != nil {
		st.Notes = append(st.Notes, "the next step is: "+plan.Line(op))
	}
	if err := t.out.Print(cmd.OutOrStdout(), cli.Versioned("ClusterStatus", st), func(w io.Writer) error {
		return st.Write(w, obs.At)
	}); err != nil || !check {
		return err
	}
	return st.Check()
}

// A planFlags holds the flags of plan.
type planFlags struct {
	file    string
	count   int
	version string
	// restore is --allow-restore of upgrade plan.
	restore bool
}

func (t *tool) planCommand() *cobra.Command {
	f := &planFlags{}
	cmd := &cobra.Command{
		Use: "plan", Short: "print the steps from the present state to the spec", GroupID: "show",
		Long: `plan prints the steps that lead from the present state to the spec, as command lines that "sh -e" can run, and
what holds them back as comments. It changes nothing. It exits with 3 when the cluster differs from the spec
and there is no step to take.`,
		Example: "  etcdadm plan | sh -e\n  etcdadm plan --spec-member-count=5\n  etcdadm observe >o.json; etcdadm plan " +
			"--observation=o.json --spec-member-count=3 --spec-etcd-version=3.6.16",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&f.file, "observation", "",
		"`file` with an observation, or a published status, to plan from; - for standard input")
	cmd.Flags().IntVar(&f.count, "spec-member-count", 0, "plan as if the spec had this number of members")
	cmd.Flags().StringVar(&f.version, "spec-etcd-version", "", "plan as if the spec had this etcd `version`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.file != "" {
			spec, obs, err := f.read(cmd.InOrStdin())
			if err != nil {
				return err
			}
			return t.plan(cmd, f, spec, obs)
		}
		return t.run(cmd, func(ctx context.Context, c Cluster) error {
			spec, obs, err := c.Observe(ctx)
			if err != nil {
				return fmt.Errorf("observe: %w", err)
			}
			return t.plan(cmd, f, spec, obs)
		})
	}
	return cmd
}

func (t *tool) plan(cmd *cobra.Command, f *planFlags, spec cluster.Spec, obs cluster.Observation) error {
	spec, given, err := f.spec(cmd, spec)
	if err != nil {
		return err
	}
	if given {
		// The flags stand in for the spec in the store, whatever is wrong with that.
		obs.Store.SpecProblem = ""
	}
	steps, err := render.NewSteps(spec, obs)
	if err != nil {
		return err
	}
	if err := t.out.Print(cmd.OutOrStdout(), cli.Versioned("Plan", steps), steps.Write); err != nil {
		return err
	}
	return steps.Err()
}

// read returns the observation in the file, and its spec if it is a published
// status.
func (f *planFlags) read(stdin io.Reader) (cluster.Spec, cluster.Observation, error) {
	var b []byte
	var err error
	if f.file == "-" {
		b, err = io.ReadAll(stdin)
	} else {
		b, err = os.ReadFile(f.file)
	}
	if err != nil {
		return cluster.Spec{}, cluster.Observation{}, fmt.Errorf("read the observation: %w", err)
	}
	var published struct {
		Spec        cluster.Spec         `json:"spec"`
		Observation *cluster.Observation `json:"observation"`
	}
	if err = cli.Unmarshal(b, &published); err == nil && published.Observation != nil {
		return published.Spec, *published.Observation, nil
	}
	var obs cluster.Observation
	if err == nil {
		err = cli.Unmarshal(b, &obs)
	}
	if err == nil && obs.At.IsZero() {
		err = fmt.Errorf("it has no time")
	}
	if err != nil {
		return cluster.Spec{}, cluster.Observation{}, fmt.Errorf("read the observation in %s: %w", f.file, err)
	}
	return cluster.Spec{}, obs, nil
}

// spec returns the spec with what the flags say put in, and whether they say
// anything.
func (f *planFlags) spec(cmd *cobra.Command, spec cluster.Spec) (cluster.Spec, bool, error) {
	counted, versioned := cmd.Flags().Changed("spec-member-count"), cmd.Flags().Changed("spec-etcd-version")
	if counted {
		spec.MemberCount = f.count
	}
	if versioned {
		v, err := etcdversion.Parse(f.version)
		if err != nil {
			return spec, false, cli.Usagef("--spec-etcd-version: %v", err)
		}
		spec.EtcdVersion = v
	}
	if counted || versioned {
		if err := spec.Validate(); err != nil {
			return spec, false, &cli.UsageError{
				Text: "spec: " + err.Error(), Next: "set one with --spec-member-count and --spec-etcd-version",
			}
		}
	}
	return spec, counted || versioned, nil
}
