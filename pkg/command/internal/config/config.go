// Package config is the command "config": it prints, checks and migrates the
// configuration of a machine.
package config

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/machineflags"
	"github.com/etcdadm/etcdadm/pkg/host/configfile"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// New returns the command config with its own commands.
func New() *cobra.Command {
	cmd := cli.Group("config", "print, check and migrate the configuration of a machine")
	cmd.Long = "config works with configuration files (" + configfile.APIVersion + ", kind " + configfile.Kind +
		`), which init,
join and the other commands for one machine read with --config. A file can set whatever flags can set; flags
override the file. Clusters are remembered by name with "etcd-manager-ctl config", for etcdadm as well.`
	cmd.AddCommand(newPrint(), newValidate(), newMigrate())
	return cmd
}

// groups are the groups that have every flag of a configuration between them.
var groups = []machineflags.Group{machineflags.Member, machineflags.Snapshot, machineflags.Join}

func newPrint() *cobra.Command {
	var defaults bool
	cmd := &cobra.Command{
		Use: "print", Short: "print the configuration that a command would use",
		Long: `print prints the configuration that init and join would use: the defaults, overridden by the file of --config,
then by the environment (ETCDADM_NAME for --name), then by the flags. What they take from the machine (its
name, its address) is left out. The output is a configuration file.`,
		Example: "  etcdadm config print --defaults > member.yaml\n  etcdadm config print --config member.yaml " +
			"--version 3.6.16",
		Args: cobra.NoArgs,
	}
	flags := machineflags.Add(cmd, groups...)
	cmd.Flags().BoolVar(&defaults, "defaults", false, "print the defaults only")
	out := cli.AddOutput(cmd, cli.YAML, cli.JSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if defaults {
			if other := settings(cmd); other != "" {
				return cli.Usagef("--defaults and --%s do not go together", other)
			}
			return write(cmd.OutOrStdout(), out, machine.Defaults())
		}
		c, err := flags.Config()
		if err != nil {
			return err
		}
		return write(cmd.OutOrStdout(), out, c)
	}
	return cmd
}

// settings returns a flag that was given and sets something of a configuration,
// "" if none was.
func settings(cmd *cobra.Command) string {
	name := ""
	local := cmd.LocalNonPersistentFlags()
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if local.Lookup(f.Name) != nil && f.Name != "defaults" {
			name = f.Name
		}
	})
	return name
}

// write prints a configuration as a file.
func write(w io.Writer, out *cli.Output, c machine.Config) error {
	b, err := configfile.Marshal(c)
	if out.String() == string(cli.JSON) {
		b, err = json.MarshalIndent(struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			machine.Config
		}{configfile.APIVersion, configfile.Kind, c}, "", "  ")
		b = append(b, '\n')
	}
	if err == nil {
		_, err = w.Write(b)
	}
	if err != nil {
		return fmt.Errorf("print the configuration: %w", err)
	}
	return nil
}

// hasSource says whether there is anything to check besides the defaults.
func hasSource(cmd *cobra.Command) bool {
	return settings(cmd) != "" || os.Getenv(machineflags.Variable("config")) != ""
}
