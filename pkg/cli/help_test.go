package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// helpTool is a tool with sections of flags and a folded group.
func helpTool() *tool {
	t := newTool()
	t.root.AddGroup(&cobra.Group{ID: "first", Title: "First:"}, &cobra.Group{ID: "steps", Title: "Steps:"})
	Fold(t.root, "steps", "steps", "the single steps")
	step := Group("step", "many steps")
	step.GroupID = "steps"
	for _, name := range []string{"one", "two"} {
		step.AddCommand(&cobra.Command{
			Use: name, Short: "step " + name, Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return nil },
		})
	}
	takes := &cobra.Command{
		Use: "takes ARGUMENT", Short: "take an argument", GroupID: "first",
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	takes.Flags().Bool("own", false, "of this command")
	takes.Flags().String("often", "", "needed often")
	takes.Flags().String("seldom", "", "needed seldom")
	Sections(takes, FlagSection{
		Title: "What one sets", Common: []string{"often", "not-here"}, More: []string{"seldom"},
	})
	takes.AddCommand(&cobra.Command{
		Use: "part", Short: "a part", RunE: func(*cobra.Command, []string) error { return nil },
	})
	t.root.AddCommand(step, takes)
	return t
}

func TestEveryCommandAnswersForItself(t *testing.T) {
	for _, c := range []struct {
		args     string
		code     int
		has, not []string
	}{
		{"--help", 0, []string{"\nFirst:\n", "takes ", "\nSteps:\n  the single steps: tool help steps\n",
			"help for any command"}, []string{"many steps"}},
		{"help", 0, []string{"\nFirst:\n"}, []string{"many steps"}},
		{"help steps", 0, []string{"The single steps.\n\nSteps:\n  step one  step one\n  step two  step two\n"}, []string{
			"First",
		}},
		{"help step", 0, []string{"Many steps.\n", "tool step [command]"}, nil},
		{"step one --help", 0, []string{"Step one.\n", "tool step one"}, []string{"Step two."}},
		{"help step one", 0, []string{"Step one.\n", "tool step one"}, nil},
		{"takes --help", 0, []string{
			"\nWhat one sets:\n      --often ", "\nFlags:\n", "--own", "1 more flags: tool takes --help-all",
		}, []string{"--seldom"}},
		{"takes --help-all", 0, []string{"--often", "--seldom", "--own"}, []string{"more flags:"}},
		{"takes x --help", 0, []string{"Take an argument."}, nil},
		{"upgrade --help", 2, []string{`error: unknown command "upgrade" for tool` + "\n"}, []string{"Usage"}},
		{"takse --help", 2, []string{"hint: did you mean tool takes?"}, []string{"Usage"}},
		{"step tow --help", 2, []string{"hint: did you mean tool step two?"}, []string{"Usage"}},
		{"help takse", 2, []string{"hint: did you mean tool takes?"}, []string{"Usage"}},
		{"help step tow", 2, []string{"hint: did you mean tool step two?"}, []string{"Usage"}},
	} {
		t.Run(c.args, func(t *testing.T) {
			tool := helpTool()
			if code := tool.run(strings.Fields(c.args)...); code != c.code {
				t.Errorf("exit code is %d, want %d", code, c.code)
			}
			all := tool.stdout.String() + tool.stderr.String()
			for _, want := range c.has {
				if !strings.Contains(all, want) {
					t.Errorf("no %q", want)
				}
			}
			for _, not := range c.not {
				if strings.Contains(all, not) {
					t.Errorf("there is %q", not)
				}
			}
			if t.Failed() {
				t.Log(all)
			}
		})
	}
}

func TestHelpAllIsAnArgumentAfterTwoDashes(t *testing.T) {
	tool := newTool()
	if code := tool.run("get", "--", "--help-all"); code != 0 || len(tool.args) != 1 || tool.args[0] != "--help-all" {
		t.Errorf("code %d, arguments %q", code, tool.args)
	}
}
