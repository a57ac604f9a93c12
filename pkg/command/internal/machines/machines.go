// Package machines has the commands of etcdadm that work on the machine they
// run on: init, join, reset, remove, and those that observation.
package machines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/machineflags"
	"github.com/etcdadm/etcdadm/pkg/command/internal/progress"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/host/operate"
	"github.com/etcdadm/etcdadm/pkg/internal/shell"
)

// A task is one command that works towards a goal.
type task struct {
	cmd   *cobra.Command
	flags *machineflags.Flags
	out   *cli.Output
	goal  machine.Goal
	// endpoints are client URLs of members.
	endpoints []string
	dryRun    bool
	ignore    []string
	// program is how this program is called again, to supervise etcd.
	program []string
	// shows says that nothing is changed: etcd is looked for where the unit has it.
	shows bool
	// checked says that the preflight checks come first.
	checked bool
}

// shortTimeout is how long reset and remove wait for a cluster that does not answer:
// it is not about to come up, as that of a join may be.
const shortTimeout = 15 * time.Second

// Program is the command line that runs this etcdadm again.
type Program func() ([]string, error)

// addRun gives the command what all commands that change the machine have.
func (t *task) addRun() {
	fs := t.cmd.Flags()
	fs.BoolVar(&t.dryRun, "dry-run", false, "print what would be done, and do nothing")
	t.out = cli.AddOutput(t.cmd, cli.Table, cli.JSON, cli.YAML)
}

func (t *task) addChecks() {
	t.checked = true
	t.cmd.Flags().StringSliceVar(&t.ignore, "ignore-preflight-errors", nil,
		"`IDs` of checks whose errors are only warned about, or all")
}

// open returns the machine.
func (t *task) open() (*operate.Machine, error) {
	cfg, err := t.flags.Given()
	if err != nil {
		return nil, err
	}
	if cfg.Timeouts.Membership == 0 && t.goal.Action != machine.Init && t.goal.Action != machine.Join {
		cfg.Timeouts.Membership = machine.Duration(shortTimeout)
	}
	if t.shows && cfg.Paths.Install == "" {
		cfg.Paths.Install = operate.InstallWritten(cfg)
	}
	bar, done := progress.Bar(t.cmd.ErrOrStderr(), "download etcd")
	m, err := operate.New(t.cmd.Context(), operate.Options{
		Config: cfg, AsWritten: t.goal.Action == machine.Reset || t.goal.Action == machine.Remove,
		Endpoints: t.endpoints, Program: t.program, OneTry: !t.flags.Retry(),
		Began: t.began,
		Bytes: func(n, total int64) {
			bar(n, total)
			if n == total {
				done()
			}
		},
		Fetching: func(url string) { t.say("downloading %s", url) },
		Waiting: func(text string) {
			done() // a bar is drawn again when the download goes on
			t.say("waiting: %s", text)
		},
		Warned: func(check, text string) { t.say("[WARNING %s]: %s", check, text) },
	})
	if err != nil {
		return nil, usage(err)
	}
	return m, nil
}

// began prints a step, and one after which the cluster ends, whatever --log-level says.
func (t *task) began(s machine.Step) {
	if endsCluster(s) {
		t.warn("this is the last member of its cluster, and the cluster ends with it")
	}
	t.say("[%s] %s", s.Phase, s.Text())
}

// usage makes errors about the spec usage errors.
func usage(err error) error {
	var fields machine.FieldErrors
	if errors.As(err, &fields) {
		return &cli.UsageError{Text: err.Error(), Next: "etcdadm config validate"}
	}
	return err
}

// say prints progress on the error output, so that the standard output holds
// the result alone.
func (t *task) say(format string, args ...any) {
	if !quiet(t.cmd) {
		fmt.Fprintln(t.cmd.ErrOrStderr(), cli.Plain(fmt.Sprintf(format, args...)))
	}
}

// quiet says whether --log-level leaves progress out.
func quiet(cmd *cobra.Command) bool {
	f := cmd.Flags().Lookup("log-level")
	return f != nil && !slices.Contains([]string{"debug", "info"}, f.Value.String())
}

// stepLine is a step for programs.
type stepLine struct {
	Phase string `json:"phase"`
	Text  string `json:"text"`
}

func stepLines(steps []machine.Step) []stepLine {
	lines := make([]stepLine, len(steps))
	for i, s := range steps {
		lines[i] = stepLine{s.Phase, s.Text()}
	}
	return lines
}

// run checks, and works towards the goal; with --dry-run it prints the plan
// instead.
func (t *task) run(ctx context.Context) (*operate.Machine, operate.Result, error) {
	m, err := t.open()
	if err != nil {
		return nil, operate.Result{}, err
	}
	if t.checked && t.goal.Phase == "" {
		if err := t.preflight(ctx, m); err != nil {
			return m, operate.Result{}, err
		}
	}
	if t.dryRun {
		return m, operate.Result{}, t.printSteps(ctx, m)
	}
	r, err := m.Run(ctx, t.goal)
	if err != nil && ctx.Err() != nil && len(r.Steps) > 0 {
		err = cli.WithHint(err, "run the same command again to continue")
	}
	return m, r, err
}

// preflight looks for what would stand in the way.
func (t *task) preflight(ctx context.Context, m *operate.Machine) error {
	obs, err := m.Inspect(ctx, t.goal)
	if err != nil {
		return err
	}
	return t.judge(machine.Preflight(t.goal, m.Config(), obs))
}

// warnUnknown warns of names that would have no effect: a word that is written in another
// way must not be taken for what it was meant to be.
func (t *task) warnUnknown() {
	var phases, checks []string
	for _, p := range machine.Phases(t.goal.Action) {
		phases = append(phases, p.Name)
	}
	for _, c := range machine.Checks() {
		checks = append(checks, c.ID)
	}
	for _, name := range t.goal.Skip {
		if !slices.Contains(phases, name) {
			t.warn("--skip-phases: %s has no phase %q to skip; its phases are %s", t.goal.Action, name,
				strings.Join(phases, ", "))
		}
	}
	for _, id := range t.ignore {
		if !machine.IsCheck(id) {
			t.warn("--ignore-preflight-errors: there is no check %q; name all, or one of %s", id, strings.Join(checks, ", "))
		}
	}
}

// warn warns of what is odd in the command line, whatever --log-level says of progress.
func (t *task) warn(format string, args ...any) {
	fmt.Fprintln(t.cmd.ErrOrStderr(), "warning: "+cli.Plain(fmt.Sprintf(format, args...)))
}

// judged are the findings that count: without those that only follow from the lack of root, unless a
// person goes on without it.
func (t *task) judged(found []machine.Finding) []machine.Finding {
	root := machine.Finding{ID: "IsPrivilegedUser"}
	if slices.ContainsFunc(t.ignore, root.Named) {
		return found
	}
	return machine.JudgedByAll(found)
}

// judge prints the findings, and returns an error if some are errors.
func (t *task) judge(found []machine.Finding) error {
	var bad []machine.Finding
	for _, f := range t.judged(found) {
		ignored := slices.ContainsFunc(t.ignore, f.Named)
		if f.Fatal && !ignored {
			bad = append(bad, f)
			continue
		}
		t.say("[WARNING %s]: %s%s", f.ID, f.Text, behind(f.Next))
	}
	if len(bad) == 0 {
		return nil
	}
	return &preflightError{bad, t.ignore}
}

func behind(next string) string {
	if next == "" {
		return ""
	}
	return " (" + next + ")"
}

// A preflightError says what stands in the way.
type preflightError struct {
	found []machine.Finding
	// ignored are the names that are ignored already.
	ignored []string
}

func (e *preflightError) Error() string {
	texts := make([]string, len(e.found))
	for i, f := range e.found {
		texts[i] = fmt.Sprintf("[ERROR %s]: %s%s", f.ID, f.Text, behind(f.Next))
	}
	return "preflight checks failed: " + strings.Join(texts, "; ")
}

// Kind is held: nothing was done.
func (e *preflightError) Kind() string { return cli.KindHeld }

// Hint says how to go on despite it.
func (e *preflightError) Hint() string {
	ids := slices.Clone(e.ignored)
	for _, f := range e.found {
		if !slices.Contains(ids, f.ID) {
			ids = append(ids, f.ID)
		}
	}
	return "fix it, or continue despite it with --ignore-preflight-errors=" + strings.Join(ids, ",")
}

// A stepsView is what --dry-run prints for programs.
type stepsView struct {
	Steps []stepLine    `json:"steps"`
	Hold  *machine.Hold `json:"hold,omitempty"`
}

// printSteps prints the steps as command lines, one for each phase, with what
// they do as comments.
func (t *task) printSteps(ctx context.Context, m *operate.Machine) error {
	obs, err := m.Observe(ctx, t.goal)
	if err != nil {
		return err
	}
	steps, why, err := machine.Plan(t.goal, m.Config(), obs)
	if err != nil {
		return err
	}
	err = t.out.Print(t.cmd.OutOrStdout(), cli.Versioned("Steps", stepsView{stepLines(steps), why}),
		func(w io.Writer) error {
			if len(steps) == 0 && why == nil {
				fmt.Fprintln(w, "# nothing to do")
			}
			for i, s := range steps {
				fmt.Fprintf(w, "# %s: %s\n", s.Phase, cli.Plain(s.Text()))
				if i+1 == len(steps) || steps[i+1].Phase != s.Phase {
					if line := t.phaseLine(s.Phase); line != "" {
						fmt.Fprintln(w, line)
					}
				}
			}
			if why != nil {
				fmt.Fprintf(w, "# hold %s: %s\n", why.Reason, cli.Plain(why.Text))
			}
			return nil
		})
	if err == nil && why != nil {
		return why
	}
	return err
}

// phaseLine returns the command line of a phase, with the flags that were
// given. Actions without commands for their phases have none.
func (t *task) phaseLine(phase string) string {
	if t.goal.Action != machine.Init && t.goal.Action != machine.Join {
		return ""
	}
	words := []string{"etcdadm", string(t.goal.Action), "phase", phase}
	if t.goal.Action == machine.Join {
		words = append(words, strings.Join(t.endpoints, ","))
	}
	own := []string{"dry-run", "output", "ignore-preflight-errors", "skip-phases"}
	t.cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains(own, f.Name) {
			words = append(words, shell.Quote("--"+f.Name+"="+f.Value.String()))
		}
	})
	return strings.Join(words, " ")
}
