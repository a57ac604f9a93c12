package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

func TestPrintInEachFormat(t *testing.T) {
	v := struct {
		MemberCount int    `json:"memberCount"`
		Version     string `json:"version,omitempty"`
	}{3, "3.6.16"}
	text := func(w io.Writer) error {
		_, err := fmt.Fprintln(w, "text")
		return err
	}
	for format, want := range map[Format]string{
		Table: "text\n",
		JSON:  "{\n  \"memberCount\": 3,\n  \"version\": \"3.6.16\"\n}\n",
		YAML:  "memberCount: 3\nversion: 3.6.16\n",
	} {
		var b bytes.Buffer
		out := &Output{format: format}
		if err := out.Print(&b, v, text); err != nil || b.String() != want {
			t.Errorf("%s: %q, %v; want %q", format, b.String(), err, want)
		}
		if out.Text() != (format == Table) {
			t.Errorf("%s: for people: %v", format, out.Text())
		}
	}
}

// TestCommandLinesForProgramsCanBePasted: a program shows them to people. What else is printed stays as it is.
func TestCommandLinesForProgramsCanBePasted(t *testing.T) {
	v := struct {
		Hold, Other, Line string
		Count             int
	}{"run etcd-manager-ctl --backup-store=STORE resume", `"<&>\"`, "--backup-store=STOREHOUSE", 3}
	for flag, want := range map[string]string{
		"":                        "--backup-store=STORE",
		"--backup-store=/x":       "--backup-store=/x",
		`--backup-store='/a "b\'`: `--backup-store='/a "b\'`,
	} {
		for _, format := range []Format{JSON, YAML} {
			o := &Output{format: format, Paste: func(text string) string { return plan.AtStore(text, flag) }}
			var b bytes.Buffer
			if err := o.Print(&b, v, nil); err != nil {
				t.Fatal(err)
			}
			got := v
			if err := yaml.Unmarshal(b.Bytes(), &got); err != nil {
				t.Fatalf("%s: %v in %s", format, err, &b)
			}
			expect := v
			expect.Hold = "run etcd-manager-ctl " + want + " resume"
			if got != expect {
				t.Errorf("%s, %q: %+v, want %+v", format, flag, got, expect)
			}
		}
	}
}

// TestWhatHasNoCommandLineIsNotSearched: long output is printed as it is.
func TestWhatHasNoCommandLineIsNotSearched(t *testing.T) {
	for text, want := range map[string]int{"a line": 0, "run x --backup-store=STORE": 1} {
		asked := 0
		o := &Output{format: JSON, Paste: func(text string) string {
			asked++
			return text
		}}
		if err := o.Print(&bytes.Buffer{}, []string{text}, nil); err != nil || asked != want {
			t.Errorf("%q: asked for %d strings, %v", text, asked, err)
		}
	}
}

func TestEmptyListIsAList(t *testing.T) {
	for _, format := range []Format{JSON, YAML} {
		var b bytes.Buffer
		if err := (&Output{format: format}).Print(&b, []string(nil), nil); err != nil ||
			strings.TrimSpace(b.String()) != "[]" {
			t.Errorf("%s: %q, %v", format, b.String(), err)
		}
	}
}

func TestPrintReportsWhatFails(t *testing.T) {
	broken := errors.New("broken")
	if err := (&Output{format: Table}).Print(io.Discard, 1, func(io.Writer) error { return broken }); !errors.Is(err,
		broken) {
		t.Errorf("text: %v", err)
	}
	if err := (&Output{format: JSON}).Print(io.Discard, func() {}, nil); err == nil {
		t.Error("a function was written as JSON")
	}
}

func TestRowsAreColumns(t *testing.T) {
	var b bytes.Buffer
	if err := Rows(&b, []string{"A", "LONGER"}, []string{"value\twith\x1b[0m\nmore", "", ""}, []string{
		"x", "y",
	}); err != nil {
		t.Fatal(err)
	}
	want := "A                    LONGER\nvalue with\uFFFD[0m more\nx                    y\n"
	if b.String() != want {
		t.Errorf("rows are\n%q, want\n%q", b.String(), want)
	}
}

func TestVersionOfBuilds(t *testing.T) {
	setting := func(kv ...string) (s []debug.BuildSetting) {
		for i := 0; i < len(kv); i += 2 {
			s = append(s, debug.BuildSetting{Key: kv[i], Value: kv[i+1]})
		}
		return s
	}
	for _, c := range []struct {
		want string
		info debug.BuildInfo
	}{
		{"v1.2.3", debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}},
		{"devel", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}},
		{"devel-0123456789ab", debug.BuildInfo{
			Settings: setting("vcs.revision", "0123456789abcdef", "vcs.modified", "false"),
		}},
		{"devel-0123456789ab+changes", debug.BuildInfo{
			Settings: setting("vcs.revision", "0123456789abcdef", "vcs.modified", "true"),
		}},
		{"devel-12", debug.BuildInfo{Settings: setting("vcs.revision", "12")}},
	} {
		if got := versionOf(&c.info); got != c.want {
			t.Errorf("version is %q, want %q", got, c.want)
		}
	}
}

func TestVersionCommand(t *testing.T) {
	defer func(v string) { Version = v }(Version)
	Version = "v9.8.7"
	for args, want := range map[string]string{
		"version":         "tool v9.8.7 (go",
		"version -o json": `"version": "v9.8.7"`,
	} {
		root := &cobra.Command{Use: "tool"}
		var b bytes.Buffer
		root.SetOut(&b)
		root.AddCommand(VersionCommand(AddOutput(root, Table, JSON)))
		if code := Run(t.Context(), root, strings.Fields(args)); code != 0 || !strings.Contains(b.String(), want) {
			t.Errorf("%s: code %d, %q", args, code, b.String())
		}
	}
	var b bytes.Buffer
	root := &cobra.Command{Use: "tool"}
	root.SetOut(&b)
	root.AddCommand(VersionCommand(nil))
	if code := Run(t.Context(), root, []string{"version"}); code != 0 || !strings.HasPrefix(b.String(), "tool v9.8.7") {
		t.Errorf("without formats: code %d, %q", code, b.String())
	}
}

func TestNearestOfManyFlags(t *testing.T) {
	fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
	fs.String("expect-name", "", "")
	fs.String("expect-voters", "", "")
	fs.String("id", "", "")
	for name, want := range map[string]string{
		"expect-nam": "expect-name", "expectvoter": "expect-voters", "di": "id", "somethingelse": "",
	} {
		if got := nearest(name, fs); got != want {
			t.Errorf("nearest to %s is %q, want %q", name, got, want)
		}
	}
}

func FuzzSingleDash(f *testing.F) {
	f.Add("-member-count", "=3", "-v")
	f.Add("--", "-x", "")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
		AddKlogFlags(fs)
		fs.Int("member-count", 0, "")
		in := []string{a, b, c}
		out := SingleDash(in, fs)
		for i := range in {
			if out[i] != in[i] && out[i] != "-"+in[i] {
				t.Errorf("%q became %q", in[i], out[i])
			}
		}
		again := SingleDash(out, fs)
		for i := range out {
			if again[i] != out[i] {
				t.Errorf("a second time %q became %q", out[i], again[i])
			}
		}
	})
}
