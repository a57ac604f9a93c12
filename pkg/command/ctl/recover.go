package ctl

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/store"
)

func (t *tool) recoverCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "recover-lease-voters", Short: "make etcd's voters the lease voters, if most of the recorded ones are lost",
		GroupID: "queue",
		Long: `recover-lease-voters ends the hold lease-voters-lost: etcd serves, but there is no majority left of the nodes
that may grant the coordinator's lease. The nodes of etcd's present voters become the lease voters. Name with
--lost every machine that does not answer: one that is only cut off may still coordinate on its side.`,
		Args: cobra.NoArgs,
	}
	lost := cmd.Flags().StringSlice("lost", nil, "nodes that are gone for good")
	t.completeLost(cmd)
	reason := cmd.Flags().String("reason", "", "why, for the record")
	wait := cmd.Flags().Bool("wait", false, "wait until it is done")
	cmd.RunE = t.run(t.request(func(ctx context.Context, cmd *cobra.Command, s *store.Store, _ []string) error {
		names, err := nodeNames("--lost", *lost)
		if err != nil {
			return err
		}
		r := cluster.Request{Kind: cluster.RequestLeaseVoters, At: t.now().UTC(), Reason: *reason, By: operator(),
			Lost: names}
		if err := t.reallyLost(ctx, cmd, s, r); err != nil {
			return err
		}
		if r, err = t.put(ctx, cmd, s, r, cmd.Name()); err != nil {
			return err
		}
		return t.queued(cmd, s, r, *wait, "added recover-lease-voters request: "+requestText(r))
	}))
	return cmd
}

// nodeNames reads the values of a flag that names nodes.
func nodeNames(flag string, values []string) ([]cluster.NodeName, error) {
	var list []cluster.NodeName
	for _, v := range values {
		if err := cluster.NodeName(v).Validate(); err != nil {
			return nil, cli.Usagef("%s: %v", flag, err)
		}
		list = append(list, cluster.NodeName(v))
	}
	return list, nil
}
