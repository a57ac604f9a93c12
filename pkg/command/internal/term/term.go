// Package term has the command of etcdadm that lowers the coordinator's term on
// one node's disk.
package term

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// New returns the command term.
func New() *cobra.Command {
	cmd := cli.Group("term", "repair the coordinator's term on this machine")
	cmd.Long = `term repairs the number by which etcd-manager's daemons distinguish an old coordinator from a new one.`
	cmd.AddCommand(reset())
	return cmd
}

// A view is what is printed for programs.
type view struct {
	Before cluster.Term `json:"before"`
	After  cluster.Term `json:"after"`
}

func reset() *cobra.Command {
	var dir string
	var to uint64
	cmd := &cobra.Command{
		Use: "reset", Short: "lower the highest term that this node has seen",
		Long: `reset is for a node with a term on its disk that no candidate can exceed: the node grants no lease and obeys
no order; its log and etcdadm status say so. reset lowers the term; whatever else the node remembers
stays. It refuses if the node's term can be exceeded from --to: then it would only forget the node's promises.

Reset one node at a time: stop etcd-manager there (its etcd stops with it), run this, start etcd-manager again,
and wait until its member is healthy before you go to the next node that has the term. Give all of them the
same --to: the highest term of the nodes that are not affected (lease.term in etcdadm observe -o json). If all
are affected, take any number from 1, such as 1000, that is not below the term in the last lines of
etcd-manager-ctl history.`,
		Example: "  systemctl stop etcd-manager\n  etcdadm term reset --to=1000\n  systemctl start etcd-manager",
		Args:    cobra.NoArgs,
	}
	out := cli.AddOutput(cmd, cli.Table, cli.JSON, cli.YAML)
	cmd.Flags().StringVar(&dir, "data-dir", cluster.ManagerDir, "etcd-manager's data `directory`")
	cmd.Flags().Uint64Var(&to, "to", 0, "the `term` to go back to (required)")
	// It fails only for a flag that does not exist.
	_ = cmd.MarkFlagRequired("to")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		before, err := nodestate.ResetTerm(dir, cluster.Term(to))
		if err != nil {
			return explain(err)
		}
		done := cli.Versioned("TermReset", view{before.Term, cluster.Term(to)})
		return out.Print(cmd.OutOrStdout(), done, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "The highest term that this node has seen was %d and now is %d.\n", before.Term, to)
			return err
		})
	}
	return cmd
}

// explain says what to do about a reset that was not made, and whose fault it is.
func explain(err error) error {
	var locked *hostfs.LockedError
	switch {
	case errors.As(err, &locked):
		return cli.WithHint(err, "stop etcd-manager on this node first")
	case errors.Is(err, lease.ErrResetTarget):
		return &cli.UsageError{Text: "--to: " + err.Error(),
			Next: "give the highest term of the nodes that are not affected: lease.term in etcdadm observe -o json"}
	case errors.Is(err, lease.ErrInReach):
		return &cli.RefusedError{
			Text: err.Error(), Next: "nothing has to be reset here: start etcd-manager, and check etcdadm status",
		}
	case errors.Is(err, fs.ErrNotExist):
		return cli.WithHint(err,
			"--data-dir is the data directory of etcd-manager on this machine; a node without the file has seen no term")
	}
	return err
}
