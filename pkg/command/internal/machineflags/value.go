package machineflags

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/bytesize"
)

// A value is a flag of one command and the texts that it was given.
type value struct {
	entry *entry
	texts []string
	// shown is what the field has now: what help calls the default.
	shown machine.Config
}

func newValue(e *entry) *value { return &value{entry: e, shown: machine.Defaults()} }

// Set keeps a text that the field can have.
func (v *value) Set(text string) error {
	texts := append(slices.Clip(v.texts), text)
	if err := v.entry.set(&v.shown, texts); err != nil {
		return err
	}
	v.texts = texts
	return nil
}

// String writes the field's value as it would be given.
func (v *value) String() string {
	if v.entry == nil {
		return "" // pflag asks the zero value
	}
	switch p := v.entry.field(&v.shown).(type) {
	case *[]string:
		return joined(*p)
	case *map[string]string:
		return strings.Join(words(*p), ",")
	case *int64:
		if *p == 0 {
			return ""
		}
		return strconv.FormatInt(*p, 10)
	case *int:
		return strconv.Itoa(*p)
	case *bool:
		return strconv.FormatBool(*p)
	case *machine.Duration:
		return p.String()
	case *etcdversion.Version:
		return p.String()
	default:
		return fmt.Sprint(deref(p))
	}
}

func words(m map[string]string) []string {
	var out []string
	for k, v := range m {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

func deref(p any) any {
	switch p := p.(type) {
	case *string:
		return *p
	case *cluster.NodeName:
		return *p
	case *machine.InitSystem:
		return *p
	case *machine.KeyAlgorithm:
		return *p
	}
	panic(fmt.Sprintf("machineflags: no flag sets a %T", p))
}

// Type names the value in help texts.
func (v *value) Type() string {
	if v.entry == nil {
		return ""
	}
	switch v.entry.field(&v.shown).(type) {
	case *[]string:
		return "strings"
	case *bool:
		return "bool"
	case *int:
		return "int"
	case *machine.Duration:
		return "duration"
	}
	return "string"
}

func (v *value) boolean() bool { return v.Type() == "bool" }

// set gives the field of c the texts of one source. The last one counts, but
// lists are put together, and replace what c has; pairs go beside and before
// those of c. An empty text is the default.
func (e *entry) set(c *machine.Config, texts []string) error {
	if list, ok := e.field(c).(*[]string); ok {
		*list = []string{}
	}
	for _, text := range texts {
		if err := e.assign(c, strings.TrimSpace(text)); err != nil {
			return err
		}
	}
	return nil
}

func (e *entry) assign(c *machine.Config, text string) (err error) {
	switch p := e.field(c).(type) {
	case *[]string:
		var more []string
		more, err = split(text)
		*p = append(*p, more...)
		return err
	case *map[string]string:
		return addPairs(p, text)
	}
	if text == "" {
		text = (&value{entry: e, shown: machine.Defaults()}).String()
	}
	switch p := e.field(c).(type) {
	case *string:
		*p = text
	case *cluster.NodeName:
		*p = cluster.NodeName(text)
	case *machine.InitSystem:
		*p = machine.InitSystem(text)
	case *machine.KeyAlgorithm:
		*p = machine.KeyAlgorithm(text)
	case *int:
		if *p, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		if *p == 0 && strings.HasSuffix(e.name, "-port") { // which a field has that nobody has set
			return fmt.Errorf("%q is not a port", text)
		}
	case *int64:
		if text == "" {
			*p = 0
			return nil
		}
		*p, err = bytesize.Parse(text)
		return err
	case *bool:
		if *p, err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
	case *machine.Duration:
		if err = p.UnmarshalText([]byte(text)); err != nil {
			return fmt.Errorf("%q is not a duration such as 1m30s", text)
		}
		if *p == 0 && e.name != "download-connect-timeout" { // of which curl took none for its own
			return fmt.Errorf("%q is not a positive duration such as 1s", text)
		}
	case *etcdversion.Version:
		return p.UnmarshalText([]byte(text))
	default:
		panic(fmt.Sprintf("machineflags: --%s sets a %T", e.name, p))
	}
	return nil
}

// split reads a list with commas, in which a word with a comma has quotes
// around it.
func split(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	row, err := csv.NewReader(strings.NewReader(text)).Read()
	if err != nil {
		return nil, fmt.Errorf("%q is not a comma-separated list", text)
	}
	var out []string
	for _, word := range row {
		if word = strings.TrimSpace(word); word != "" {
			out = append(out, word)
		}
	}
	return out, nil
}

// joined writes a list as split reads it.
func joined(list []string) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	// A strings.Builder takes everything.
	_ = w.Write(list)
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

// addPairs adds KEY=VALUE to a map, or several on lines of their own: a value
// may have commas, but no line end.
func addPairs(m *map[string]string, text string) error {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		k, v, ok := strings.Cut(line, "=")
		if k = strings.TrimLeft(strings.TrimSpace(k), "-"); !ok || k == "" {
			return fmt.Errorf("%q is not of the form KEY=VALUE", line)
		}
		if *m == nil {
			*m = map[string]string{}
		}
		(*m)[k] = strings.TrimSpace(v)
	}
	return nil
}
