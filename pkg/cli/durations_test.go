package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"
)

type timed struct {
	At   time.Time      `json:"at,omitzero"`
	Took time.Duration  `json:"took,omitempty"`
	Wait *time.Duration `json:"wait,omitempty"`
	inner
	Named inner                    `json:"named,omitzero"`
	All   []time.Duration          `json:"all,omitempty"`
	By    map[string]time.Duration `json:"by,omitempty"`
	Any   any                      `json:"any,omitempty"`
	Self  *timed                   `json:"self,omitempty"`
	List  []timed                  `json:"list,omitempty"`
	N     int64                    `json:"n,omitempty"`
	Raw   []byte                   `json:"raw,omitempty"`
	Own   ownForm                  `json:"own,omitzero"`
}

type inner struct {
	Grace time.Duration `json:"grace"`
	Plain time.Duration
}

// ownForm writes itself.
type ownForm struct{ D time.Duration }

func (o ownForm) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]time.Duration{"d": o.D})
}

func (o *ownForm) UnmarshalJSON(b []byte) error {
	var m map[string]time.Duration
	err := json.Unmarshal(b, &m)
	o.D = m["d"]
	return err
}

const timedText = `{"took":"1.5s","wait":"1m30s","grace":"1m0s","Plain":"-2ns","named":{"grace":"0s","Plain":"1h0m0s"},` +
	`"all":["1ms","0s"],"by":{"a<":"2s"},"self":{"took":"3s","grace":"0s","Plain":"0s"},` +
	`"list":[{"grace":"4s","Plain":"0s"}],"n":1500000000,"raw":"MTIz","own":{"d":7}}`

func timedValue() timed {
	wait := 90 * time.Second
	return timed{
		Took: 1500 * time.Millisecond, Wait: &wait, inner: inner{time.Minute, -2}, Named: inner{Plain: time.Hour},
		All: []time.Duration{time.Millisecond, 0}, By: map[string]time.Duration{"a<": 2 * time.Second},
		Self: &timed{Took: 3 * time.Second}, List: []timed{{inner: inner{Grace: 4 * time.Second}}}, N: 1500000000,
		Raw: []byte("123"), Own: ownForm{7},
	}
}

// Durations are strings wherever they are in a value, nothing else changes, and what was
// printed is read again; so is what was stored.
func TestDurationsAreStrings(t *testing.T) {
	v := timedValue()
	got, err := marshal(v)
	if want := strings.ReplaceAll(timedText, "a<", `a\u003c`); err != nil || string(got) != want {
		t.Errorf("%s, %v, want\n%s", got, err, want)
	}
	stored, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{got, stored} {
		var back timed
		if err := Unmarshal(b, &back); err != nil || !reflect.DeepEqual(back, v) {
			t.Errorf("%s is read as %+v, %v", b, back, err)
		}
	}
	v = timed{Any: []any{time.Second, timed{Took: 1}, nil}}
	if got, err := marshal(v); err != nil ||
		string(got) != `{"grace":"0s","Plain":"0s","any":["1s",{"took":"1ns","grace":"0s","Plain":"0s"},null]}` {
		t.Errorf("%s, %v", got, err)
	}
	for _, text := range []string{`{"took":"soon"}`, `{"list":[{"took":"1"}]}`, `{"took":1.5}`, `{"took"`, ``} {
		if err := Unmarshal([]byte(text), &v); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}

// All formats for programs have them, with the version of the form and without.
func TestDurationsArePrintedAsStrings(t *testing.T) {
	type row struct {
		Took time.Duration `json:"took"`
	}
	for _, c := range []struct {
		format Format
		v      any
		want   string
	}{
		{JSON, Versioned("K", row{time.Minute}),
			"{\n  \"apiVersion\": \"etcdadm.dev/v1\",\n  \"kind\": \"K\",\n  \"took\": \"1m0s\"\n}\n"},
		{JSON, []row{{1}}, "[\n  {\n    \"took\": \"1ns\"\n  }\n]\n"},
		{JSON, []row(nil), "[]\n"},
		{YAML, []row{{time.Hour}}, "- took: 1h0m0s\n"},
	} {
		var b bytes.Buffer
		o := &Output{format: c.format}
		if err := o.Print(&b, c.v, func(io.Writer) error { return nil }); err != nil || b.String() != c.want {
			t.Errorf("%q, %v, want %q", b.String(), err, c.want)
		}
	}
}
