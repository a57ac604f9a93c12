package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// OutputVersion is the apiVersion of what commands print for programs. Within a
// version fields are added, and neither renamed nor removed.
const OutputVersion = "etcdadm.dev/v1"

// Versioned returns v, which is an object as JSON, with the fields apiVersion and
// kind before its own.
func Versioned(kind string, v any) any { return versioned{kind, v} }

type versioned struct {
	kind string
	v    any
}

// MarshalJSON writes the two fields, then those of the value.
func (o versioned) MarshalJSON() ([]byte, error) {
	head, err := json.Marshal(struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}{OutputVersion, o.kind})
	if err != nil {
		return nil, err
	}
	rest, err := marshal(o.v)
	switch {
	case err != nil:
		return nil, err
	case len(rest) < 2 || rest[0] != '{':
		return nil, fmt.Errorf("%s is not an object: %.20s", o.kind, rest)
	case bytes.Equal(rest, []byte("{}")):
		return head, nil
	}
	return append(append(head[:len(head)-1], ','), rest[1:]...), nil
}
