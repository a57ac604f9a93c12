package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/store"
)

// tool is a tree like those of the programs: "tool get --count=N" returns the
// error, "tool group leaf" exists.
type tool struct {
	root           *cobra.Command
	count          int
	name           string
	args           []string
	stdout, stderr bytes.Buffer
	err            error
}

func newTool() *tool {
	t := &tool{root: &cobra.Command{Use: "tool", Args: Known, RunE: func(*cobra.Command, []string) error { return nil }}}
	t.root.SetOut(&t.stdout)
	t.root.SetErr(&t.stderr)
	AddOutput(t.root, Table, JSON)
	AddKlogFlags(t.root.PersistentFlags())
	t.root.PersistentFlags().IntVar(&t.count, "member-count", 0, "count")
	get := &cobra.Command{Use: "get", RunE: func(_ *cobra.Command, args []string) error {
		t.args = args
		return t.err
	}}
	get.Flags().StringVar(&t.name, "name", "", "name")
	must := &cobra.Command{Use: "must", RunE: func(*cobra.Command, []string) error { return nil }}
	must.Flags().String("needed", "", "needed")
	if err := must.MarkFlagRequired("needed"); err != nil {
		panic(err)
	}
	group := Group("group", "a group")
	group.AddCommand(&cobra.Command{
		Use: "leaf", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return nil },
	})
	t.root.AddCommand(get, must, group)
	return t
}

func (t *tool) run(args ...string) int { return Run(context.Background(), t.root, args) }

func TestWrongCommandLines(t *testing.T) {
	for _, c := range []struct {
		args   string
		stderr string
	}{
		{"get --membercount=3", "error: unknown flag --membercount\nhint: did you mean --member-count?\n"},
		{"-membercount=3 get", "error: unknown flag -membercount\nhint: did you mean --member-count?\n"},
		{"get --zzzzzzzzz", "error: unknown flag --zzzzzzzzz\nhint: tool get --help\n"},
		{"get --vmodul=x", "error: unknown flag --vmodul\nhint: tool get --help\n"}, // hidden flags are not proposed
		{"get --member-count=many",
			`error: invalid argument "many" for "--member-count" flag: strconv.ParseInt: parsing "many": invalid syntax` +
				"\nhint: tool get --help\n"},
		{"get --name", "error: flag needs an argument: --name\nhint: tool get --help\n"},
		{"-o xml get", `error: invalid argument "xml" for "-o, --output" flag: it is one of table|json` +
			"\nhint: tool get --help\n"},
		{"gte", "error: unknown command \"gte\" for tool\nhint: did you mean tool get?\n"},
		{"zzzzzz", "error: unknown command \"zzzzzz\" for tool\nhint: tool --help\n"},
		{"must", "error: required flag(s) \"needed\" not set\nhint: tool must --help\n"},
		{"group", "error: tool group needs a command: leaf\nhint: tool group --help\n"},
		{"group laef", "error: unknown command \"laef\" for tool group\nhint: did you mean tool group leaf?\n"},
		{"group leaf more", "error: unknown command \"more\" for \"tool group leaf\"\nhint: tool group leaf --help\n"},
	} {
		t.Run(c.args, func(t *testing.T) {
			tool := newTool()
			if code := tool.run(strings.Fields(c.args)...); code != 2 {
				t.Errorf("exit code is %d, want 2", code)
			}
			if tool.stderr.String() != c.stderr {
				t.Errorf("stderr is\n%swant\n%s", tool.stderr.String(), c.stderr)
			}
			if tool.stdout.Len() > 0 {
				t.Errorf("stdout is not empty: %s", tool.stdout.String())
			}
		})
	}
}

func TestErrorsOfCommands(t *testing.T) {
	tool := newTool()
	tool.err = fmt.Errorf("read the spec: %w", store.ErrUnreachable)
	if code := tool.run("get"); code != 6 {
		t.Errorf("exit code is %d, want 6", code)
	}
	want := "error: read the spec: store is unreachable\nhint: check --backup-store and the network to the store\n"
	if got := tool.stderr.String(); got != want {
		t.Errorf("stderr is %q, want %q", got, want)
	}
}

func TestErrorsAsJSON(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
	}{
		{"get -o json", 1},
		{"-o=json get", 1},
		{"get --output json", 1},
		{"get --bad -o json", 2},
		{"get --output=json --bad", 2},
		{"-ojson get --bad", 2},
		{"get --bad -output=json", 2},
	} {
		t.Run(c.args, func(t *testing.T) {
			tool := newTool()
			tool.err = WithHint(errors.New("it\nbroke"), "fix it")
			if code := tool.run(strings.Fields(c.args)...); code != c.code {
				t.Errorf("exit code is %d, want %d", code, c.code)
			}
			var f failure
			if err := json.Unmarshal(tool.stderr.Bytes(), &f); err != nil {
				t.Fatalf("stderr is not JSON: %v: %s", err, tool.stderr.String())
			}
			if f.Code != c.code || f.Message == "" || f.Hint == "" || f.Kind != Classify(tool.err).Kind && c.code == 1 {
				t.Errorf("the error is %+v", f)
			}
			if c.code == 1 && f.Message != "it; broke" {
				t.Errorf("the message is %q", f.Message)
			}
		})
	}
}

func TestErrorsAreTextWhereJSONIsSomethingElse(t *testing.T) {
	for _, args := range []string{"get --bad", "get -o table --bad", "get --bad -- -o json", "get --bad -o"} {
		tool := newTool()
		tool.run(strings.Fields(args)...)
		if !strings.HasPrefix(tool.stderr.String(), "error: ") {
			t.Errorf("%s: stderr is %q", args, tool.stderr.String())
		}
	}
}

func TestInterruptionGoesBeforeItsConsequences(t *testing.T) {
	for _, consequence := range []error{context.Canceled, fmt.Errorf("read: %w", store.ErrUnreachable)} {
		tool := newTool()
		tool.err = consequence
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if code := Run(ctx, tool.root, []string{"get"}); code != 130 {
			t.Errorf("%v: exit code is %d, want 130", consequence, code)
		}
		if got := tool.stderr.String(); !strings.HasPrefix(got, "error: interrupted") || strings.Contains(got, "hint") {
			t.Errorf("%v: stderr is %q", consequence, got)
		}
	}
}

func TestCommandThatEndsWellAfterASignalIsDone(t *testing.T) {
	tool := newTool()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if code := Run(ctx, tool.root, []string{"get"}); code != 0 {
		t.Errorf("exit code is %d, want 0", code)
	}
}

func TestErrorTextCannotSteerTheTerminal(t *testing.T) {
	tool := newTool()
	tool.err = errors.New("bad \x1b[2Jname\nnext")
	tool.run("get")
	if got, want := tool.stderr.String(), "error: bad \uFFFD[2Jname; next\n"; got != want {
		t.Errorf("stderr is %q, want %q", got, want)
	}
}

func TestFlagsMayHaveOneDash(t *testing.T) {
	for _, c := range []struct {
		args, name string
		count      int
		verbosity  string
		rest       string
	}{
		{args: "-member-count=3 get", count: 3},
		{args: "-member-count 3 get", count: 3},
		{args: "get -member-count=3", count: 3},
		{args: "get --member-count=3", count: 3},
		{args: "-v=6 -member-count=5 get -name x", count: 5, verbosity: "6", name: "x"},
		{args: "-v 6 get", verbosity: "6"},
		{args: "--v=6 get", verbosity: "6"},
		{args: "--v 6 get", verbosity: "6"},
		{args: "-v6 get", verbosity: "6"},
		{args: "-logtostderr=true -stderrthreshold=2 get -name=x", name: "x"},
		{args: "-logtostderr get", count: 0},
		{args: "get --name -member-count", name: "-member-count"},
		{args: "get -name -name", name: "-name"},
		{args: "get -o json -name a", name: "a"},
		{args: "get -- -member-count=3", rest: "-member-count=3"},
		{args: "get - -name=x", rest: "-", name: "x"},
	} {
		t.Run(c.args, func(t *testing.T) {
			tool := newTool()
			if code := tool.run(strings.Fields(c.args)...); code != 0 {
				t.Fatalf("exit code is %d: %s", code, tool.stderr.String())
			}
			v := tool.root.PersistentFlags().Lookup("v").Value.String()
			if v == "0" {
				v = ""
			}
			if tool.count != c.count || tool.name != c.name || v != c.verbosity || strings.Join(tool.args, " ") != c.rest {
				t.Errorf("count %d, name %q, v %q, rest %q", tool.count, tool.name, v, tool.args)
			}
		})
	}
}

func TestKlogFlagsAreTakenAndHidden(t *testing.T) {
	tool := newTool()
	for _, args := range []string{
		"--logtostderr=true --alsologtostderr --add_dir_header=false --skip_headers --skip_log_headers --one_output " +
			"--legacy_stderr_threshold_behavior=true get",
		"--vmodule=a=1 --alsologtostderrthreshold=2 --stderrthreshold=2 --log_dir=/tmp --log_file=x " +
			"--log_file_max_size=1800 --log_backtrace_at=:0 get",
	} {
		if code := tool.run(strings.Fields(args)...); code != 0 {
			t.Errorf("%s: %s", args, tool.stderr.String())
		}
	}
	if code := tool.run("--help"); code != 0 {
		t.Errorf("help ends with %d", code)
	}
	for _, name := range klogFlags {
		if strings.Contains(tool.stdout.String(), "--"+name+" ") {
			t.Errorf("help shows --%s:\n%s", name, tool.stdout.String())
		}
	}
}

func TestOutputFailure(t *testing.T) {
	tool := newTool()
	out := &Output{format: JSON}
	tool.root.AddCommand(&cobra.Command{Use: "show", RunE: func(*cobra.Command, []string) error {
		return out.Print(broken{}, 1, nil)
	}})
	if code := tool.run("show"); code != 1 || !strings.Contains(tool.stderr.String(), "no space") {
		t.Errorf("exit code %d, stderr %q", code, tool.stderr.String())
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no space") }

var _ io.Writer = broken{}
