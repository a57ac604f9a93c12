package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// A Format is the form in which a command prints what it found.
type Format string

// The formats.
const (
	// Table is for people. Its form may change.
	Table Format = "table"
	// JSON and YAML are for programs. Fields may be added, not changed.
	JSON Format = "json"
	YAML Format = "yaml"
)

// An Output is the flag -o of a command: its value, and which ones it may have.
type Output struct {
	format  Format
	allowed []Format
	// Paste, if it is set, makes the command lines in a text such that can be pasted: in what is
	// for people, and in the strings of what is for programs, which show them to people. It changes
	// nothing but [plan.StoreFlag].
	Paste func(text string) string
}

// AddOutput gives cmd, and the commands below it, the flag -o. The first
// format is the default.
func AddOutput(cmd *cobra.Command, formats ...Format) *Output {
	o := &Output{format: formats[0], allowed: formats}
	cmd.PersistentFlags().VarP(o, "output", "o", "output format: "+o.choice())
	names := strings.Split(o.choice(), "|")
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	return o
}

func (o *Output) choice() string {
	names := make([]string, len(o.allowed))
	for i, f := range o.allowed {
		names[i] = string(f)
	}
	return strings.Join(names, "|")
}

// String, Set and Type make an Output a flag.
func (o *Output) String() string { return string(o.format) }

// Set takes one of the allowed formats.
func (o *Output) Set(s string) error {
	if !slices.Contains(o.allowed, Format(s)) {
		return fmt.Errorf("it is one of %s", o.choice())
	}
	o.format = Format(s)
	return nil
}

// Type names the value in help texts.
func (o *Output) Type() string { return "format" }

// Text says whether the output is for people.
func (o *Output) Text() bool { return o.format == Table }

// Print writes v in the format that was asked for; for people, text writes it. A
// [time.Duration] is a string for programs, as in "1m30s".
// A nil slice is an empty list.
func (o *Output) Print(w io.Writer, v any, text func(w io.Writer) error) error {
	var b []byte
	var err error
	if r := reflect.ValueOf(v); r.Kind() == reflect.Slice && r.IsNil() {
		v = []any{}
	}
	switch o.format {
	case JSON:
		b, err = o.indented(v)
	case YAML:
		if b, err = o.marshal(v); err == nil {
			b, err = yaml.JSONToYAML(b)
		}
	default:
		all := &whole{w: w, paste: o.Paste}
		if err = text(all); err == nil {
			err = all.err
		}
	}
	if err == nil && len(b) > 0 {
		_, err = w.Write(b)
	}
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// stringLiteral finds the strings of JSON.
var stringLiteral = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// marshal writes v as JSON, with command lines that can be pasted.
func (o *Output) marshal(v any) ([]byte, error) {
	b, err := marshal(v)
	if err != nil || o.Paste == nil || !bytes.Contains(b, []byte(plan.StoreFlag)) {
		return b, err
	}
	return stringLiteral.ReplaceAllFunc(b, func(literal []byte) []byte {
		var text string
		if json.Unmarshal(literal, &text) != nil {
			return literal
		}
		said := o.Paste(text)
		if said == text {
			return literal
		}
		changed, err := json.Marshal(said)
		if err != nil {
			return literal
		}
		return changed
	}), nil
}

func (o *Output) indented(v any) ([]byte, error) {
	b, err := o.marshal(v)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// whole writes what can be pasted, and remembers that something could not be written.
type whole struct {
	w     io.Writer
	paste func(text string) string
	err   error
}

func (a *whole) Write(b []byte) (int, error) {
	said := b
	if a.paste != nil {
		said = []byte(a.paste(string(b)))
	}
	_, err := a.w.Write(said)
	if a.err == nil {
		a.err = err
	}
	return len(b), err
}

// Rows writes lines of cells below each other, in columns. Control characters
// in cells are shown, not sent to the terminal.
func Rows(w io.Writer, rows ...[]string) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = Plain(c)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	// A strings.Builder takes everything.
	_ = t.Flush()
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// Plain returns s with control characters replaced: what comes out of a store
// or a log must not steer somebody's terminal, or break out of its line.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || r >= 0x7f && r < 0xa0:
			return '\uFFFD'
		}
		return r
	}, s)
}

// Choice returns the value of a flag that is one of some words, def at first.
func Choice(words []string, def string) pflag.Value { return &choice{words, def} }

type choice struct {
	words []string
	value string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return "string" }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.words, s) {
		return fmt.Errorf("%q is not one of %s", s, strings.Join(c.words, ", "))
	}
	c.value = s
	return nil
}
