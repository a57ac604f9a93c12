package ctl

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/daemon/fleet"
	"github.com/etcdadm/etcdadm/pkg/store"
)

func (t *tool) queueCommands() []*cobra.Command {
	pause := &cobra.Command{
		Use: "pause", Short: "ask the coordinator to change nothing", GroupID: "queue",
		Long: `pause asks the coordinator to change nothing until "etcd-manager-ctl resume". Nodes still restart their own
etcd processes.`,
		Args: cobra.NoArgs,
	}
	reason := pause.Flags().String("reason", "", "why, for the record")
	pause.RunE = t.run(t.request(func(ctx context.Context, cmd *cobra.Command, s *store.Store, _ []string) error {
		return t.pause(ctx, cmd, s, *reason)
	}))
	forget := &cobra.Command{
		Use: "forget-node NAME", Short: "delete the record of a machine that is gone for good", GroupID: "queue",
		Args: cobra.ExactArgs(1), ValidArgsFunction: cli.Complete(1, false, t.words(recordNames)),
	}
	force := forget.Flags().Bool("force", false, "delete it even if the published status says that the node answers")
	forget.RunE = t.run(t.request(func(ctx context.Context, cmd *cobra.Command, s *store.Store, args []string) error {
		return t.forget(ctx, cmd, s, cluster.NodeName(args[0]), *force)
	}))
	return []*cobra.Command{
		pause,
		{
			Use: "resume", Short: "end a pause", GroupID: "queue",
			Args: cobra.NoArgs, RunE: t.run(t.request(t.resume)),
		},
		{
			Use: "list-commands", Short: "print the queued commands and requests", GroupID: "queue",
			Args: cobra.NoArgs, RunE: t.legacy(t.shows(t.listCommands)),
		},
		{
			Use: "delete-command NAME", Short: "delete queued commands and requests, by their name or their backup's name",
			GroupID: "queue",
			Args:    cobra.ExactArgs(1), RunE: t.legacy(t.deleteCommand),
			ValidArgsFunction: cli.Complete(1, false, t.words(queuedNames)),
		},
		forget,
		t.recoverCommand(),
		t.restoreCommand(),
		t.backupCommand(),
	}
}

// operator names who asks, as user@host.
func operator() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	by := []rune(cli.Plain(name + "@" + host))
	return string(by[:min(len(by), maxOperator)])
}

// maxOperator bounds the name of who asks, in characters.
const maxOperator = 100

// pauses returns the pause requests in the store.
func pauses(ctx context.Context, s *store.Store) ([]cluster.Request, error) {
	v, err := s.Poll(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the control store: %w", err)
	}
	return slices.DeleteFunc(v.Requests, func(r cluster.Request) bool { return r.Kind != cluster.RequestPause }), nil
}

func (t *tool) pause(ctx context.Context, cmd *cobra.Command, s *store.Store, reason string) error {
	list, err := pauses(ctx, s)
	if err != nil {
		return err
	}
	verb := "already paused"
	if len(list) == 0 {
		verb = "paused"
		r, err := s.PutRequest(ctx, cluster.Request{
			Kind: cluster.RequestPause, At: t.now().UTC(), Reason: reason, By: operator(),
		})
		if err != nil {
			return err
		}
		list = append(list, r)
	}
	return t.print(cmd, list[0], func(w io.Writer) error {
		text := fmt.Sprintf("%s by %s since %s", verb, list[0].By, list[0].At.UTC().Format(time.RFC3339))
		if list[0].Reason != "" {
			text += ": " + list[0].Reason
		}
		_, err := fmt.Fprintln(w, cli.Plain(text))
		return err
	})
}

func (t *tool) resume(ctx context.Context, cmd *cobra.Command, s *store.Store, _ []string) error {
	list, err := pauses(ctx, s)
	if err != nil {
		return err
	}
	for _, r := range list {
		if err := s.DeleteRequest(ctx, r.Name); err != nil {
			return fmt.Errorf("resume: %w", err)
		}
	}
	return t.print(cmd, list, func(w io.Writer) error {
		text := "resumed"
		if len(list) == 0 {
			text = "not paused"
		}
		_, err := fmt.Fprintln(w, text)
		return err
	})
}

func (t *tool) listCommands(ctx context.Context, cmd *cobra.Command, s *store.Store, _ []string) error {
	v, err := s.Poll(ctx)
	if err != nil {
		return fmt.Errorf("read the control store: %w", err)
	}
	for _, p := range v.Problems {
		if strings.Contains(p, "control/requests/") || strings.Contains(p, "/_command.json") {
			note(cmd, "%s", p)
		}
	}
	return t.print(cmd, fleet.Requests(v), func(w io.Writer) error {
		var b strings.Builder
		for _, c := range v.Commands {
			fmt.Fprintln(&b, commandText(c))
		}
		for _, r := range v.Requests {
			fmt.Fprintf(&b, "timestamp:%d %s\n", r.At.UnixNano(), requestText(r))
		}
		_, err := io.WriteString(w, b.String())
		return err
	})
}

// commandText writes a command as the existing tool does.
func commandText(c store.Command) string {
	spec := ""
	if text := specText(c.Spec); text != "" {
		spec = "cluster_spec:{" + text + "} "
	}
	return fmt.Sprintf("timestamp:%d restore_backup:{%sbackup:%q}", c.At.UnixNano(), spec, c.Backup)
}

// requestText writes a request in the manner of the existing tool's commands.
func requestText(r cluster.Request) string {
	words := []string{fmt.Sprintf("name:%q", r.Name)}
	if r.Sealed {
		words = append(words, fmt.Sprintf("sealed:true etcd_version:%q", r.EtcdVersion))
	}
	for _, f := range [][2]string{{"backup", r.Backup}, {"by", r.By}, {"reason", r.Reason}} {
		if f[1] != "" {
			words = append(words, fmt.Sprintf("%s:%q", f[0], f[1]))
		}
	}
	return fmt.Sprintf("%s:{%s}", r.Kind, strings.Join(words, " "))
}

func (t *tool) deleteCommand(ctx context.Context, cmd *cobra.Command, s *store.Store, args []string) error {
	name := args[0]
	v, err := s.Poll(ctx)
	if err != nil {
		return fmt.Errorf("read the control store: %w", err)
	}
	deleted := []string{}
	remove := func(name string, do func(context.Context, string) error) error {
		if err := do(ctx, name); err != nil {
			return fmt.Errorf("delete %s: %w", name, err)
		}
		deleted = append(deleted, name)
		return nil
	}
	for _, c := range v.Commands {
		if c.Name == name || c.Backup == name {
			if err := remove(c.Name, s.DeleteCommand); err != nil {
				return err
			}
		}
	}
	for _, r := range v.Requests {
		if r.Name == name || r.Backup == name {
			if err := remove(r.Name, s.DeleteRequest); err != nil {
				return err
			}
		}
	}
	// What cannot be understood has no name but that of its key, which the
	// problem begins with.
	for _, p := range v.Problems {
		var err error
		switch {
		case strings.Contains(p, "control/requests/"+name+": "):
			err = remove(name, s.DeleteRequest)
		case strings.Contains(p, "control/"+name+"/_command.json: "):
			err = remove(name, s.DeleteCommand)
		}
		if err != nil {
			return err
		}
	}
	if len(deleted) == 0 {
		note(cmd, "nothing with the name %s is queued", name)
	}
	return t.print(cmd, deleted, func(io.Writer) error { return nil })
}

// stillShown says why the status shows a node whose record is deleted.
const stillShown = "the status shows it until the daemons have forgotten it too: a day after they last heard of it"

func (t *tool) forget(ctx context.Context, cmd *cobra.Command, s *store.Store, name cluster.NodeName,
	force bool) error {
	if err := name.Validate(); err != nil {
		return cli.Usagef("%v", err)
	}
	key := "control/nodes/" + string(name)
	there, err := s.Exists(ctx, key)
	if err != nil {
		return fmt.Errorf("look for the record of node %s: %w", name, err)
	}
	r, _, text, err := t.published(ctx, s)
	if err != nil {
		return err
	}
	shown := r != nil && slices.ContainsFunc(r.Observation.Nodes, func(n cluster.Node) bool { return n.Name == name })
	switch {
	case !there && shown:
		return cli.WithHint(fmt.Errorf("there is no record of node %s", name), stillShown)
	case !there:
		return cli.WithHint(fmt.Errorf("there is no record of node %s", name), "list the nodes: etcd-manager-ctl status")
	case r == nil:
		note(cmd, "%s", text)
	case !force:
		for _, n := range r.Observation.Nodes {
			if n.Name == name && n.Reachable {
				return &cli.RefusedError{
					Text: fmt.Sprintf("node %s answered %s; its daemon would write the record again", name,
						render.Age(t.now().Sub(r.At))),
					Next: "stop its daemon first, or use --force",
				}
			}
		}
	}
	if err := s.Delete(ctx, key); err != nil {
		return fmt.Errorf("delete the record of node %s: %w", name, err)
	}
	if shown {
		note(cmd, "%s", stillShown)
	}
	return t.print(cmd, struct {
		Name cluster.NodeName `json:"name"`
	}{name}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "forgot node %s\n", name)
		return err
	})
}
