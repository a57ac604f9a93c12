package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/internal/spelling"
)

// SingleDash returns args with a second dash before every long flag that has
// only one, as in -member-count=3: Go's flag package, on which the existing
// tools stand, takes both. Shorthands, values of flags and what follows "--"
// stay as they are.
func SingleDash(args []string, flags *pflag.FlagSet) []string {
	out := slices.Clone(args)
	for i := 0; i < len(out); i++ {
		a := out[i]
		if a == "--" {
			break
		}
		if !strings.HasPrefix(a, "-") {
			continue
		}
		name, _, hasValue := strings.Cut(strings.TrimLeft(a, "-"), "=")
		f := flags.Lookup(name)
		if f == nil && len(name) == 1 {
			f = flags.ShorthandLookup(name)
		}
		if f == nil {
			continue
		}
		if !strings.HasPrefix(a, "--") && len(name) > 1 {
			out[i] = "-" + a
		}
		if !hasValue && f.NoOptDefVal == "" {
			i++ // the next one is the flag's value
		}
	}
	return out
}

// Group returns a command that only holds others.
func Group(use, short string) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  Known,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var names []string
			for _, c := range cmd.Commands() {
				if c.IsAvailableCommand() {
					names = append(names, c.Name())
				}
			}
			return &UsageError{
				Text: fmt.Sprintf("%s needs a command: %s", cmd.CommandPath(), strings.Join(names, ", ")),
				Next: cmd.CommandPath() + " --help",
			}
		},
	}
}

// Known is the Args function of commands that hold others: an argument there
// is a command that does not exist.
func Known(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	e := &UsageError{Text: fmt.Sprintf("unknown command %q for %s", args[0], cmd.CommandPath()),
		Next: cmd.CommandPath() + " --help"}
	if near := nearestCommand(args[0], cmd.Commands()); near != "" {
		e.Next = "did you mean " + cmd.CommandPath() + " " + near + "?"
	}
	return e
}

// nearestCommand returns the visible command that was meant by word, "" if none is alike: one that
// is spelled like it or begins with it, or whose last word is ("backups" of list-backups).
func nearestCommand(word string, commands []*cobra.Command) string {
	var names, lasts []string
	command := map[string]string{}
	for _, c := range commands {
		if !c.IsAvailableCommand() {
			continue
		}
		for _, name := range slices.Concat([]string{c.Name()}, c.Aliases, c.SuggestFor) {
			names, command[name] = append(names, name), c.Name()
		}
		if _, last, ok := strings.Cut(c.Name(), "-"); ok {
			if command[last] == "" {
				lasts, command[last] = append(lasts, last), c.Name()
			} else if !slices.Contains(names, last) {
				command[last] += " or " + c.Name()
			}
		}
	}
	for _, known := range [][]string{names, lasts} {
		if near := spelling.Nearest(word, known); near != "" {
			return command[near]
		}
		for _, name := range known {
			if strings.HasPrefix(name, word) {
				return command[name]
			}
		}
	}
	return ""
}

// argumentCount is how cobra says that there are too few or too many arguments.
var argumentCount = regexp.MustCompile(`^(?:accepts|requires) .*\b(\d+) arg\(s\), (?:only )?received (\d+)$`)

// argumentText says in words what is wrong with the number of arguments, and which form the
// command has.
func argumentText(cmd *cobra.Command, text string) string {
	m := argumentCount.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	form := strings.TrimSuffix(cmd.UseLine(), " [flags]")
	want, wantErr := strconv.Atoi(m[1])
	if got, err := strconv.Atoi(m[2]); err == nil && wantErr == nil && got < want {
		return "an argument is missing: the command is " + form
	}
	return "there are too many arguments: the command is " + form
}

// flagError makes usage errors of what is wrong with flags.
func flagError(cmd *cobra.Command, err error) error {
	e := &UsageError{Text: firstLine(err.Error()), Next: cmd.CommandPath() + " --help"}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "bool" {
		name := "--" + invalid.GetFlag().Name
		e.Text = fmt.Sprintf("%s is %q, neither true nor false", name, invalid.GetValue())
		e.Next = name + "=true or " + name + "=false"
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		name := unknown.GetSpecifiedName()
		dashes := "--"
		if short := unknown.GetSpecifiedShortnames(); short != "" {
			name, _, _ = strings.Cut(short, "=")
			dashes = "-"
		}
		e.Text = "unknown flag " + dashes + name
		if near := nearest(name, cmd.Flags()); near != "" {
			e.Next = "did you mean --" + near + "?"
		}
	}
	return e
}

// nearest returns the visible flag whose name is most like name, "" if none is
// alike.
func nearest(name string, flags *pflag.FlagSet) string {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return spelling.Nearest(name, names)
}
