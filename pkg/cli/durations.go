package cli

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// marshal is [json.Marshal] with each [time.Duration] as a string, as in "1m30s". The form in
// which values are stored and sent, nanoseconds, stays theirs.
func marshal(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return durations(reflect.ValueOf(v), b, asText)
}

// Unmarshal is [json.Unmarshal] for what a command has printed: a duration is a string there,
// and a number in what is stored.
func Unmarshal(b []byte, v any) error {
	var whole json.RawMessage
	if err := json.Unmarshal(b, &whole); err != nil {
		return err // with the place in b
	}
	b, err := durations(reflect.ValueOf(v), whole, asNumber)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

func asText(raw json.RawMessage) (json.RawMessage, error) {
	var d time.Duration
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, err
	}
	return json.Marshal(d.String())
}

func asNumber(raw json.RawMessage) (json.RawMessage, error) {
	if raw[0] != '"' {
		return raw, nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil, err
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return nil, err
	}
	return json.Marshal(d)
}

var (
	durationType  = reflect.TypeFor[time.Duration]()
	marshalerType = reflect.TypeFor[json.Marshaler]()
	textType      = reflect.TypeFor[encoding.TextMarshaler]()
)

// durations returns raw, the JSON of a value like v, with each duration changed. Types that
// have a form of their own keep it.
func durations(v reflect.Value, raw json.RawMessage,
	change func(json.RawMessage) (json.RawMessage, error)) (json.RawMessage, error) {
	for v.IsValid() && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) {
		if v.Kind() == reflect.Pointer && v.IsNil() {
			v = reflect.Zero(v.Type().Elem())
		} else {
			v = v.Elem()
		}
	}
	raw = bytes.TrimSpace(raw)
	if !v.IsValid() || len(raw) == 0 || string(raw) == "null" {
		return raw, nil
	}
	t := v.Type()
	if t == durationType {
		return change(raw)
	}
	if p := reflect.PointerTo(t); p.Implements(marshalerType) || p.Implements(textType) {
		return raw, nil
	}
	each := func(of reflect.Value, raw json.RawMessage) (json.RawMessage, error) {
		return durations(of, raw, change)
	}
	switch kind := v.Kind(); {
	case kind == reflect.Struct && raw[0] == '{':
		named := map[string]reflect.Value{}
		fields(v, named)
		return object(raw, func(key string) reflect.Value { return named[key] }, each)
	case kind == reflect.Map && raw[0] == '{':
		return object(raw, func(key string) reflect.Value { return valueOf(v, key) }, each)
	case (kind == reflect.Slice || kind == reflect.Array) && raw[0] == '[':
		return array(v, raw, each)
	}
	return raw, nil
}

// fields puts the fields of a struct into named, under their names in JSON. Those of an
// embedded one count where the struct has none of that name.
func fields(v reflect.Value, named map[string]reflect.Value) {
	var embedded []reflect.Value
	for i := range v.NumField() {
		f, of := v.Type().Field(i), v.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			if of.Kind() == reflect.Pointer && of.IsNil() {
				of = reflect.Zero(of.Type().Elem())
			} else if of.Kind() == reflect.Pointer {
				of = of.Elem()
			}
			if of.Kind() == reflect.Struct {
				embedded = append(embedded, of)
				continue
			}
		}
		if !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		if _, ok := named[name]; !ok {
			named[name] = of
		}
	}
	for _, of := range embedded {
		fields(of, named)
	}
}

// valueOf is the value of a key of a map, or one like it.
func valueOf(m reflect.Value, key string) reflect.Value {
	if m.Type().Key().Kind() == reflect.String {
		if v := m.MapIndex(reflect.ValueOf(key).Convert(m.Type().Key())); v.IsValid() {
			return v
		}
	}
	return reflect.Zero(m.Type().Elem())
}

type changed func(of reflect.Value, raw json.RawMessage) (json.RawMessage, error)

// object changes the values of an object, whose keys keep their order.
func object(raw json.RawMessage, of func(key string) reflect.Value, each changed) (json.RawMessage, error) {
	in := json.NewDecoder(bytes.NewReader(raw))
	if _, err := in.Token(); err != nil {
		return nil, err
	}
	out := []byte{'{'}
	for in.More() {
		key, err := in.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := in.Decode(&value); err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok {
			return nil, fmt.Errorf("%v is not a key", key)
		}
		text, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		if value, err = each(of(name), value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, text...), ':'), value...)
	}
	return append(out, '}'), nil
}

// array changes the elements of an array.
func array(v reflect.Value, raw json.RawMessage, each changed) (json.RawMessage, error) {
	var all []json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	out := []byte{'['}
	for i, element := range all {
		of := reflect.Zero(v.Type().Elem())
		if i < v.Len() {
			of = v.Index(i)
		}
		element, err := each(of, element)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, element...)
	}
	return append(out, ']'), nil
}
