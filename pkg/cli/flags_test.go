package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// flagTree is a root with flags that only one of its commands uses, and that have another name.
func flagTree() (root *cobra.Command, out *bytes.Buffer, count *int) {
	out, count = &bytes.Buffer{}, new(int)
	nothing := func(*cobra.Command, []string) error { return nil }
	root = &cobra.Command{Use: "tool", Args: cobra.NoArgs, PersistentPreRunE: Unused, RunE: nothing}
	root.SetOut(out)
	root.PersistentFlags().IntVar(count, "count", 0, "`number` of members")
	OnlyFor(root.PersistentFlags(), "count", "grow")
	for _, name := range []string{"grow", "show"} {
		cmd := &cobra.Command{Use: name, Short: name, RunE: nothing}
		cmd.Flags().IntVar(count, "step", 0, "`number` of members at a time")
		Alias(cmd.Flags(), "step", "pace")
		root.AddCommand(cmd)
	}
	return root, out, count
}

func TestAFlagIsShownWhereItIsUsed(t *testing.T) {
	for line, shown := range map[string]bool{"--help": false, "show --help": false, "grow --help": true} {
		root, out, _ := flagTree()
		if code := Run(t.Context(), root, strings.Fields(line)); code != 0 {
			t.Fatalf("%s: %d, %s", line, code, out)
		}
		if got := strings.Contains(out.String(), "--count number   number of members"); got != shown {
			t.Errorf("%s: shown %t\n%s", line, got, out)
		}
	}
}

func TestAFlagIsTakenWhereverItStands(t *testing.T) {
	for line, want := range map[string]string{
		"--count=3 grow": "", "grow --count=3": "", "grow --step=3": "", "grow --pace=3": "", "show --pace 3": "",
		"grow -step=3": "", "grow -pace=3": "", "show -pace 3": "", "grow -pace=x": "--step",
		"--count=3 show": "--count is for grow; tool show does not use it",
		"show --count=3": "--count is for grow; tool show does not use it",
		"--count=3":      "--count is for grow; tool does not use it",
		"grow --pace=x":  "--step",
	} {
		root, _, count := flagTree()
		var stderr bytes.Buffer
		root.SetErr(&stderr)
		code := Run(t.Context(), root, strings.Fields(line))
		if want == "" && (code != 0 || *count != 3) || want != "" && (code != 2 || !strings.Contains(stderr.String(), want)) {
			t.Errorf("%s: %d, count %d, %s", line, code, *count, &stderr)
		}
	}
}

func TestHelpNamesAnAlias(t *testing.T) {
	root, out, _ := flagTree()
	if code := Run(t.Context(), root, []string{"show", "--help"}); code != 0 ||
		!strings.Contains(out.String(), "--step number   number of members at a time; also --pace\n") ||
		strings.Contains(out.String(), "--pace number") {
		t.Errorf("%d\n%s", code, out)
	}
}

func TestWrap(t *testing.T) {
	long := strings.Repeat("word ", 30)
	for text, want := range map[string]string{
		"":                       "",
		"a\n\n  b\n":             "a\n\n  b\n",
		strings.TrimSpace(long):  strings.TrimSpace(long[:100]) + "\n" + strings.TrimSpace(long[100:]),
		strings.Repeat("x", 130): strings.Repeat("x", 130),
	} {
		if got := Wrap(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
