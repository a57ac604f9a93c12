package ctl

import (
	"context"
	"fmt"
	"io"
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
		r, err := t.put(ctx, cmd, s, cluster.Request{
			Kind: cluster.RequestPause, At: t.now().UTC(), Reason: reason, By: operator(),
		}, cmd.Name())
		if err != nil {
			return err
		}
		list = append(list, r)
	}
	return t.print(cmd, list[0], func(w io.Writer) error {
		_, err := fmt.Fprintln(w, cli.Plain(verb+pauseText(list[0])))
		return err
	})
}

// pauseText says whose pause it is, and since when.
func pauseText(r cluster.Request) string {
	text := fmt.Sprintf(" by %s since %s", r.By, r.At.UTC().Format(time.RFC3339))
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}

func (t *tool) resume(ctx context.Context, cmd *cobra.Command, s *store.Store, _ []string) error {
	list, err := pauses(ctx, s)
	if err != nil {
		return err
	}
	if len(list) > 0 {
		a := act{words: []string{"resume"}, why: "paused" + pauseText(list[0])}
		if err := t.recorded(ctx, cmd, s, a, func() error { return deleteRequests(ctx, s, list) }); err != nil {
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

func deleteRequests(ctx context.Context, s *store.Store, list []cluster.Request) error {
	for _, r := range list {
		if err := s.DeleteRequest(ctx, r.Name); err != nil {
			return err
		}
	}
	return nil
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

// A removal is something queued that is deleted.
type removal struct {
	name, text string
	do         func(context.Context, string) error
}

// removals returns what has a name, or restores the backup of that name.
func removals(s *store.Store, v store.View, name string) (list []removal) {
	for _, c := range v.Commands {
		if c.Name == name || c.Backup == name {
			list = append(list, removal{c.Name, commandText(c), s.DeleteCommand})
		}
	}
	for _, r := range v.Requests {
		if r.Name == name || r.Backup == name {
			list = append(list, removal{r.Name, requestText(r), s.DeleteRequest})
		}
	}
	// What cannot be understood has no name but that of its key, which the
	// problem begins with.
	for _, p := range v.Problems {
		switch {
		case strings.Contains(p, "control/requests/"+name+": "):
			list = append(list, removal{name, p, s.DeleteRequest})
		case strings.Contains(p, "control/"+name+"/_command.json: "):
			list = append(list, removal{name, p, s.DeleteCommand})
		}
	}
	return list
}

func (t *tool) deleteCommand(ctx context.Context, cmd *cobra.Command, s *store.Store, args []string) error {
	name := args[0]
	v, err := s.Poll(ctx)
	if err != nil {
		return fmt.Errorf("read the control store: %w", err)
	}
	deleted, list := []string{}, removals(s, v, name)
	if len(list) == 0 {
		note(cmd, "nothing with the name %s is queued", name)
	} else {
		a := act{words: []string{"delete-command", name}}
		for _, r := range list {
			a.why = strings.TrimPrefix(a.why+"; "+r.text, "; ")
		}
		if err := t.recorded(ctx, cmd, s, a, func() error {
			for _, r := range list {
				if err := r.do(ctx, r.name); err != nil {
					return fmt.Errorf("delete %s: %w", r.name, err)
				}
				deleted = append(deleted, r.name)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return t.print(cmd, deleted, func(io.Writer) error { return nil })
}

// stillShown says why the status shows a node whose record is deleted.
const stillShown = "the status shows it, and what waits for it waits, until the daemons have forgotten it too: a day after " +
	"they last heard of it"

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
	a := act{words: []string{"forget-node", string(name)}}
	if err := t.recorded(ctx, cmd, s, a, func() error { return s.Delete(ctx, key) }); err != nil {
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
