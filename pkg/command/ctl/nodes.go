package ctl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// nodesIn returns the names of the nodes that a store knows of: by their records, by those of
// incarnations, and by what the coordinator published, nil for nothing.
func nodesIn(v store.View, report *reconcile.Report) []cluster.NodeName {
	var list []cluster.NodeName
	for _, n := range v.Nodes {
		list = append(list, n.Name)
	}
	for _, inc := range v.Incarnations {
		for _, m := range inc.Voters {
			list = append(list, m.Name)
		}
	}
	if report != nil {
		obs := report.Observation
		list = append(list, obs.LeaseVoters.Names...)
		for _, n := range obs.Nodes {
			list = append(append(list, n.Name), n.LeaseVoters.Names...)
		}
		for _, m := range obs.Members {
			list = append(list, m.Name)
		}
	}
	list = slices.DeleteFunc(list, func(n cluster.NodeName) bool { return n == "" })
	slices.Sort(list)
	return slices.Compact(list)
}

// reallyLost refuses to call a node lost that answered a moment ago, or one that there is not.
func (t *tool) reallyLost(ctx context.Context, cmd *cobra.Command, s *store.Store, r cluster.Request) error {
	if len(r.Lost) == 0 {
		return nil
	}
	report, _, _, err := t.published(ctx, s)
	if err != nil {
		return err
	}
	v, err := s.Poll(ctx)
	if err != nil {
		return fmt.Errorf("read the control store: %w", err)
	}
	current := report != nil && t.now().Sub(report.At) <= render.StaleAge
	if err := existing(cmd, r.Lost, nodesIn(v, report), current); err != nil {
		return err
	}
	if report == nil {
		return nil
	}
	for _, n := range report.Observation.Nodes {
		if current && n.Reachable && slices.Contains(r.Lost, n.Name) {
			return &cli.RefusedError{
				Text: fmt.Sprintf("%s answered %s: it is not lost", n.Name, render.Age(t.now().Sub(report.At))),
				Next: "remove it from --lost, or stop its daemon and its etcd for good first",
			}
		}
	}
	// A record of an incarnation names nodes that may have left long ago.
	t.warnUnreachable(cmd, nodesIn(store.View{Nodes: v.Nodes}, report), *report, r)
	return nil
}

// warnUnreachable names the nodes that do not answer either, and that --lost does not name: they
// are waited for.
func (t *tool) warnUnreachable(
	cmd *cobra.Command, known []cluster.NodeName, report reconcile.Report, r cluster.Request) {
	unreachable := slices.DeleteFunc(slices.Clone(known), func(name cluster.NodeName) bool {
		return slices.Contains(r.Lost, name) || slices.ContainsFunc(report.Observation.Nodes, func(n cluster.Node) bool {
			return n.Name == name && n.Reachable
		})
	})
	if len(unreachable) == 0 {
		return
	}
	all := slices.Sorted(slices.Values(slices.Concat(r.Lost, unreachable)))
	warn(cmd, "--lost does not name %s, which did not answer %s: they may be waited for; if all are gone for "+
		"good: --lost=%s", words(unreachable), render.Age(t.now().Sub(report.At)), strings.ReplaceAll(words(all), ", ", ","))
}

// existing refuses names of nodes that are not known. Where nobody coordinates daemons may
// know of more nodes than the store does: then it only warns.
func existing(cmd *cobra.Command, names, known []cluster.NodeName, current bool) error {
	for _, name := range names {
		switch {
		case slices.Contains(known, name):
		case current:
			return &cli.RefusedError{
				Text: fmt.Sprintf("--lost: there is no node %s", name),
				Next: "the nodes that are known are " + words(known),
			}
		case len(known) > 0:
			warn(cmd, "--lost: the store has no record of node %s; it has those of %s", name, words(known))
		default:
			warn(cmd, "--lost: the store has no record of node %s", name)
		}
	}
	return nil
}

func words(names []cluster.NodeName) string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = string(n)
	}
	return strings.Join(list, ", ")
}
