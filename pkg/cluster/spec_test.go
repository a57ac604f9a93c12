package cluster

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

func TestSpecValidate(t *testing.T) {
	v := etcdversion.Must("3.6.16")
	for count := 1; count <= MaxMembers; count++ {
		if err := (Spec{MemberCount: count, EtcdVersion: v}).Validate(); err != nil {
			t.Errorf("%d members: %v", count, err)
		}
	}
	tests := []struct {
		spec Spec
		want string
	}{
		{Spec{}, "member count is 0"},
		{Spec{MemberCount: -1, EtcdVersion: v}, "member count is -1"},
		{Spec{MemberCount: 8, EtcdVersion: v}, "waits for a majority"},
		{Spec{MemberCount: 3}, "version is missing"},
	}
	for _, tt := range tests {
		if err := tt.spec.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.spec, err, tt.want)
		}
	}
}

// TestDefaultsFillEveryField catches a field that is added and forgotten in
// WithDefaults.
func TestDefaultsFillEveryField(t *testing.T) {
	got := Policy{}.WithDefaults()
	if !reflect.DeepEqual(got, DefaultPolicy()) {
		t.Errorf("the zero policy becomes %+v", got)
	}
	v := reflect.ValueOf(DefaultPolicy())
	for i := range v.NumField() {
		f := v.Type().Field(i)
		optional := slices.Contains([]string{
			"StaticNodes", "Unbacked", "MaxBackups", "MaxBackupBytes", "VerifyInterval", "DrillInterval",
			"FixedSpec", "OnRequest",
		}, f.Name)
		if v.Field(i).IsZero() != optional {
			t.Errorf("the default of %s is %v", f.Name, v.Field(i))
		}
	}
}

func TestDefaultsKeepWhatIsSet(t *testing.T) {
	var p Policy
	v := reflect.ValueOf(&p).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Interface().(type) {
		case time.Duration:
			f.SetInt(int64(time.Duration(i+1) * time.Second))
		case int:
			f.SetInt(int64(i + 1))
		}
	}
	if got := p.WithDefaults(); !reflect.DeepEqual(got, p) {
		t.Errorf("%+v became %+v", p, got)
	}
}

func TestQuorum(t *testing.T) {
	for n, want := range []int{1, 1, 2, 2, 3, 3, 4, 4} {
		if got := Quorum(n); got != want {
			t.Errorf("Quorum(%d) = %d, want %d", n, got, want)
		}
	}
}

func TestSpecJSON(t *testing.T) {
	spec := Spec{MemberCount: 3, EtcdVersion: etcdversion.Must("3.6.16"), Policy: DefaultPolicy()}
	spec.Policy.StaticNodes = []NodeName{"a", "b"}
	b, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	var back Spec
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(back, spec) {
		t.Errorf("%s came back as %+v, %v", b, back, err)
	}
}
