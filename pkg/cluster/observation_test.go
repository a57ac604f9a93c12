package cluster

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// fill gives every field below v a value that is not zero, a different one
// each time.
func fill(v reflect.Value, n *int) {
	*n++
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Date(2026, 11, 20, 12, 0, *n, *n, time.UTC)
		return
	case *etcdversion.Version:
		*x = etcdversion.Version{Major: 3, Minor: 6, Patch: *n}
		return
	case *InitialMember:
		*x = InitialMember{Name: NodeName(fmt.Sprintf("n%d", *n)), PeerURLs: []string{
			fmt.Sprintf("https://10.0.0.%d:2380", *n), "https://x:2380",
		}}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" { // the rest is for the observer alone
				fill(v.Field(i), n)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.String:
		v.SetString(fmt.Sprintf("text-%d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n) << 20)
	case reflect.Uint64:
		v.SetUint(uint64(*n) | 1<<63)
	default:
		panic(fmt.Sprintf("no value for a %s", v.Type()))
	}
}

// TestObservationJSON writes an observation in which everything is said, and
// reads it back: a bug report is one file.
func TestObservationJSON(t *testing.T) {
	var obs Observation
	n := 0
	fill(reflect.ValueOf(&obs).Elem(), &n)
	b, err := json.MarshalIndent(obs, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	var back Observation
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	if err := d.Decode(&back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, obs) {
		t.Errorf("came back as\n%+v, it was\n%+v", back, obs)
	}
	if strings.Contains(string(b), `"Name"`) || n < 150 {
		t.Errorf("%d values, and a field without its JSON name in %s", n, b)
	}
}

// TestEmptyObservationJSON keeps what is not known out of the file.
func TestEmptyObservationJSON(t *testing.T) {
	b, err := json.Marshal(Observation{Nodes: []Node{{Name: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"lastSeen", "prepared", "assigned", "setAside", "gaps", "leader", "since"} {
		if strings.Contains(string(b), `"`+word+`"`) {
			t.Errorf("%s has %q", b, word)
		}
	}
	var back Observation
	if err := json.Unmarshal(b, &back); err != nil || back.Nodes[0].Name != "a" {
		t.Errorf("came back as %+v, %v", back, err)
	}
}

func TestReportJSON(t *testing.T) {
	var r Report
	n := 0
	fill(reflect.ValueOf(&r).Elem(), &n)
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(back, r) {
		t.Errorf("%s came back as %+v, %v", b, back, err)
	}
}
