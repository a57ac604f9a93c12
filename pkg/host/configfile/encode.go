package configfile

import (
	"bytes"
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// Marshal writes c as a file: the fields in the order of their documentation,
// without those that are not set.
func Marshal(c machine.Config) ([]byte, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	add(root, "apiVersion", text(APIVersion))
	add(root, "kind", text(Kind))
	if err := section(root, reflect.ValueOf(c)); err != nil {
		return nil, fmt.Errorf("write the configuration: %w", err)
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(root); err != nil {
		return nil, fmt.Errorf("write the configuration: %w", err)
	}
	return b.Bytes(), nil
}

func add(to *yaml.Node, key string, value *yaml.Node) {
	to.Content = append(to.Content, text(key), value)
}

// text is a string, in quotes where it would be read as something else.
func text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

func section(to *yaml.Node, v reflect.Value) error {
	for i, name := range fields(v.Type()) {
		f := v.Field(i)
		if f.IsZero() {
			continue
		}
		n, err := node(f)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		add(to, name, n)
	}
	return nil
}

func node(v reflect.Value) (*yaml.Node, error) {
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		b, err := m.MarshalText()
		return text(string(b)), err
	}
	switch v.Kind() {
	case reflect.Struct:
		n := &yaml.Node{Kind: yaml.MappingNode}
		return n, section(n, v)
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.Len() {
			one, err := node(v.Index(i))
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, one)
		}
		return n, nil
	case reflect.Map:
		n := &yaml.Node{Kind: yaml.MappingNode}
		m := v.Interface().(map[string]string)
		for _, k := range slices.Sorted(maps.Keys(m)) {
			add(n, k, text(m[k]))
		}
		return n, nil
	case reflect.String:
		return text(v.String()), nil
	case reflect.Int, reflect.Int64:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.FormatInt(v.Int(), 10)}, nil
	case reflect.Bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v.Bool())}, nil
	}
	panic(fmt.Sprintf("configfile: there is no form for a %s", v.Type()))
}
