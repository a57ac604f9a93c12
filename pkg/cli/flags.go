package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// onlyKey is the annotation of a flag of a whole tree that only some commands use.
const onlyKey = "help-only"

// alsoKey is the annotation of a flag that has other names.
const alsoKey = "also-named"

// Alias takes another name for a flag of fs, a command's own, under which it was known before or is known in another
// program. Help names it beside the flag; what is said of a value names the flag.
func Alias(fs *pflag.FlagSet, name, other string) {
	if f := fs.Lookup(name); f != nil {
		f.Usage += "; also --" + other
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[alsoKey] = append(f.Annotations[alsoKey], other)
	}
	before := fs.GetNormalizeFunc()
	fs.SetNormalizeFunc(func(fs *pflag.FlagSet, n string) pflag.NormalizedName {
		if n == other {
			n = name
		}
		return before(fs, n)
	})
}

// OnlyFor says which commands use a flag that all of a tree take, wherever it stands on the line:
// help shows it with these, and [Unused] refuses it for the others.
func OnlyFor(fs *pflag.FlagSet, name string, commands ...string) {
	if f := fs.Lookup(name); f != nil {
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[onlyKey] = commands
	}
}

// Unused refuses the flags that were given and that cmd does not use.
func Unused(cmd *cobra.Command, _ []string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if only := f.Annotations[onlyKey]; err == nil && !usedBy(f, cmd) {
			err = Usagef("--%s is for %s; %s does not use it", f.Name, strings.Join(only, " and "), cmd.CommandPath())
		}
	})
	return err
}

// usedBy says whether cmd uses f, and not only takes it.
func usedBy(f *pflag.Flag, cmd *cobra.Command) bool {
	only := f.Annotations[onlyKey]
	return only == nil || slices.Contains(only, cmd.Name())
}

// Wrap breaks the lines of a text between words where they are longer than those of help are.
func Wrap(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		column := 0
		for i, word := range strings.Split(strings.TrimSuffix(line, "\n"), " ") {
			switch {
			case i == 0:
			case column+1+len(word) > helpWidth:
				b.WriteByte('\n')
				column = 0
			default:
				b.WriteByte(' ')
				column++
			}
			b.WriteString(word)
			column += len(word)
		}
		if strings.HasSuffix(line, "\n") {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
