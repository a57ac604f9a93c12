package etcdbuild

import (
	"strings"
	"testing"
)

// The licenses of what is linked into etcd are found, in modules and in what an early version vendors.
func TestNoticesOfEtcd(t *testing.T) {
	b := &Builder{Modules: "../etcd", Progress: t.Output(), Arch: "amd64"}
	for version, want := range map[string][]string{
		"2.3.8":  {"\ngithub.com/coreos/etcd v2.3.8+incompatible\n", "\nGo and its standard library\n"},
		"3.3.27": {"\ngo.etcd.io/bbolt v1.3.10\n"},
		"3.6.16": {
			"\ngo.etcd.io/etcd/server/v3 v3.6.16\n", "\ngo.etcd.io/etcd/etcdutl/v3 v3.6.16\n", "\ngo.etcd.io/raft/v3 v",
		},
	} {
		text, err := b.Notices(t.Context(), version)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, name := range want {
			if !strings.Contains(string(text), name) {
				t.Errorf("the notices of %s lack %q", version, name)
			}
		}
	}
}
