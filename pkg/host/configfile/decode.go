package configfile

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/bytesize"
	"github.com/etcdadm/etcdadm/pkg/internal/spelling"
)

// decode reads the fields and notes where each is.
func decode(name string, b []byte) (*File, error) {
	d := &decoder{file: &File{Name: name, positions: map[string]position{}}}
	root := d.document(b)
	if root != nil {
		d.section(root, "", reflect.ValueOf(&d.file.Config).Elem())
	}
	if len(d.found) > 0 {
		return nil, byLine(d.found)
	}
	return d.file, nil
}

type decoder struct {
	file  *File
	found Errors
}

func (d *decoder) wrong(n *yaml.Node, path, format string, args ...any) {
	d.found = append(d.found, &Error{
		File: d.file.Name, Line: max(1, n.Line), Column: n.Column, Path: path, Text: fmt.Sprintf(format, args...),
	})
}

// syntaxLine is where the library's errors say what line they are about.
var syntaxLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?(.*)$`)

func (d *decoder) syntax(err error) {
	text, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "yaml: unmarshal errors:\n  "), "\n")
	m := syntaxLine.FindStringSubmatch(text)
	line, _ := strconv.Atoi(m[1]) // 0 without one
	d.found = append(d.found, &Error{File: d.file.Name, Line: max(1, line), Text: "it is not YAML: " + m[2]})
}

// document returns the top level of the only document, nil if there is
// something wrong.
func (d *decoder) document(b []byte) *yaml.Node {
	var doc, second yaml.Node
	docs := yaml.NewDecoder(bytes.NewReader(b))
	switch err := docs.Decode(&doc); {
	case errors.Is(err, io.EOF):
		d.wrong(&doc, "", "it is empty; it must begin with apiVersion: %s and kind: %s", APIVersion, Kind)
		return nil
	case err != nil:
		d.syntax(err)
		return nil
	}
	switch err := docs.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		d.syntax(err)
		return nil
	default:
		d.wrong(&second, "", "there is a second document, but only one is allowed")
		return nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		d.wrong(root, "", "it is %s instead of fields with values", describe(root))
		return nil
	}
	return d.envelope(root)
}

// envelope checks apiVersion and kind, and returns the fields without them.
// Nothing else is checked where these are wrong: it would be judged by the
// wrong rules.
func (d *decoder) envelope(root *yaml.Node) *yaml.Node {
	rest := *root
	rest.Content = nil
	want := map[string]string{"apiVersion": APIVersion, "kind": Kind}
	got := map[string]bool{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		expect, ok := want[key.Value]
		switch {
		case !ok:
			rest.Content = append(rest.Content, key, value)
			continue
		case got[key.Value]:
			d.wrong(key, key.Value, "is there twice")
		case value.Kind != yaml.ScalarNode || value.Value != expect:
			d.wrong(value, key.Value, "is %s, but this etcdadm reads %s", describe(value), expect)
		}
		got[key.Value] = true
	}
	for _, key := range []string{"apiVersion", "kind"} {
		if !got[key] {
			d.wrong(root, key, "is missing; write %s: %s", key, want[key])
		}
	}
	if len(d.found) > 0 {
		return nil
	}
	return &rest
}

// isSection says whether a type is a group of fields, not a value.
func isSection(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// fields returns the names of the fields of a section, in their order.
func fields(t reflect.Type) []string {
	names := make([]string, t.NumField())
	for i := range names {
		names[i], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
	}
	return names
}

func below(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// pairs calls each for the pairs of a mapping whose key is text and comes for
// the first time.
func (d *decoder) pairs(n *yaml.Node, path string, each func(path, key string, keyNode, value *yaml.Node)) {
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			d.wrong(key, path, "has %s as the name of a field", describe(key))
			continue
		}
		at := below(path, key.Value)
		if line, twice := first[key.Value]; twice {
			d.wrong(key, at, "is there twice, first in line %d", line)
			continue
		}
		first[key.Value] = key.Line
		if value.Kind == yaml.AliasNode || value.Anchor != "" {
			d.wrong(value, at, "is or has a YAML anchor, which is not supported")
			continue
		}
		each(at, key.Value, key, value)
	}
}

func (d *decoder) section(n *yaml.Node, path string, into reflect.Value) {
	names := fields(into.Type())
	d.pairs(n, path, func(at, key string, keyNode, value *yaml.Node) {
		i := slices.Index(names, key)
		if i < 0 {
			text := "unknown field"
			if near := spelling.Nearest(key, names); near != "" {
				text += ", did you mean " + near + "?"
			}
			d.wrong(keyNode, at, "%s", text)
			return
		}
		d.value(value, at, into.Field(i))
	})
}

// value reads one field. Nothing (null) leaves it unset, as a section whose
// fields are all commented out.
func (d *decoder) value(n *yaml.Node, path string, into reflect.Value) {
	d.file.positions[path] = position{n.Line, n.Column}
	scalar := n.Kind == yaml.ScalarNode
	if scalar && n.ShortTag() == "!!null" {
		return
	}
	want := ""
	switch p := into.Addr().Interface().(type) {
	case *machine.Duration:
		want = "a duration, as 1m30s"
		if scalar && n.ShortTag() == "!!str" && p.UnmarshalText([]byte(n.Value)) == nil {
			return
		}
	case *etcdversion.Version:
		want = `text (put it in quotes), such as "3.6.16"`
		if scalar && n.ShortTag() == "!!str" {
			if err := p.UnmarshalText([]byte(n.Value)); err != nil {
				d.wrong(n, path, "%v", err)
			}
			return
		}
	case *int64:
		size, err := bytesize.Parse(n.Value)
		if want = "a size, as 8589934592 or 8Gi"; scalar && err == nil {
			*p = size
			return
		}
	default:
		want = d.plain(n, path, into)
	}
	if want != "" {
		d.wrong(n, path, "is %s instead of %s", describe(n), want)
	}
}

// plain reads what has no form of its own, and returns what was wanted if it is
// not there.
func (d *decoder) plain(n *yaml.Node, path string, into reflect.Value) string {
	tag := func(t string) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == t }
	switch into.Kind() {
	case reflect.Struct:
		if n.Kind != yaml.MappingNode {
			return "fields with values"
		}
		d.section(n, path, into)
	case reflect.String:
		if !tag("!!str") {
			return "text (put it in quotes)"
		}
		into.SetString(n.Value)
	case reflect.Bool:
		b, err := strconv.ParseBool(n.Value)
		if !tag("!!bool") || err != nil {
			return "true or false"
		}
		into.SetBool(b)
	case reflect.Int:
		i, err := strconv.Atoi(n.Value)
		if !tag("!!int") || err != nil {
			return "a whole number"
		}
		into.SetInt(int64(i))
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			return "a list"
		}
		into.Set(reflect.MakeSlice(into.Type(), len(n.Content), len(n.Content)))
		for i, one := range n.Content {
			d.value(one, fmt.Sprintf("%s[%d]", path, i), into.Index(i))
		}
	case reflect.Map:
		if n.Kind != yaml.MappingNode {
			return "names with values"
		}
		d.texts(n, path, into.Addr().Interface().(*map[string]string))
	default:
		panic(fmt.Sprintf("configfile: %s is a %s", path, into.Type()))
	}
	return ""
}

// texts reads names with values. Values may be numbers and truths without
// quotes, and are taken as they are written.
func (d *decoder) texts(n *yaml.Node, path string, into *map[string]string) {
	*into = map[string]string{}
	d.pairs(n, path, func(at, key string, _, value *yaml.Node) {
		d.file.positions[at] = position{value.Line, value.Column}
		if value.Kind != yaml.ScalarNode || value.ShortTag() == "!!null" || value.ShortTag() == "!!binary" {
			d.wrong(value, at, "is %s instead of text", describe(value))
			return
		}
		(*into)[key] = value.Value
	})
}

// describe says what a node is.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!int", "!!float":
		return "the number " + n.Value
	case "!!bool":
		return "the truth value " + n.Value
	case "!!str":
		return strconv.Quote(shorten(n.Value))
	}
	return fmt.Sprintf("%q of the type %s", shorten(n.Value), n.ShortTag())
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "..."
	}
	return s
}
