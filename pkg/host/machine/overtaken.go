package machine

import (
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// Overtaken holds a member whose first start fails because the cluster's members have
// changed after it was configured.
func Overtaken(goal Goal, cfg Config, obs Observation) *Hold {
	return (&world{goal: goal, cfg: cfg, obs: obs}).overtaken()
}

// overtaken compares what etcd is given with the cluster's list: it does not begin with
// another number of members, or with other URLs.
func (w *world) overtaken() *Hold {
	reported := parseInitialMembers(w.obs.Written["ETCD_INITIAL_CLUSTER"])
	if len(reported) == 0 || !w.obs.Remote.Answered || w.obs.Data.State == cluster.DiskData {
		return nil
	}
	list := func(members []cluster.InitialMember) []string {
		var all []string
		for _, m := range members {
			all = append(all, m.PeerURLs...)
		}
		slices.Sort(all)
		return all
	}
	had, has := list(reported), list(w.peers())
	if slices.Equal(had, has) {
		return nil
	}
	phases := []string{"configure", "start"}
	if _, ok := w.addressed(); !ok {
		phases = []string{"membership", "configure", "start"}
	}
	return hold(NotConfigured, w.again(phases...),
		"the cluster's members have changed since etcd was configured, and etcd does not start with the old list: "+
			"the cluster has %s, this machine %s", strings.Join(has, ","), strings.Join(had, ","))
}

// again is the command line that carries out phases of join once more.
func (w *world) again(phases ...string) string {
	lines := make([]string, len(phases))
	for i, p := range phases {
		lines[i] = "etcdadm join phase " + p + " " + w.voterURL()
	}
	return strings.Join(lines, " && ")
}
