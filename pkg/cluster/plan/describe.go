package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdlog"
)

// describe says in a few words how the nodes that should run members do.
func (l *view) describe() string {
	var words []string
	for _, n := range l.obs.Nodes {
		switch {
		case n.Assigned == nil && l.memberOf(&n) == nil && !slices.Contains(l.obs.LeaseVoters.Names, n.Name):
		case !n.Reachable:
			words = append(words, fmt.Sprintf("%s does not answer", n.Name))
		case n.Process.State == cluster.ProcessCrashing:
			words = append(words, fmt.Sprintf("etcd on %s is crashing%s", n.Name, ending(n.Process)))
		case n.Disk.State == cluster.DiskEmpty && n.Prepared != nil && n.Process.State == cluster.ProcessStopped:
			words = append(words, fmt.Sprintf("%s has never started", n.Name))
		case n.Disk.State == cluster.DiskEmpty && n.Prepared == nil:
			words = append(words, fmt.Sprintf("%s has lost its data", n.Name))
		case n.Disk.State == cluster.DiskData && n.Assigned == nil:
			words = append(words, fmt.Sprintf("%s has the data of a member but no state file for it (restore its file state "+
				"or etcdadm.json)", n.Name))
		default:
			words = append(words, fmt.Sprintf("%s is %s", n.Name, n.Process.State))
		}
	}
	for _, m := range l.voters {
		if l.nodeOf(m) == nil {
			words = append(words, fmt.Sprintf("%s has no known node", l.called(m)))
		}
	}
	if len(words) == 0 {
		return "no known node can run one"
	}
	return strings.Join(words, ", ")
}

// ending says how and why a process ended, as far as it is known.
func ending(p cluster.Process) (text string) {
	if p.LastExit != "" {
		text = " (" + p.LastExit + ")"
	}
	if cause := etcdlog.Cause(p.LastLines); cause != "" {
		text += ": " + cause
	}
	return text
}
