package config

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/machineflags"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/host/configfile"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// A verdict is what is found about one configuration.
type verdict struct {
	// File is its path, empty for what flags and the environment say.
	File  string `json:"file,omitempty"`
	Valid bool   `json:"valid"`
	// Errors are all that is wrong, Warnings what need not be.
	Errors   []string `json:"errors,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// A validation is what validate prints for programs.
type validation struct {
	Valid   bool      `json:"valid"`
	Results []verdict `json:"results"`
}

func newValidate() *cobra.Command {
	cmd := &cobra.Command{
		Use: "validate [FILE...]", Short: "check configurations without changing anything",
		Long: `validate checks that files are well formed, that their values are possible, and that this version of etcd knows
the flags that are set. Without a file it checks the combination of --config, the environment and the flags.
Nothing on the machine is checked; that is what etcdadm preflight does.`,
		Example: "  etcdadm config validate member.yaml\n  etcdadm config validate --config member.yaml --version 3.7.3",
	}
	flags := machineflags.Add(cmd, groups...)
	out := cli.AddOutput(cmd, cli.Table, cli.JSON, cli.YAML)
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		var verdicts []verdict
		switch other := settings(cmd); {
		case len(files) > 0 && other != "":
			return cli.Usagef("files and --%s do not go together", other)
		case len(files) == 0 && !hasSource(cmd):
			return &cli.UsageError{Text: "nothing to check: no file and no flag is given", Next: cmd.CommandPath() + " FILE"}
		case len(files) == 0:
			c, err := flags.Config()
			verdicts = append(verdicts, judge("", c, err))
		}
		for _, name := range files {
			f, err := configfile.Read(name, cmd.InOrStdin())
			if err != nil {
				verdicts = append(verdicts, judge(name, machine.Config{}, err))
				continue
			}
			verdicts = append(verdicts, judge(name, configfile.Overlay(machine.Defaults(), f.Config), complete(f)))
		}
		failed := summary(verdicts)
		all := cli.Versioned("ConfigValidation", validation{failed == nil, verdicts})
		if err := out.Print(cmd.OutOrStdout(), all, func(w io.Writer) error { return lines(w, verdicts) }); err != nil {
			return err
		}
		return failed
	}
	return cmd
}

// complete checks what a file says together with the defaults.
func complete(f *configfile.File) error {
	c := configfile.Overlay(machine.Defaults(), f.Config)
	var found configfile.Errors
	for _, err := range []error{c.Validate(), c.CheckFlags()} {
		var wrong machine.FieldErrors
		errors.As(err, &wrong)
		for _, e := range wrong {
			at := f.Locate(e)
			if at == nil {
				at = &configfile.Error{File: f.Name, Line: 1, Path: e.Path, Text: e.Text}
			}
			found = append(found, at)
		}
	}
	if len(found) > 0 {
		return found
	}
	return nil
}

func judge(file string, c machine.Config, err error) verdict {
	v := verdict{File: file, Valid: err == nil}
	var many configfile.Errors
	switch {
	case errors.As(err, &many):
		for _, e := range many {
			v.Errors = append(v.Errors, e.Error())
		}
	case err != nil:
		v.Errors = append(v.Errors, err.Error())
	case len(c.Etcd.Flags) > 0 && !etcdconf.FlagsKnown(c.Version):
		v.Warnings = append(v.Warnings,
			fmt.Sprintf("the flags of etcd %s are not known; they were checked against the nearest known version",
				c.Version))
	}
	return v
}

// lines writes verdicts for people.
func lines(w io.Writer, verdicts []verdict) error {
	for _, v := range verdicts {
		name := v.File
		if name == "" {
			name = "configuration"
		}
		all := append(v.Errors, v.Warnings...)
		if v.Valid {
			all = append([]string{cli.Plain(name) + ": valid"}, all...)
		}
		for _, line := range all {
			if _, err := fmt.Fprintln(w, cli.Plain(line)); err != nil {
				return err
			}
		}
	}
	return nil
}

func summary(verdicts []verdict) error {
	bad := 0
	for _, v := range verdicts {
		if !v.Valid {
			bad++
		}
	}
	switch {
	case bad == 0:
		return nil
	case len(verdicts) == 1:
		return &cli.UsageError{Text: "the configuration is not valid",
			Next: "for a complete one see: etcdadm config print --defaults"}
	}
	return &cli.UsageError{Text: fmt.Sprintf("%d of %d configurations are not valid", bad, len(verdicts)),
		Next: "for a complete one see: etcdadm config print --defaults"}
}
