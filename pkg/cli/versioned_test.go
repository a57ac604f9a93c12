package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestVersionedPutsItsFieldsFirst(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{struct {
			A int `json:"a"`
		}{1}, `{"apiVersion":"etcdadm.dev/v1","kind":"K","a":1}`},
		{struct{}{}, `{"apiVersion":"etcdadm.dev/v1","kind":"K"}`},
		{map[string]string{"x": "y"}, `{"apiVersion":"etcdadm.dev/v1","kind":"K","x":"y"}`},
	} {
		if got, err := json.Marshal(Versioned("K", c.v)); err != nil || string(got) != c.want {
			t.Errorf("%s, %v, want %s", got, err, c.want)
		}
	}
	for _, v := range []any{[]int{1}, 7, nil} {
		if got, err := json.Marshal(Versioned("K", v)); err == nil || !strings.Contains(err.Error(), "not an object") {
			t.Errorf("%v: %s, %v", v, got, err)
		}
	}
}
