package machine

import (
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// Overtaken holds a member whose first start fails because the cluster's members have
// changed after it was configured.
func Overtaken(goal Goal, cfg Config, obs Observation) *Hold {
	return (&planner{goal: goal, cfg: cfg, obs: obs}).overtaken()
}

// overtaken compares what etcd is given with the cluster's list: it does not begin with
// another number of members, or with other URLs.
func (p *planner) overtaken() *Hold {
	reported := parseInitialMembers(p.obs.Written["ETCD_INITIAL_CLUSTER"])
	if len(reported) == 0 || !p.obs.Remote.Answered || p.obs.Data.State == cluster.DiskData {
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
	had, has := list(reported), list(p.peers())
	if slices.Equal(had, has) {
		return nil
	}
	phases := []string{"configure", "start"}
	if _, ok := p.addressed(); !ok {
		phases = []string{"membership", "configure", "start"}
	}
	return hold(NotConfigured, p.again(phases...),
		"the cluster's members have changed since etcd was configured, and etcd does not start with the old list: "+
			"the cluster has %s, this machine %s", strings.Join(has, ","), strings.Join(had, ","))
}

// again is the command line that carries out phases of join once more.
func (p *planner) again(phases ...string) string {
	lines := make([]string, len(phases))
	for i, phase := range phases {
		lines[i] = "etcdadm join phase " + phase + " " + p.voterURL()
	}
	return strings.Join(lines, " && ")
}
