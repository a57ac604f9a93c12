// Package client has the commands of etcdadm that look after an etcd over its client
// port: snapshot, defrag, alarm, move-leader and etcdctl.
package client

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/access"
)

// New returns the commands.
func New() []*cobra.Command {
	return []*cobra.Command{newSnapshot(), newDefrag(), newAlarm(), newMoveLeader(), newEtcdctl()}
}

// A tool is what each command has.
type tool struct {
	cmd    *cobra.Command
	access *access.Access
	out    *cli.Output
}

// newTool gives cmd the flags that reach etcd and that choose the output.
func newTool(cmd *cobra.Command) *tool {
	return &tool{cmd: cmd, access: access.Add(cmd), out: cli.AddOutput(cmd, cli.Table, cli.JSON, cli.YAML)}
}

// say prints how it goes on.
func (t *tool) say(format string, args ...any) {
	fmt.Fprintln(t.cmd.ErrOrStderr(), cli.Plain(fmt.Sprintf(format, args...)))
}

// print writes the result, which is an object of that kind.
func (t *tool) print(kind string, v any, text func(w io.Writer) error) error {
	return t.out.Print(t.cmd.OutOrStdout(), cli.Versioned(kind, v), text)
}

// rows returns the function that writes a table.
func rows(list ...[]string) func(w io.Writer) error {
	return func(w io.Writer) error { return cli.Rows(w, list...) }
}

// A quorumError says that a step needs more healthy voters than there are.
type quorumError struct{ text, next string }

func (e *quorumError) Error() string { return e.text }
func (e *quorumError) Hint() string  { return e.next }
func (e *quorumError) Kind() string  { return cli.KindQuorumLost }

// view checks all members.
func (t *tool) view(ctx context.Context) (view, error) {
	c, err := t.access.Open(ctx)
	if err != nil {
		return view{}, err
	}
	// Nothing is written over it.
	defer c.Close()
	limited, cancel := t.access.Limit(ctx)
	defer cancel()
	defer t.access.Asked("")()
	list, err := c.Members(limited)
	if err != nil {
		return view{}, t.access.Explain(ctx, err)
	}
	return observe(limited, t.access, list), nil
}
