package etcdadm

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// observed are the flags of operations whose values an observation has.
var observed = map[string]func(cluster.Observation) []string{
	"node": func(obs cluster.Observation) (list []string) {
		for _, n := range obs.Nodes {
			list = append(list, string(n.Name))
		}
		return list
	},
	// It is that of a member, or of a node that is to be one.
	"name": func(obs cluster.Observation) (list []string) {
		for _, n := range obs.Nodes {
			list = append(list, string(n.Name))
		}
		for _, m := range obs.Members {
			if m.Name != "" {
				list = append(list, string(m.Name))
			}
		}
		return list
	},
	"id": func(obs cluster.Observation) (list []string) {
		for _, m := range obs.Members {
			list = append(list, m.ID.String())
		}
		return list
	},
}

// words are the words of a completion that an observation has.
func (t *tool) words(names func(cluster.Observation) []string) cli.Words {
	return func(_ context.Context, cmd *cobra.Command) (list []string, err error) {
		err = t.run(cmd, func(ctx context.Context, c Cluster) error {
			_, obs, err := c.Observe(ctx)
			list = names(obs)
			return err
		})
		slices.Sort(list)
		return slices.Compact(list), err
	}
}
