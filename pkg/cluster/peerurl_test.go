package cluster_test

import (
	"slices"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func TestSharePeerURLComparesAddresses(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"https://a:2380", "https://a:2380", true},
		{"https://A.Example:2380", "HTTPS://a.example.:2380/", true},
		{"https://a", "https://a:443", true},
		{"http://a", "http://a:80", true},
		{"https://a:02380", "https://a:2380", true},
		{"https://[2001:DB8:0::1]:2380", "https://[2001:db8::1]:2380", true},
		{"https://[::ffff:10.0.0.1]:2380", "https://10.0.0.1:2380", true},
		{"https://a:2380", "http://a:2380", false},
		{"https://a:2380", "https://b:2380", false},
		{"https://a:2380", "https://a:2381", false},
		{"http://a", "http://a:443", false},
		{"no url", "no url", true},
		{"no url", "another", false},
	} {
		if got := cluster.SharePeerURL([]string{"https://other:1", c.a}, []string{c.b}); got != c.same {
			t.Errorf("%s and %s: %t, want %t", c.a, c.b, got, c.same)
		}
	}
	if cluster.SharePeerURL(nil, nil) {
		t.Error("nothing shares a URL with nothing")
	}
}

func TestKeyless(t *testing.T) {
	runs := &cluster.Assigned{Token: "t1"}
	o := cluster.Observation{
		Members: []cluster.Member{
			{ID: 1, Name: "known", PeerURLs: []string{"http://a:1"}}, {ID: 2, Name: "lacks", PeerURLs: []string{"https://b:1"}},
			{ID: 3, Name: "unreachable", PeerURLs: []string{"https://c:1"}}, {ID: 4, PeerURLs: []string{"http://d:1"}},
		},
		Nodes: []cluster.Node{
			{Name: "known", Assigned: runs, PeerKeys: true}, {Name: "lacks", Assigned: runs}, {Name: "unreachable"},
		},
	}
	if got := o.Keyless(); !slices.Equal(got, []cluster.NodeName{"4", "lacks"}) {
		t.Errorf("without keys are %v", got)
	}
}
