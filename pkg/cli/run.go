package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/isolate"
)

// Run executes a tree of commands with the arguments of the command line,
// without the program's name. It prints the error, if there is one, to the
// tree's error output, and returns the exit code. When ctx ends first, the code
// is that of an interruption.
//
// Long flags may have one dash. Every error from before a command's own
// function begins is a usage error.
func Run(ctx context.Context, root *cobra.Command, args []string) int {
	if code, ok := isolate.Main(ctx, args, root.InOrStdin(), root.OutOrStdout()); ok {
		return code
	}
	root.SilenceErrors, root.SilenceUsage = true, true
	if w := root.ErrOrStderr(); !isFile(w) {
		root.SetErr(&oneAtATime{w: w})
	}
	root.SetFlagErrorFunc(flagError)
	var help helper
	help.install(root)
	root.SetArgs(help.takeAll(SingleDash(args, allFlags(root))))
	began := false
	watch(root, &began)

	cmd, err := root.ExecuteContextC(ctx)
	err = cmp.Or(help.err, err)
	if err == nil {
		return 0
	}
	var usage *UsageError
	switch {
	case ctx.Err() != nil:
		err = &interruptedError{err}
	case !began && !errors.As(err, &usage):
		err = &UsageError{Text: argumentText(cmd, firstLine(err.Error())), Next: cmd.CommandPath() + " --help"}
	}
	code := Classify(err)
	report(cmd, err, code, wantsJSON(cmd, args))
	return code.Number
}

// isFile reports whether w is a file, to which several goroutines may write.
func isFile(w io.Writer) bool {
	_, file := w.(*os.File)
	return file
}

// oneAtATime lets one goroutine write at a time. A note, for example that a store does not answer,
// comes while the command goes on.
type oneAtATime struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *oneAtATime) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}

// watch sets began when any command's own function begins.
func watch(cmd *cobra.Command, began *bool) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*began = true
			return run(cmd, args)
		}
	}
	for _, c := range cmd.Commands() {
		watch(c, began)
	}
}

// A failure is an error as JSON.
type failure struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Code    int    `json:"code"`
	// Reason is why a machine does not go on, empty for all but holds.
	Reason string `json:"reason,omitempty"`
}

func report(cmd *cobra.Command, err error, code Code, asJSON bool) {
	w, hint := cmd.Root().ErrOrStderr(), Pasteable(cmd, hintOf(err))
	text := plan.AtStore(message(err), StoreFlag(cmd, ""))
	f := failure{Kind: code.Kind, Message: text, Hint: Plain(hint), Code: code.Number}
	if held := (interface{ HoldReason() string })(nil); errors.As(err, &held) {
		f.Reason = held.HoldReason()
	}
	if asJSON {
		// A struct of strings and a number always marshals.
		b, _ := json.Marshal(f)
		fmt.Fprintf(w, "%s\n", b)
		return
	}
	fmt.Fprintf(w, "error: %s\n", f.Message)
	for line := range strings.Lines(hint) {
		fmt.Fprintf(w, "hint: %s\n", Plain(strings.TrimSuffix(line, "\n")))
	}
}

// message returns the text of err on one line.
func message(err error) string {
	return Plain(strings.ReplaceAll(err.Error(), "\n", "; "))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// wantsJSON says whether the error is to be JSON: by the flag, or where the
// flags could not be read, by what the arguments look like.
func wantsJSON(cmd *cobra.Command, args []string) bool {
	if f := cmd.Flags().Lookup("output"); f != nil && f.Changed {
		return f.Value.String() == string(JSON)
	}
	for i, a := range args {
		switch a {
		case "-o=json", "-ojson", "--output=json", "-output=json":
			return true
		case "-o", "--output", "-output":
			return i+1 < len(args) && args[i+1] == "json"
		case "--":
			return false
		}
	}
	return false
}

// allFlags returns the flags of all commands of a tree, each under all of its names.
func allFlags(root *cobra.Command) *pflag.FlagSet {
	all := pflag.NewFlagSet(root.Name(), pflag.ContinueOnError)
	others := pflag.NewFlagSet(root.Name(), pflag.ContinueOnError)
	var add func(*cobra.Command)
	add = func(c *cobra.Command) {
		for _, fs := range []*pflag.FlagSet{c.PersistentFlags(), c.Flags()} {
			all.AddFlagSet(fs)
			fs.VisitAll(func(f *pflag.Flag) { addOthers(others, f) })
		}
		for _, sub := range c.Commands() {
			add(sub)
		}
	}
	add(root)
	all.AddFlagSet(others)
	return all
}

// addOthers adds f under the other names that [Alias] gave it.
func addOthers(fs *pflag.FlagSet, f *pflag.Flag) {
	for _, name := range f.Annotations[alsoKey] {
		if fs.Lookup(name) == nil {
			other := *f
			other.Name, other.Shorthand = name, ""
			fs.AddFlag(&other)
		}
	}
}
