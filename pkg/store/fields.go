package store

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// fields are the members of a JSON object as protojson and the older jsonpb
// write it: names in lowerCamelCase or snake_case, 64-bit numbers as strings or
// numbers, null for what is unset. See FORMATS 3.1 and 3.4 of the design.
type fields struct {
	key string
	raw map[string]json.RawMessage
}

func parseFields(key string, b []byte) (fields, error) {
	f := fields{key: key}
	if len(bytes.TrimSpace(b)) == 0 {
		return f, garbage(key, "it is empty")
	}
	if err := json.Unmarshal(b, &f.raw); err != nil {
		return f, garbage(key, "it is not a JSON object: %v", err)
	}
	if f.raw == nil {
		return f, garbage(key, "it is not a JSON object")
	}
	if name := repeated(b); name != "" {
		return f, garbage(key, "the field %s appears more than once", name)
	}
	return f, nil
}

// repeated returns the first field that a JSON object has twice, in either way of
// writing it, "" if there is none: it is unknown which of the two is meant.
func repeated(b []byte) string {
	in := json.NewDecoder(bytes.NewReader(b))
	if _, err := in.Token(); err != nil { // the brace
		return ""
	}
	seen := map[string]bool{}
	for in.More() {
		t, err := in.Token()
		if err != nil {
			return ""
		}
		name, _ := t.(string)
		if seen[snake(name)] {
			return name
		}
		seen[snake(name)] = true
		var value json.RawMessage
		if err := in.Decode(&value); err != nil {
			return ""
		}
	}
	return ""
}

// snake turns memberCount into member_count.
func snake(camel string) string {
	var b strings.Builder
	for _, r := range camel {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// get returns a field, nil if it is not set.
func (f fields) get(name string) json.RawMessage {
	for _, n := range []string{name, snake(name)} {
		if v, ok := f.raw[n]; ok && string(v) != "null" {
			return v
		}
	}
	return nil
}

// text returns a string field, "" if it is not set.
func (f fields) text(name string) (string, error) {
	v := f.get(name)
	if v == nil {
		return "", nil
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return "", garbage(f.key, "the field %s is %.40s, it must be a string", name, v)
	}
	return s, nil
}

// integer returns a number field, 0 if it is not set.
func (f fields) integer(name string) (int64, error) {
	v := f.get(name)
	if v == nil {
		return 0, nil
	}
	text := string(v)
	if text[0] == '"' && json.Unmarshal(v, &text) != nil {
		text = ""
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, garbage(f.key, "the field %s is %.40s, it must be a whole number", name, v)
	}
	return n, nil
}

// count returns a number field that must fit an int32, as the wire type does.
func (f fields) count(name string) (int, error) {
	n, err := f.integer(name)
	if err == nil && (n < math.MinInt32 || n > math.MaxInt32) {
		err = garbage(f.key, "the field %s is %d, which is out of range", name, n)
	}
	return int(n), err
}

// object returns a field that is an object; ok is false if it is not set.
func (f fields) object(name string) (inner fields, ok bool, err error) {
	v := f.get(name)
	if v == nil {
		return fields{}, false, nil
	}
	inner.key = f.key
	if json.Unmarshal(v, &inner.raw) != nil || inner.raw == nil {
		return fields{}, false, garbage(f.key, "the field %s is %.40s, it must be an object", name, v)
	}
	if twice := repeated(v); twice != "" {
		return fields{}, false, garbage(f.key, "the field %s has %s more than once", name, twice)
	}
	return inner, true, nil
}
