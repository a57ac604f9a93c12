package machines

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/machineflags"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/host/operate"
)

// NewPreflight returns the command preflight.
func NewPreflight() *cobra.Command {
	var list bool
	var given string
	cmd := &cobra.Command{
		Use: "preflight", Short: "check for what would stop init or join",
		Long: `preflight checks for everything that would stop init (or join, with --endpoints), or that would go wrong later.
It changes nothing. init and join make the same checks first.`,
		Args: cobra.NoArgs,
	}
	t := &task{cmd: cmd, goal: machine.Goal{Action: machine.Init}, flags: machineflags.Add(cmd, machineflags.Member)}
	t.addChecks()
	t.out = cli.AddOutput(cmd, cli.Table, cli.JSON, cli.YAML)
	cmd.Flags().BoolVar(&list, "list", false, "list the checks instead of running them")
	cmd.Flags().StringVar(&given, "endpoints", "", "client `URLs` of the cluster to join")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if list {
			return printChecks(cmd, t.out)
		}
		if given != "" {
			t.goal.Action = machine.Join
			if t.endpoints, err = endpoints(given, false); err != nil {
				return err
			}
			t.warnPeerPort()
		}
		t.warnUnknown()
		m, obs, err := t.see(func(m *operate.Machine) (machine.Observation, error) {
			return m.Inspect(cmd.Context(), t.goal)
		})
		if err != nil {
			return err
		}
		return t.reportPreflight(m, obs)
	}
	return cmd
}

// A preflightReport is all that would stop init or join on this machine.
type preflightReport struct {
	Action machine.Action `json:"action"`
	Member string         `json:"member"`
	// Ready says that the command would go on, as far as can be foreseen; Wait that it
	// would wait for others first.
	Ready bool `json:"ready"`
	Wait  bool `json:"wait"`
	// Findings are those of the checks, Holds is all that would hold the command back, and
	// Hold the first of it.
	Findings []machine.Finding `json:"findings"`
	Holds    []machine.Hold    `json:"holds"`
	Hold     *machine.Hold     `json:"hold,omitempty"`
	Steps    []stepLine        `json:"steps"`
}

// waits says whether a command waits for a hold to clear. A cluster that does not trust
// this machine, or the other way round, is not waited for.
func waits(h machine.Hold) bool {
	return (h.Wait || h.Momentary) && (h.Others || h.Reason != machine.ClusterUnreachable)
}

// reportPreflight prints the report, and returns an error if the command would not go
// on.
func (t *task) reportPreflight(m *operate.Machine, obs machine.Observation) error {
	found := t.judged(machine.Preflight(t.goal, m.Config(), obs))
	steps, _, err := machine.Plan(t.goal, m.Config(), obs)
	if err != nil {
		return err
	}
	holds, err := machine.Holds(t.goal, m.Config(), obs)
	if err != nil {
		return err
	}
	if !obs.Host.Root && !slices.ContainsFunc(t.ignore, machine.Finding{ID: "IsPrivilegedUser"}.Named) {
		holds = slices.DeleteFunc(holds, func(h machine.Hold) bool { return strings.Contains(h.Text, "permission denied") })
	}
	judged := t.judge(found)
	r := preflightReport{
		Action: t.goal.Action, Member: string(m.Config().Name),
		Findings: append([]machine.Finding{}, found...), Holds: append([]machine.Hold{}, holds...), Steps: stepLines(steps),
	}
	var stops *machine.Hold
	for i, h := range holds {
		if !waits(h) && stops == nil {
			stops = &holds[i]
		}
	}
	if len(holds) > 0 {
		r.Hold, r.Wait = &holds[0], stops == nil
	}
	r.Ready = judged == nil && stops == nil
	t.printHolds(holds, stops, judged)
	err = t.out.Print(t.cmd.OutOrStdout(), cli.Versioned("Preflight", r), func(w io.Writer) error {
		if len(found) == 0 && len(holds) == 0 {
			fmt.Fprintln(w, "All checks passed.")
		}
		for _, h := range holds {
			if waits(h) {
				fmt.Fprintf(w, "%s would wait: %s\n", t.goal.Action, cli.Plain(h.Text))
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case judged != nil:
		return judged
	case stops != nil:
		return stops
	}
	return nil
}

// printHolds prints the holds that the error does not name.
func (t *task) printHolds(holds []machine.Hold, stops *machine.Hold, judged error) {
	for i := range holds {
		h := &holds[i]
		reported := judged != nil && h.Reason == machine.InitSystemMissing // by the check InitSystem
		if !reported && !waits(*h) && (h != stops || judged != nil) {
			t.say("[HOLD %s]: %s%s", h.Reason, h.Text, behind(h.Next))
		}
	}
}

func printChecks(cmd *cobra.Command, out *cli.Output) error {
	type check struct {
		ID   string `json:"id"`
		What string `json:"what"`
	}
	var list struct {
		Checks []check `json:"checks"`
	}
	rows := [][]string{{"ID", "WHAT IS CHECKED"}}
	for _, c := range machine.Checks() {
		list.Checks = append(list.Checks, check{c.ID, c.What})
		rows = append(rows, []string{c.ID, c.What})
	}
	checks := cli.Versioned("PreflightChecks", list)
	return out.Print(cmd.OutOrStdout(), checks, func(w io.Writer) error { return cli.Rows(w, rows...) })
}
