package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/configfile"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// A migrate holds the flags of the command.
type migrate struct {
	envFile, unit, manifest string
	version                 etcdversion.Version
}

func newMigrate() *cobra.Command {
	d, m := machine.Defaults().Paths, migrate{}
	cmd := &cobra.Command{
		Use: "migrate [FILE]", Short: "make a configuration from an older one, or from the files on this machine",
		Long: `migrate prints a configuration file. With FILE, it is that file in the present version. Without, it is derived
from the files that run etcd on this machine, written by the retired etcdadm or by this one: the environment
file and the systemd unit, or the kubelet's manifest. Nothing is changed. Settings that have no place in a
configuration are reported on standard error.`,
		Example: "  etcdadm config migrate > member.yaml\n  etcdadm config migrate " +
			"--manifest=/etc/kubernetes/manifests/etcd.manifest",
		Args: cobra.MaximumNArgs(1),
	}
	flags := cmd.Flags()
	flags.StringVar(&m.envFile, "env-file", filepath.Join(d.Environment, initfiles.EnvName), "etcd's environment `file`")
	flags.StringVar(&m.unit, "unit", filepath.Join(d.Units, initfiles.UnitName), "the `unit` of systemd")
	flags.StringVar(&m.manifest, "manifest", filepath.Join(d.Manifests, initfiles.ManifestName),
		"the static `pod`, which is read instead of the others")
	flags.TextVar(&m.version, "version", etcdversion.Version{},
		"`version` of etcd (default: what the binary or the image says)")
	out := cli.AddOutput(cmd, cli.YAML, cli.JSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, notes, err := m.run(cmd, args)
		if err != nil {
			return err
		}
		for _, n := range notes {
			fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", cli.Plain(n))
		}
		return write(cmd.OutOrStdout(), out, c)
	}
	return cmd
}

func (m *migrate) run(cmd *cobra.Command, args []string) (machine.Config, []string, error) {
	if len(args) == 1 {
		f, err := configfile.Read(args[0], cmd.InOrStdin())
		if err != nil {
			return machine.Config{}, nil, err
		}
		return f.Config, nil, nil
	}
	written, err := m.read(cmd)
	if err != nil {
		return machine.Config{}, nil, err
	}
	written.SANs = certs.NamesIn
	c, notes, err := configfile.Migrate(written)
	if err != nil {
		return c, nil, err
	}
	if v := m.installed(cmd.Context(), c); !v.IsZero() {
		c.Version = v
	}
	if c.Version.IsZero() {
		notes = append(notes, fmt.Sprintf("set version to the one that runs; the default is %s", machine.DefaultVersion))
	}
	if err := errors.Join(c.Validate(), c.CheckFlags()); err != nil {
		notes = append(notes, fmt.Sprintf("fix this before use: %v", err))
	}
	return c, notes, nil
}

// read reads the files that are there. One that a flag names must be.
func (m *migrate) read(cmd *cobra.Command) (configfile.Written, error) {
	var w configfile.Written
	given := cmd.Flags().Changed
	sources := []struct {
		flag, path string
		into       *configfile.Source
	}{{"manifest", m.manifest, &w.Manifest}, {"env-file", m.envFile, &w.Env}, {"unit", m.unit, &w.Unit}}
	for _, s := range sources {
		if s.flag == "manifest" && !given(s.flag) && (given("env-file") || given("unit") || present(m.envFile)) ||
			s.path == "" {
			continue
		}
		b, err := os.ReadFile(s.path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !given(s.flag):
			continue
		case err != nil:
			return w, cli.WithHint(fmt.Errorf("migrate: %w", err), "--env-file, --unit and --manifest say where the files are")
		}
		// Paths in a configuration are absolute.
		if s.path, err = filepath.Abs(s.path); err != nil {
			return w, fmt.Errorf("migrate: %w", err)
		}
		*s.into = configfile.Source{Path: s.path, Text: string(b)}
		if s.flag == "manifest" {
			return w, nil
		}
	}
	if w.Env.Path == "" {
		return w, &cli.UsageError{
			Text: "there is no " + m.envFile + " and no " + m.manifest + " on this machine",
			Next: "--env-file, --unit and --manifest say where the files are",
		}
	}
	return w, nil
}

func present(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// installed returns the version that was given, or what the binary says; the
// zero value if neither is there.
func (m *migrate) installed(ctx context.Context, c machine.Config) etcdversion.Version {
	if !m.version.IsZero() || c.Paths.Install == "" {
		return m.version
	}
	// Without a binary that answers, a person has to say it.
	v, err := etcdbin.Probe(ctx, c.Paths.Binary("etcd"))
	if err != nil {
		return etcdversion.Version{}
	}
	return v
}
