package cli

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/internal/shell"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// chooses is the annotation of flags that say which cluster, or which etcd, a command is about.
const chooses = "etcdadm_chooses"

// The flags that say where the store is, in all programs.
const (
	storeName, contextName = "backup-store", "context"
)

// Chooses marks flags that say which cluster or etcd a command is about. A command line that the
// program advises has them too, if that is one of a command with flags of the same group.
func Chooses(fs *pflag.FlagSet, group string, names ...string) {
	for _, name := range names {
		// It fails only for a flag that does not exist.
		_ = fs.SetAnnotation(name, chooses, []string{group})
	}
}

// filled is the annotation of flags that the program has set itself.
const filled = "etcdadm_filled"

// Fill sets a flag that the person did not give, as the environment or a context has it. A command line
// that is advised goes without: it finds the value where this one did.
func Fill(fs *pflag.FlagSet, name, value string) error {
	if err := fs.Set(name, value); err != nil {
		return err
	}
	return fs.SetAnnotation(name, filled, []string{"true"})
}

// given says whether a flag was given by the person.
func given(f *pflag.Flag) bool { return f != nil && f.Changed && f.Annotations[filled] == nil }

func group(f *pflag.Flag) string {
	if f == nil || len(f.Annotations[chooses]) == 0 {
		return ""
	}
	return f.Annotations[chooses][0]
}

// StoreFlag is the flag that says to any program where the store of a command is: as it was given, else
// by location where that is known. It is empty where nothing is known, and for a location with a secret.
func StoreFlag(cmd *cobra.Command, location string) string {
	if f := cmd.Flags().Lookup(contextName); f != nil && f.Changed {
		return "--" + contextName + "=" + shell.Quote(f.Value.String())
	}
	if f := cmd.Flags().Lookup(storeName); f != nil && f.Changed {
		location = f.Value.String()
	}
	return store.Flag(location)
}

// Ctl is a command line of etcd-manager-ctl on the store at a location, without one that has a secret.
func Ctl(location, rest string) string {
	if flag := store.Flag(location); flag != "" {
		rest = flag + " " + rest
	}
	return "etcd-manager-ctl " + rest
}

// lines finds command lines in a text: a program, and the words after it that may be commands.
var lines = regexp.MustCompile(`\b(etcd-manager-ctl|etcdadm)((?: [a-z][a-z0-9-]*)+)`)

// observing are the commands of etcdadm to which another program sends, and which take a store.
var observing = map[string]bool{"plan": true, "status": true, "observe": true, "dashboard": true}

// stored are the commands of etcd-manager-ctl that work on a store.
var stored = strings.Fields(`get configure-cluster list-backups list-commands delete-command restore-backup
		status top explain plan history forget-node take-backup pause resume recover-lease-voters
		verify drill dump diff prune`)

// Pasteable returns a text in which the command lines have the flags that were given to cmd to
// say which cluster it is about, so that they are about the same one.
func Pasteable(cmd *cobra.Command, text string) string {
	flag := StoreFlag(cmd, "")
	text = plan.AtStore(text, flag)
	if !given(cmd.Flags().Lookup(contextName)) && !given(cmd.Flags().Lookup(storeName)) {
		flag = "" // the other program finds the store where this one did
	}
	var b strings.Builder
	at := 0
	for _, m := range lines.FindAllStringSubmatchIndex(text, -1) {
		rest := text[m[1]:]
		if end := strings.IndexAny(rest, ";\n"); end >= 0 {
			rest = rest[:end]
		}
		program, words := text[m[2]:m[3]], strings.Fields(text[m[4]:m[5]])
		var flags []string
		end := m[1]
		switch {
		case strings.HasPrefix(rest, " --help"):
		case program == cmd.Root().Name():
			sub, taken := command(cmd.Root(), words)
			flags = sameFlags(cmd, sub)
			switch {
			case len(flags) == 0:
			case program == "etcd-manager-ctl": // all of its commands take them
				end = m[3]
			default:
				end = m[4] + len(" "+strings.Join(words[:taken], " "))
			}
		case flag != "" && (program == "etcd-manager-ctl" && slices.Contains(stored, words[0]) ||
			program == "etcdadm" && observing[words[0]]):
			flags, end = []string{flag}, m[3]
			if program == "etcdadm" {
				end = m[4] + len(" "+words[0])
			}
		}
		b.WriteString(text[at:end])
		for _, f := range flags {
			if name, _, _ := strings.Cut(f, "="); !strings.Contains(rest, name+"=") {
				b.WriteString(" " + f)
			}
		}
		at = end
	}
	b.WriteString(text[at:])
	return b.String()
}

// command returns the command that words begin with, and how many of them it takes; nil for none.
func command(root *cobra.Command, words []string) (*cobra.Command, int) {
	at, taken := root, 0
	for _, w := range words {
		next := (*cobra.Command)(nil)
		for _, c := range at.Commands() {
			if c.Name() == w || c.HasAlias(w) {
				next = c
			}
		}
		if next == nil {
			break
		}
		at, taken = next, taken+1
	}
	if taken == 0 || root.Name() == "etcd-manager-ctl" && !slices.Contains(stored, words[0]) {
		return nil, 0
	}
	return at, taken
}

// sameFlags are the flags that cmd was given, by the person, of those that another command has in the same group.
func sameFlags(cmd, other *cobra.Command) (flags []string) {
	if other == nil {
		return nil
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !given(f) || group(f) == "" || group(other.Flag(f.Name)) != group(f) {
			return
		}
		value := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		if value == "true" && f.NoOptDefVal == "true" {
			flags = append(flags, "--"+f.Name)
		} else if store.Shown(value) == value { // no secret goes to the screen
			flags = append(flags, "--"+f.Name+"="+shell.Quote(value))
		}
	})
	return flags
}
