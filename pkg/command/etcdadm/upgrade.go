package etcdadm

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/internal/machines"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// addUpgradePlan puts the plan of a change of version beside the check of this
// machine's member.
func (t *tool) addUpgradePlan(root *cobra.Command) {
	for _, c := range root.Commands() {
		if c.Name() == "upgrade" {
			c.AddCommand(t.connected(t.upgradePlanCommand()))
			return
		}
	}
	group := cli.Group("upgrade", "check whether and how the etcd version can be changed")
	group.GroupID = "machine"
	group.AddCommand(t.connected(t.upgradePlanCommand()))
	root.AddCommand(group)
}

// An upgradePlan is the plan of a change of version, for programs.
type upgradePlan struct {
	// Members are what runs now, To is what is to run; Versions are what all members
	// run one after the other, To the last of them.
	Members  []memberVersion       `json:"members"`
	To       etcdversion.Version   `json:"to"`
	Versions []etcdversion.Version `json:"versions"`
	// InSpec says that the spec asks for it: the daemons take these steps.
	InSpec bool `json:"inSpec"`
	render.Steps
}

// A memberVersion is a member with what it runs, and what its node could run.
type memberVersion struct {
	Name     cluster.NodeName      `json:"name"`
	Version  etcdversion.Version   `json:"version"`
	Binaries []etcdversion.Version `json:"binaries"`
}

func (t *tool) upgradePlanCommand() *cobra.Command {
	f := &planFlags{}
	cmd := &cobra.Command{
		Use: "plan", Short: "print the steps to another etcd version, up or down",
		Long: `plan prints which etcd version each member runs, the versions in between, and the steps as command lines.
What holds them back is printed as comments. It changes nothing. It exits with 3 when there is something to do,
but no step to take.

In a managed cluster, which --backup-store, --nodes or a daemon on this machine report, the steps are those of
the daemons, and "sh -e" can run them. On a machine that init or join has made, they come from the same plan, and
each line is for one machine, which the comment above it names.`,
		Example: "  etcdadm upgrade plan --to=3.7.3\n  etcdadm upgrade plan --to=3.5.35 -o json", Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&f.file, "observation", "",
		"`file` with an observation, or a published status, to plan from; - for standard input")
	cmd.Flags().StringVar(&f.version, "to", "", "the `version` that the members are to run (default: that of the spec)")
	cmd.Flags().BoolVar(&f.restore, "allow-restore", false,
		"plan as if an operator had allowed a restore with etcd-manager-ctl configure-cluster --allow-restore")
	here := machines.AddUpgradePlan(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.file != "" {
			spec, obs, err := f.read(cmd.InOrStdin())
			if err != nil {
				return err
			}
			return t.upgradePlan(cmd, f, spec, obs)
		}
		if look, err := t.byHand(cmd, here); err != nil {
			return err
		} else if look != nil {
			return t.upgradeByHand(cmd, look, f.version)
		}
		return t.run(cmd, func(ctx context.Context, c Cluster) error {
			spec, obs, err := c.Observe(ctx)
			if err != nil {
				return fmt.Errorf("observe: %w", err)
			}
			return t.upgradePlan(cmd, f, spec, obs)
		})
	}
	return cmd
}

func (t *tool) upgradePlan(cmd *cobra.Command, f *planFlags, spec cluster.Spec,
	obs cluster.Observation) error {
	said := spec.EtcdVersion
	if f.version != "" {
		v, err := etcdversion.Parse(f.version)
		if err != nil {
			return &cli.UsageError{Text: err.Error(), Next: "--to=3.6.16"}
		}
		spec.EtcdVersion = v
		if v != said {
			spec.Risk = cluster.VersionRisk{} // it is for exactly the version that the spec asks for
		}
	}
	if spec.MemberCount == 0 {
		for _, m := range obs.Members {
			if !m.Learner {
				spec.MemberCount++ // an observation alone has no spec
			}
		}
	}
	if f.restore && obs.SealedRequest() == nil {
		// As if it had been queued just before the observation.
		obs.Store.Requests = append(slices.Clone(obs.Store.Requests), cluster.Request{
			Name: "allowed", Kind: cluster.RequestRestore, At: obs.At.Add(-2 * time.Second), Sealed: true,
			EtcdVersion: spec.EtcdVersion,
		})
		obs.Store.Source = &cluster.Source{Request: "allowed"}
		if own := obs.Store.Own(); len(own) > 0 {
			obs.Store.Source.Newest = own[0].Name
		}
	}
	steps, err := render.NewSteps(spec, obs)
	if err != nil {
		return err
	}
	p := upgradePlan{
		Members: memberVersions(obs), To: spec.EtcdVersion, Versions: steps.Versions(),
		InSpec: said == spec.EtcdVersion, Steps: steps,
	}
	if err := t.out.Print(cmd.OutOrStdout(), cli.Versioned("UpgradePlan", p), p.write); err != nil {
		return err
	}
	return steps.Err()
}

func memberVersions(obs cluster.Observation) []memberVersion {
	list := []memberVersion{}
	for _, m := range obs.Members {
		v := memberVersion{Name: m.Name, Version: m.Version, Binaries: []etcdversion.Version{}}
		for _, n := range obs.Nodes {
			if n.Name == m.Name {
				v.Binaries = append(v.Binaries, n.Versions...)
				if v.Version.IsZero() && n.Assigned != nil {
					v.Version = n.Assigned.Version
				}
			}
		}
		list = append(list, v)
	}
	return list
}

// head writes what runs, and what is to run one after the other.
func (p upgradePlan) head(b *strings.Builder) {
	for _, m := range p.Members {
		fmt.Fprintf(b, "# %s runs etcd %s\n", cli.Plain(string(m.Name)), m.Version)
	}
	for i, v := range p.Versions {
		word := "all are to run"
		if i > 0 {
			word = "and then"
		}
		fmt.Fprintf(b, "# %s etcd %s\n", word, v)
	}
}

// write writes the plan as a shell script.
func (p upgradePlan) write(w io.Writer) error {
	var b strings.Builder
	p.head(&b)
	if !p.InSpec {
		fmt.Fprintf(&b, "# the spec has another version; to have the daemons do it: etcd-manager-ctl --backup-store=STORE "+
			"--etcd-version=%s configure-cluster\n", p.To)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return p.Steps.Write(w)
}
