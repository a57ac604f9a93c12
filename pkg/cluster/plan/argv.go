package plan

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/internal/shell"
)

// A Flag is one flag of an operation's command line.
type Flag struct {
	Name string
	Doc  string
	// Type is what a value of it is, as the help of flags has it: int, or string.
	Type string
	// Repeated says that the flag may be given several times.
	Repeated bool
	index    int
}

// Flags returns the flags of the kind, in the order in which [Argv] writes
// them.
func (k Kind) Flags() []Flag {
	t := reflect.TypeOf(k.New()).Elem()
	flags := make([]Flag, t.NumField())
	for i := range flags {
		f := t.Field(i)
		flags[i] = Flag{
			Name: f.Tag.Get("flag"), Doc: f.Tag.Get("doc"), Type: typeOf(f.Type),
			Repeated: f.Type.Kind() == reflect.Slice, index: i,
		}
	}
	return flags
}

// typeOf is the type of a flag whose field is of type t. What is written in a form of its own,
// as the hexadecimal ID of a member, is a string.
func typeOf(t reflect.Type) string {
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	v := reflect.New(t)
	if _, own := v.Interface().(encoding.TextUnmarshaler); !own && (v.Elem().CanInt() || v.Elem().CanUint()) {
		return "int"
	}
	return "string"
}

// Argv returns op's argument vector, without the leading "etcdadm". Flags
// that have their zero value are left out.
func Argv(op Operation) []string {
	k := kindOf(op)
	argv := strings.Fields(k.Path)
	v := reflect.ValueOf(op).Elem()
	for _, f := range k.Flags() {
		field := v.Field(f.index)
		if f.Repeated {
			for i := range field.Len() {
				argv = append(argv, "--"+f.Name+"="+text(field.Index(i)))
			}
			continue
		}
		if !field.IsZero() {
			argv = append(argv, "--"+f.Name+"="+text(field))
		}
	}
	return argv
}

// Line returns op as a command line that a POSIX shell reads back to the same
// arguments.
func Line(op Operation) string {
	return shell.Line(append([]string{"etcdadm"}, Argv(op)...))
}

// Parse reads an argument vector that [Argv] wrote. Anything that is not one
// of the operations, has an unknown flag or a value that does not parse is an
// error: nothing else can be asked of an executor.
func Parse(argv []string) (Operation, error) {
	if len(argv) < 2 {
		return nil, fmt.Errorf("%q is not an operation", strings.Join(argv, " "))
	}
	path := argv[0] + " " + argv[1]
	for _, k := range Kinds() {
		if k.Path == path {
			return k.parse(argv[2:])
		}
	}
	return nil, fmt.Errorf("%q is not an operation", path)
}

// maxArgs bounds the arguments of an operation, of which repeated flags make many:
// more than the planner writes and nodes take: a thousand names of hosts.
const maxArgs = 2048

func (k Kind) parse(args []string) (Operation, error) {
	if len(args) > maxArgs {
		return nil, fmt.Errorf("%s: %d arguments, at most %d are allowed", k.Path, len(args), maxArgs)
	}
	op := k.New()
	seen := map[string]bool{}
	for _, a := range args {
		name, value, ok := strings.Cut(strings.TrimPrefix(a, "--"), "=")
		if !ok || !strings.HasPrefix(a, "--") {
			return nil, fmt.Errorf("%s: argument %q is not of the form --flag=value", k.Path, a)
		}
		f, ok := k.flag(name)
		if !ok {
			return nil, fmt.Errorf("%s: unknown flag --%s", k.Path, name)
		}
		if seen[name] && !f.Repeated {
			return nil, fmt.Errorf("%s: flag --%s is given twice", k.Path, name)
		}
		seen[name] = true
		if err := Set(op, name, value); err != nil {
			return nil, err
		}
	}
	return op, Validate(op)
}

func (k Kind) flag(name string) (Flag, bool) {
	for _, f := range k.Flags() {
		if f.Name == name {
			return f, true
		}
	}
	return Flag{}, false
}

// Set gives the flag of op its value; a repeated flag gets one more.
func Set(op Operation, flag, value string) error {
	k := kindOf(op)
	f, ok := k.flag(flag)
	if !ok {
		return fmt.Errorf("%s: unknown flag --%s", k.Path, flag)
	}
	field := reflect.ValueOf(op).Elem().Field(f.index)
	target := field
	if f.Repeated {
		target = reflect.New(field.Type().Elem()).Elem()
	}
	if err := setText(target, value); err != nil {
		return fmt.Errorf("%s: --%s: %w", k.Path, flag, err)
	}
	if f.Repeated {
		field.Set(reflect.Append(field, target))
	}
	return nil
}

// text writes one flag value. The field types of the operations are strings,
// integers and types with MarshalText, nothing else.
func text(v reflect.Value) string {
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		b, err := m.MarshalText()
		if err != nil {
			panic(fmt.Sprintf("plan: %T cannot be written: %v", m, err))
		}
		return string(b)
	}
	if v.CanInt() {
		return strconv.FormatInt(v.Int(), 10)
	}
	if v.CanUint() {
		return strconv.FormatUint(v.Uint(), 10)
	}
	return v.String()
}

func setText(v reflect.Value, s string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(s))
	}
	if v.CanInt() {
		n, err := strconv.ParseInt(s, 10, v.Type().Bits())
		if err != nil {
			return fmt.Errorf("%q is not a whole number", s)
		}
		v.SetInt(n)
		return nil
	}
	if v.CanUint() {
		n, err := strconv.ParseUint(s, 10, v.Type().Bits())
		if err != nil {
			return fmt.Errorf("%q is not a whole number", s)
		}
		v.SetUint(n)
		return nil
	}
	v.SetString(s)
	return nil
}

// InBackground reports whether op may take as long as a database is large, and changes
// nothing of the cluster: it runs beside the other operations, one of its sort at
// a time.
func InBackground(op Operation) bool {
	switch op.(type) {
	case *BackupTake, *BackupVerify, *BackupDrill:
		return true
	}
	return false
}

// Target returns the node whose daemon must carry op out; ok is false for an
// operation that any holder of the term can do, through etcd or the store.
func Target(op Operation) (node cluster.NodeName, ok bool) {
	if _, ok := op.(*AddLearner); ok {
		return "", false
	}
	f := reflect.ValueOf(op).Elem().FieldByName("Node")
	if !f.IsValid() {
		return "", false
	}
	return cluster.NodeName(f.String()), true
}
