package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

func TestReleasesThatANodeLacks(t *testing.T) {
	found := []cluster.Hazard{{Kind: cluster.HazardMembers, State: cluster.HazardPresent}}
	none := []cluster.Hazard{
		{Kind: cluster.HazardMembers, State: cluster.HazardAbsent},
		{Kind: cluster.HazardV2Content, State: cluster.HazardAbsent},
		{Kind: cluster.HazardV2Log, State: cluster.HazardAbsent},
	}
	for _, c := range []struct {
		runs, want, has string
		hazards         []cluster.Hazard
		need            string
	}{
		{runs: "3.6.16", want: "3.6.16", has: "3.6.16"},
		{runs: "3.5.35", want: "3.6.16", has: "3.5.35", need: "3.6.16"},
		{runs: "3.5.35", want: "3.6.16", has: "3.5.35 3.6.16"},
		{runs: "3.5.35", want: "3.7.3", has: "3.5.35", need: "3.6.11 3.7.3"},
		{runs: "3.4.25", want: "3.7.3", has: "3.4.25 3.7.3", need: "3.5.32 3.6.11"},
		{runs: "3.7.3", want: "3.5.35", has: "3.7.3", need: "3.5.35 3.6.11"},
		{runs: "3.5.21", want: "3.6.16", has: "3.5.21", hazards: none, need: "3.6.16"},
		{runs: "3.5.21", want: "3.6.16", has: "3.5.21", hazards: found, need: "3.5.32 3.6.16"},
		{runs: "3.5.35", want: "3.4.25", has: "3.5.35", need: "3.4.25"},
		{runs: "3.5.0", want: "3.4.25", has: "3.5.0", need: "3.4.25 3.5.32"},
		{want: "3.6.16", has: "3.6.16"},
		{want: "3.6.16", need: "3.6.16"},
		{want: "3.3.27", need: ""}, // no daemon runs it
		{runs: "3.6.16"},
	} {
		n := cluster.Node{Name: "a", Hazards: c.hazards}
		if c.runs != "" {
			n.Assigned = &cluster.Assigned{Version: etcdversion.Must(c.runs)}
		}
		for _, v := range strings.Fields(c.has) {
			n.Versions = append(n.Versions, etcdversion.Must(v))
		}
		var spec cluster.Spec
		if c.want != "" {
			spec.EtcdVersion = etcdversion.Must(c.want)
		}
		var got []string
		for _, v := range Releases(spec, cluster.Observation{}, n) {
			got = append(got, v.String())
		}
		if !slices.Equal(got, strings.Fields(c.need)) {
			t.Errorf("from %s to %s with %s: it lacks %v, want %s", c.runs, c.want, c.has, got, c.need)
		}
	}
}

// A node that joins needs what the others run, while they are on their way.
func TestReleasesOfANodeThatJoins(t *testing.T) {
	spec := cluster.Spec{EtcdVersion: etcdversion.Must("3.7.3")}
	obs := cluster.Observation{Nodes: []cluster.Node{
		{Name: "a", Assigned: &cluster.Assigned{Version: etcdversion.Must("3.6.16")}},
		{Name: "b", Assigned: &cluster.Assigned{Version: etcdversion.Must("3.6.16")}},
		{Name: "c"},
	}}
	got := Releases(spec, obs, cluster.Node{Name: "c"})
	if want := []etcdversion.Version{etcdversion.Must("3.6.16"), etcdversion.Must("3.7.3")}; !slices.Equal(got, want) {
		t.Errorf("it lacks %v, want %v", got, want)
	}
}
