package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A FlagSection is a heading in the help of a command, and its flags.
type FlagSection struct {
	Title string
	// Common are the flags that --help shows, More those that only --help-all does.
	Common, More []string
}

// helpWidth is at how many columns the texts of help are wrapped.
const helpWidth = 100

// annotations of flags and of the root command
const (
	sectionKey = "help-section" // title, position
	moreKey    = "help-more"
	foldKey    = "help-fold-" // with the id of a group
)

// Sections groups the flags of cmd in its help, in the order given. Names of
// flags that cmd does not have are left out, so that commands which share some
// flags can share the sections. Flags in no section are the command's own: they come first.
func Sections(cmd *cobra.Command, sections ...FlagSection) {
	for i, s := range sections {
		for _, name := range s.Common {
			annotate(cmd.Flag(name), s.Title, i, false)
		}
		for _, name := range s.More {
			annotate(cmd.Flag(name), s.Title, i, true)
		}
	}
}

func annotate(f *pflag.Flag, title string, position int, more bool) {
	if f == nil {
		return
	}
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[sectionKey] = []string{title, fmt.Sprintf("%03d", position)}
	if more {
		f.Annotations[moreKey] = []string{"true"}
	}
}

// Fold shows a group of root's commands as one line of its help. The commands
// themselves are listed by "help TOPIC".
func Fold(root *cobra.Command, group, topic, short string) {
	if root.Annotations == nil {
		root.Annotations = map[string]string{}
	}
	root.Annotations[foldKey+group] = topic + "\n" + short
}

// folded returns the topic and the line of a folded group.
func folded(root *cobra.Command, group string) (topic, short string, ok bool) {
	topic, short, ok = strings.Cut(root.Annotations[foldKey+group], "\n")
	return topic, short, ok
}

// A helper prints help. Its err is what was wrong with the command line that
// asked for it.
type helper struct {
	all bool
	err error
}

// install makes h answer for all of a tree: each command for itself, and an
// argument that is no command is an error, not the help of another.
func (h *helper) install(root *cobra.Command) {
	if root.PersistentFlags().Lookup("help-all") == nil { // a tree may be run again
		root.PersistentFlags().Bool("help-all", false, "help with all flags")
	}
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		if rest := cmd.Flags().Args(); len(rest) > 0 && cmd.HasAvailableSubCommands() {
			if h.err = cmd.ValidateArgs(rest); h.err != nil {
				return
			}
		}
		printHelp(cmd.OutOrStdout(), cmd, h.all)
	})
	root.SetHelpCommand(&cobra.Command{
		Use: "help [COMMAND]", Short: "help for any command",
		GroupID:           groupOf(root),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return h.topic(cmd.OutOrStdout(), cmd.Root(), args)
		},
	})
}

// groupOf is the group of root that the command help is in: that of the commands that show something,
// or else none, which is listed last.
func groupOf(root *cobra.Command) string {
	const show = "show"
	if root.ContainsGroup(show) {
		return show
	}
	return ""
}

// topic prints the help of a command, or the list of a folded group.
func (h *helper) topic(w io.Writer, root *cobra.Command, args []string) error {
	if len(args) == 1 {
		for _, g := range root.Groups() {
			if topic, short, ok := folded(root, g.ID); ok && topic == args[0] {
				printTopic(w, root, g, short)
				return nil
			}
		}
	}
	cmd, rest, err := root.Find(args)
	if err != nil {
		return &UsageError{Text: firstLine(err.Error()), Next: root.Name() + " --help"}
	}
	if len(rest) > 0 && cmd.HasAvailableSubCommands() {
		return Known(cmd, rest)
	}
	cmd.InitDefaultHelpFlag()
	printHelp(w, cmd, h.all)
	return nil
}

// takeAll takes --help-all out of args: what is left asks for help.
func (h *helper) takeAll(args []string) []string {
	out := slices.Clone(args)
	for i, a := range out {
		switch a {
		case "--":
			return out
		case "--help-all":
			h.all, out[i] = true, "--help"
		}
	}
	return out
}

// printTopic lists all commands of a folded group, with those below them.
func printTopic(w io.Writer, root *cobra.Command, g *cobra.Group, short string) {
	var list []*cobra.Command
	var add func(*cobra.Command)
	add = func(c *cobra.Command) {
		if !c.IsAvailableCommand() {
			return
		}
		if !c.HasAvailableSubCommands() {
			list = append(list, c)
		}
		for _, sub := range c.Commands() {
			add(sub)
		}
	}
	for _, c := range root.Commands() {
		if c.GroupID == g.ID {
			add(c)
		}
	}
	fmt.Fprintf(w, "%s\n\n%s\n", Sentence(short), g.Title)
	width := 0
	path := func(c *cobra.Command) string { return strings.TrimPrefix(c.CommandPath(), root.Name()+" ") }
	for _, c := range list {
		width = max(width, len(path(c)))
	}
	for _, c := range list {
		fmt.Fprintf(w, "  %-*s  %s\n", width, path(c), c.Short)
	}
	fmt.Fprintf(w, "\nHelp for one of them: %s help COMMAND\n", root.Name())
}

// printHelp prints the help of one command: what it is for, how it is called,
// its commands and its flags.
func printHelp(w io.Writer, cmd *cobra.Command, all bool) {
	fmt.Fprintf(w, "%s\n", cmp.Or(strings.TrimSpace(cmd.Long), Sentence(cmd.Short)))
	fmt.Fprint(w, "\nUsage:\n")
	if cmd.Runnable() {
		fmt.Fprintf(w, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s [command]\n", cmd.CommandPath())
	}
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(w, "\nAlso called:\n  %s\n", strings.Join(cmd.Aliases, ", "))
	}
	if cmd.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", examples(cmd))
	}
	printCommands(w, cmd)
	printFlags(w, cmd, all)
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\nHelp for a command: %s COMMAND --help\n", cmd.CommandPath())
	}
}

// examples returns the examples of cmd as lines that can be pasted: a command that several programs
// have does not know under which it stands.
func examples(cmd *cobra.Command) string {
	lines := strings.Split(strings.TrimRight(cmd.Example, "\n"), "\n")
	for i, line := range lines {
		if rest, ok := strings.CutPrefix(line, "  "+cmd.Name()+" "); ok && cmd.HasParent() {
			lines[i] = "  " + cmd.CommandPath() + " " + rest
		}
	}
	return strings.Join(lines, "\n")
}

// Sentence makes a sentence of a command's short text.
func Sentence(short string) string {
	if short == "" {
		return ""
	}
	return strings.ToUpper(short[:1]) + strings.TrimSuffix(short[1:], ".") + "."
}

// shortOf returns what the list of commands has about c. That of cobra's own command is in another form than ours.
func shortOf(c *cobra.Command) string {
	if c.Name() == "completion" {
		return "print what completes command lines in a shell"
	}
	return c.Short
}

// printCommands lists the commands below cmd, by group.
func printCommands(w io.Writer, cmd *cobra.Command) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	list := func(title, group string) {
		var lines []string
		for _, c := range cmd.Commands() {
			if c.GroupID == group && (c.IsAvailableCommand() || c.Name() == "help") {
				lines = append(lines, fmt.Sprintf("  %-*s  %s\n", c.NamePadding(), c.Name(), shortOf(c)))
			}
		}
		if len(lines) > 0 {
			fmt.Fprintf(w, "\n%s\n%s", title, strings.Join(lines, ""))
		}
	}
	for _, g := range cmd.Groups() {
		has := func(c *cobra.Command) bool { return c.GroupID == g.ID }
		if topic, short, ok := folded(cmd, g.ID); ok && slices.ContainsFunc(cmd.Commands(), has) {
			fmt.Fprintf(w, "\n%s\n  %s: %s help %s\n", g.Title, short, cmd.Name(), topic)
			continue
		}
		list(g.Title, g.ID)
	}
	title := "Commands:"
	if len(cmd.Groups()) > 0 {
		title = "More commands:"
	}
	list(title, "")
}

// A part is one section of flags as it is printed.
type part struct {
	order, title string
	flags        *pflag.FlagSet
}

// printFlags prints the flags of cmd by section; those that are seldom needed
// only where all are asked for.
func printFlags(w io.Writer, cmd *cobra.Command, all bool) {
	parts := map[string]*part{}
	hidden := 0 // how many are left out
	add := func(order, title string, f *pflag.Flag) {
		p := parts[order]
		if p == nil {
			p = &part{order: order, title: title, flags: pflag.NewFlagSet(title, pflag.ContinueOnError)}
			p.flags.SortFlags = false
			parts[order] = p
		}
		p.flags.AddFlag(f)
	}
	visit := func(title, order string) func(*pflag.Flag) {
		return func(f *pflag.Flag) {
			switch at := f.Annotations[sectionKey]; {
			case f.Hidden, !usedBy(f, cmd):
			case f.Annotations[moreKey] != nil && !all:
				hidden++
			case at != nil:
				add(at[1], at[0], f)
			case f.Annotations[onlyKey] != nil:
				add("", "Flags", f)
			default:
				add(order, title, f)
			}
		}
	}
	cmd.LocalFlags().VisitAll(visit("Flags", ""))
	cmd.InheritedFlags().VisitAll(visit("Flags of all commands", "z"))
	order := make([]*part, 0, len(parts))
	for _, p := range parts {
		order = append(order, p)
	}
	slices.SortFunc(order, func(a, b *part) int { return cmp.Compare(a.order, b.order) })
	for _, p := range order {
		fmt.Fprintf(w, "\n%s:\n%s", p.title, p.flags.FlagUsagesWrapped(helpWidth))
	}
	if hidden > 0 {
		fmt.Fprintf(w, "\n%d more flags: %s --help-all\n", hidden, cmd.CommandPath())
	}
}
