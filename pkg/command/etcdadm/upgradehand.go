package etcdadm

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/command/internal/machines"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// A handPlan is the plan of a change of version of a cluster without daemons: the same
// for programs, and whose machine each line is for.
type handPlan struct {
	upgradePlan
	Steps []machine.UpgradeStep `json:"steps"`
}

// byHand returns what is seen of the member on this machine, nil where daemons are to be
// asked, or where there is none.
func (t *tool) byHand(cmd *cobra.Command, here *machines.UpgradePlan) (*machines.UpgradeObservation, error) {
	managed, err := t.managed(cmd)
	if err != nil || managed || t.connect.given(cmd.Flags()) {
		return nil, err
	}
	return here.Observe(cmd)
}

// upgradeByHand prints the plan for the machines of a cluster without daemons.
func (t *tool) upgradeByHand(cmd *cobra.Command, obs *machines.UpgradeObservation, version string) error {
	if version == "" {
		return &cli.UsageError{Text: "the version that the members are to run is missing", Next: "--to=3.6.16"}
	}
	to, err := etcdversion.Parse(version)
	if err != nil {
		return &cli.UsageError{Text: err.Error(), Next: "--to=3.6.16"}
	}
	made, err := obs.Plan(to)
	if err != nil {
		return err
	}
	p := newHandPlan(obs, to, made)
	if err := t.out.Print(cmd.OutOrStdout(), cli.Versioned("UpgradePlan", p), p.write); err != nil {
		return err
	}
	return p.Err()
}

func newHandPlan(obs *machines.UpgradeObservation, to etcdversion.Version, made machine.UpgradePlan) handPlan {
	p := handPlan{Steps: append([]machine.UpgradeStep{}, made.Steps...)}
	p.To, p.Versions = to, append([]etcdversion.Version{}, made.Versions...)
	p.upgradePlan.Steps = render.Steps{
		Converged: made.Done, Operations: []string{}, Holds: append([]plan.Hold{}, made.Holds...), Warnings: made.Warnings,
	}
	p.Spec.EtcdVersion = to
	here, has := obs.Here()
	for _, m := range obs.Members() {
		v := memberVersion{Name: m.Name, Version: m.Version, Binaries: []etcdversion.Version{}}
		if m.Name == here && !has.IsZero() {
			v.Binaries = append(v.Binaries, has)
		}
		if !m.Learner {
			p.Spec.MemberCount++
		}
		p.Members = append(p.Members, v)
	}
	for _, s := range p.Steps {
		p.Operations = append(p.Operations, s.Line)
	}
	if len(p.Operations) > 0 {
		p.Warnings = append(p.Warnings, "whether there is a fresh backup is not known here; first: "+machine.SaveLine(to))
	}
	return p
}

// write writes the lines, each below the machine that it is for.
func (p handPlan) write(w io.Writer) error {
	var b strings.Builder
	p.head(&b)
	if len(p.Steps) > 0 {
		b.WriteString("# each line is for the machine above it, with the other flags that its init or join had; that machine checks " +
			"its own\n# binaries and data before it changes, and all members once more\n")
	}
	for _, text := range p.Warnings {
		fmt.Fprintf(&b, "# warning: %s\n", cli.Plain(text))
	}
	var last cluster.NodeName
	for i, s := range p.Steps {
		if i == 0 || s.On != last {
			fmt.Fprintf(&b, "# on %s (%s)\n", cli.Plain(string(s.On)), cli.Plain(s.URL))
		}
		if last = s.On; s.Note != "" {
			fmt.Fprintf(&b, "# %s\n", cli.Plain(s.Note))
		}
		fmt.Fprintln(&b, s.Line)
	}
	for _, h := range p.Holds {
		fmt.Fprintf(&b, "# %s\n", cli.Plain(h.String()))
	}
	if p.Converged && len(p.Steps) == 0 {
		fmt.Fprintf(&b, "# all members run etcd %s\n", p.To)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
