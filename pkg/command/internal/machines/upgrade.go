package machines

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/internal/machineflags"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/host/operate"
)

// NewUpgrade returns the command upgrade with those below it.
func NewUpgrade() *cobra.Command {
	cmd := cli.Group("upgrade", "check whether and how the etcd version can be changed")
	cmd.AddCommand(newUpgradeCheck())
	return cmd
}

// A hazardLine is what was found of a kind of hazard, for people and programs.
type hazardLine struct {
	cluster.Hazard
	// Before are the minor versions that do not stand it.
	Before []string `json:"before"`
	// Fix is what to do about it, empty where it is absent.
	Fix string `json:"fix,omitempty"`
}

// steps are the changes that data can stand in the way of.
var steps = []etcdversion.Version{{Major: 3, Minor: 6}, {Major: 3, Minor: 7}}

func newUpgradeCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check", Short: "check the member's data for what the next minor version does not tolerate",
		Long: `check searches this machine's data directory for what the next minor version of etcd does not tolerate: keys of
the v2 store, members that only the database knows, and old entries in the log. Each of these is present, proved
absent, or unknown, and is printed with what to do about it. It changes nothing, whether etcd runs or not. The
same check is made before every upgrade: by join and init before they install a new minor version, and by
etcd-manager before a member changes its version.

With --to it exits with 3 unless everything that this version does not tolerate is proved absent, and where the
member cannot go to that version from the one that it runs.`,
		Example: "  etcdadm upgrade check --to 3.6.16\n  etcdadm upgrade check --data-dir /mnt/copy-of-data -o json",
		Args:    cobra.NoArgs,
	}
	t := &task{cmd: cmd, goal: machine.Goal{Action: machine.Reset}, flags: machineflags.Add(cmd, machineflags.Paths)}
	var to string
	cmd.Flags().StringVar(&to, "to", "", "the `version` that the member is to run")
	out := cli.AddOutput(cmd, cli.Table, cli.JSON, cli.YAML)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return t.checkUpgrade(cmd, out, to) }
	return cmd
}

func (t *task) checkUpgrade(cmd *cobra.Command, out *cli.Output, to string) error {
	var want etcdversion.Version
	if to != "" {
		v, err := etcdversion.Parse(to)
		if err != nil {
			return &cli.UsageError{Text: err.Error(), Next: "--to=3.6.16"}
		}
		want = v
	}
	m, err := t.open()
	if err != nil {
		return err
	}
	lines := hazardLines(m, want)
	var held *machine.Hold
	if to != "" {
		if held, err = t.reaches(m, want, len(lines) > 0); err != nil {
			return err
		}
		if held != nil {
			lines = nil
		}
	}
	found := cli.Versioned("UpgradeCheck", struct {
		Hazards []hazardLine `json:"hazards"`
	}{append([]hazardLine{}, lines...)})
	if err := out.Print(cmd.OutOrStdout(), found, func(w io.Writer) error {
		if len(lines) == 0 {
			if held == nil {
				fmt.Fprintf(w, "Nothing in the data stands in the way of etcd %s.\n", want)
			}
			return nil
		}
		return printHazards(w, lines)
	}); err != nil {
		return err
	}
	if held != nil {
		return held
	}
	for _, l := range lines {
		if l.State != cluster.HazardAbsent && to != "" {
			return &machine.Hold{
				Reason: machine.VersionHazard, Next: l.Fix,
				Text: fmt.Sprintf("etcd %s does not tolerate this data: %s", want, l.Hazard),
			}
		}
	}
	return nil
}

// reaches returns why the member cannot go to a version at all, nil if it can. Where
// nobody knows what has written the data, it can go to a version that the data was
// checked for.
func (t *task) reaches(m *operate.Machine, want etcdversion.Version, checked bool) (*machine.Hold, error) {
	goal := t.goal
	goal.SkipRemoveMember = true // nobody else is asked
	obs, err := m.Observe(t.cmd.Context(), goal)
	if err != nil {
		return nil, err
	}
	return machine.Reaches(m.Config(), obs, want, checked), nil
}

// hazardLines checks the data, and returns what matters before a version; all, before none.
func hazardLines(m *operate.Machine, want etcdversion.Version) []hazardLine {
	var lines []hazardLine
	for _, h := range m.Hazards() {
		l := hazardLine{Hazard: h}
		for _, v := range steps {
			if !slices.Contains(cluster.HazardsBefore(v), h.Kind) || !want.IsZero() && v.Minor != want.Minor {
				continue
			}
			l.Before = append(l.Before, fmt.Sprintf("%d.%d", v.Major, v.Minor))
			if h.State != cluster.HazardAbsent && l.Fix == "" {
				l.Fix = h.FixByHand(v)
			}
		}
		if len(l.Before) > 0 {
			lines = append(lines, l)
		}
	}
	return lines
}

func printHazards(w io.Writer, lines []hazardLine) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "HAZARD\tBEFORE\tSTATE\tWHAT")
	for _, l := range lines {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", l.Kind, cli.Plain(fmt.Sprint(l.Before)), l.State, cli.Plain(l.What))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, l := range lines {
		if l.Fix != "" {
			fmt.Fprintf(w, "%s: %s\n", l.Kind, l.Fix)
		}
	}
	return nil
}
