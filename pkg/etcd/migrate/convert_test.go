package migrate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/keyspace"
)

const saved = `{"Root":{"Children":{
 "0":{"Children":{"members":{"Children":{}}}},
 "1":{"Children":{
  "a":{"CreatedIndex":3,"ModifiedIndex":9,"Value":"A"},
  "_h":{"CreatedIndex":4,"ModifiedIndex":4,"Value":""},
  "late":{"CreatedIndex":5,"ModifiedIndex":5,"Value":"x","ExpireTime":"2020-01-01T00:00:00Z"},
  "dir":{"ExpireTime":"2030-01-01T00:00:10Z","Children":{
    "soon":{"CreatedIndex":6,"ModifiedIndex":6,"Value":"s","ExpireTime":"2030-01-01T00:00:05Z"},
    "with":{"CreatedIndex":7,"ModifiedIndex":7,"Value":"w"},
    "none":{"Children":{}}}}}},
 "2":{"Children":{"users":{"Children":{"root":{"Value":"{}"}}}}}}},"CurrentIndex":12}`

func puts(c *conversion) string {
	var text []string
	for _, p := range c.puts {
		text = append(text, fmt.Sprintf("%s=%s@%d.%d/%d/%d ttl %d", p.key, p.value, p.main, p.sub, p.create, p.version,
			c.leases[p.lease]))
	}
	return strings.Join(text, "\n")
}

func TestPlan(t *testing.T) {
	s, err := parseStore([]byte(saved))
	if err != nil || s.directories != 2 || s.users != 1 || s.index != 12 {
		t.Fatalf("store is %+v, %v", s, err)
	}
	now := time.Date(2030, 1, 1, 0, 0, 0, 1, time.UTC)
	both := oldSpace{newest: 20, keys: []keyspace.Key{{Key: "/a", CreateRevision: 2, ModRevision: 8, Version: 4}},
		leases: []keyspace.Lease{{ID: now.Unix() + 5}}}
	for _, c := range []struct {
		old            oldSpace
		keep, want     string
		revision       int64
		wrong          string
		dropped, taken int
	}{
		{
			oldSpace{newest: 1, empty: true}, KeepNone, "/_h=@4.0/4/1 ttl 0\n/dir/soon=s@6.0/6/1 ttl 5\n" +
				"/dir/with=w@7.0/7/1 ttl 10\n/a=A@9.0/3/1 ttl 0", 12, "", 0, 0,
		},
		{both, KeepNone, "", 0, "1 keys are in the v2 store and in the v3 store: /a", 0, 0},
		{
			both, KeepV2, "/_h=@21.0/21/1 ttl 0\n/dir/soon=s@22.0/22/1 ttl 5\n/dir/with=w@23.0/23/1 ttl 10\n" +
				"/a=A@24.0/2/5 ttl 0", 24, "", 0, 1,
		},
		{
			both, KeepV3, "/_h=@21.0/21/1 ttl 0\n/dir/soon=s@22.0/22/1 ttl 5\n/dir/with=w@23.0/23/1 ttl 10", 23, "", 1, 0,
		},
	} {
		got, err := plan(s, c.old, c.keep, now)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("error is %v", err)
			}
			continue
		}
		if err != nil || puts(got) != c.want || got.revision != c.revision || got.expired != 1 ||
			got.dropped != c.dropped || got.replaced != c.taken {
			t.Errorf("keep %q: %+v, %v\n%s", c.keep, got, err, puts(got))
		}
		for id := range got.leases {
			if !c.old.empty && id == now.Unix()+5 {
				t.Error("a lease of v3 is taken")
			}
		}
	}
}

func TestStoresThatNoEtcdMakes(t *testing.T) {
	for text, want := range map[string]string{
		"{": "unexpected end", "{}": "no root", `{"Root":{"Children":{"3":{"Children":{}}}}}`: "has /3",
	} {
		if _, err := parseStore([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
