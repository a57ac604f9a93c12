package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/daemon/fleet"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/internal/spelling"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// Asked is what restore-backup and take-backup ask for.
type asked struct {
	reason       string
	skipBackup   bool
	lost         []string
	dryRun, wait bool
}

func (t *tool) restoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "restore-backup NAME|latest|TIME", Short: "ask for a restore of a backup", GroupID: "queue",
		Long: `restore-backup asks the coordinator to restore a backup. It begins within seconds:

  1. A last backup is taken of what still runs.
  2. Every node that will have a member fetches the backup, checks it and makes a data directory from it, beside
     the one in use.
  3. The record of the new incarnation is written: from here on there is no way back. The nodes change over,
     and keep their old data beside the new.
  4. The members are compared while clients are kept away, and then opened one by one.

The revision continues above every one that was ever seen, so that Kubernetes notices. Before step 3
"etcd-manager-ctl delete-command" cancels the restore, and nothing has happened to the cluster. A restore that
is not possible is refused; the reason is in control/closed/ and in the history.

latest is the newest backup that counts: of this cluster, not damaged. A time such as 2026-11-20T10:00:00Z, or
--before, takes the newest of those that were taken up to then. --dry-run shows which it is.

--member-count and --etcd-version restore into another size, or into another version of etcd (an
older minor version: only 3.4 from 3.5). What was written since the backup is lost; "configure-cluster
--allow-restore" takes what runs to another version without that.`,
		Example: "  etcd-manager-ctl --backup-store=s3://etcd/main restore-backup 2026-11-20T10:39:37Z-000001 --dry-run\n" +
			"  etcd-manager-ctl restore-backup latest --wait\n" +
			"  etcd-manager-ctl restore-backup --before=2026-11-20T10:00:00Z --dry-run\n" +
			"  etcd-manager-ctl --backup-store=s3://etcd/main --member-count=1 restore-backup 2026-11-20T10:39:37Z-000001 " +
			"--lost=b,c",
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: cli.Complete(1, false, t.words(backupNames)),
	}
	var w asked
	f := cmd.Flags()
	before := f.String("before", "", "take the newest backup that counts and was taken up to this `time`")
	f.StringVar(&w.reason, "reason", "", "why, for the record")
	f.BoolVar(&w.skipBackup, "skip-backup", false, "take no last backup of what still runs")
	f.StringSliceVar(&w.lost, "lost", nil, "`nodes` that are gone for good; do not wait for their votes")
	t.completeLost(cmd)
	f.BoolVar(&w.dryRun, "dry-run", false, "print what would be done, and queue nothing")
	f.BoolVar(&w.wait, "wait", false, "wait until it is done or refused")
	t.addPublished(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if t.publishedOnly && !w.dryRun {
			return cli.Usagef("--%s is for --dry-run: a restore that is carried out asks the daemons", publishedFlag)
		}
		which, err := parseWanted(args, *before)
		if err != nil {
			return err
		}
		return t.legacy(t.request(func(ctx context.Context, cmd *cobra.Command, s *store.Store, _ []string) error {
			name, err := t.chooseBackup(ctx, cmd, s, which)
			if err != nil {
				return err
			}
			return t.restore(ctx, cmd, s, name, w)
		}))(cmd, args)
	}
	return cmd
}

func (t *tool) backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "take-backup", Short: "ask for a backup now", GroupID: "queue",
		Args: cobra.NoArgs,
	}
	var w asked
	cmd.Flags().StringVar(&w.reason, "reason", "", "why, for the record")
	cmd.Flags().BoolVar(&w.wait, "wait", false, "wait until it is there")
	cmd.RunE = t.run(t.request(func(ctx context.Context, cmd *cobra.Command, s *store.Store, _ []string) error {
		r, err := t.put(ctx, cmd, s, cluster.Request{
			Kind: cluster.RequestBackup, At: t.now().UTC(), Reason: w.reason, By: operator(),
		}, cmd.Name())
		if err != nil {
			return err
		}
		return t.queued(cmd, s, r, w.wait, "asked for a backup: "+requestText(r))
	}))
	return cmd
}

// restore queues a restore. It has the form of the existing tool's command as
// long as that can say all of it.
func (t *tool) restore(ctx context.Context, cmd *cobra.Command, s *store.Store, name string, w asked) error {
	r, err := t.restoreRequest(name, w)
	if err != nil {
		return err
	}
	spec, err := t.restorable(ctx, s, r)
	if err != nil {
		return err
	}
	if err := t.reallyLost(ctx, cmd, s, r); err != nil {
		return err
	}
	t.doubt(cmd)
	if w.dryRun {
		return t.dryRestore(ctx, cmd, s, spec, r)
	}
	if w.reason != "" || w.skipBackup || len(w.lost) > 0 {
		if r, err = t.put(ctx, cmd, s, r, cmd.Name(), name); err != nil {
			return err
		}
		return t.queued(cmd, s, r, w.wait, "added restore-backup request: "+requestText(r))
	}
	c := store.Command{At: r.At, Backup: name, Spec: spec}
	if r.MemberCount != 0 {
		c.Spec.MemberCount = r.MemberCount
	}
	if !r.EtcdVersion.IsZero() {
		c.Spec.EtcdVersion = r.EtcdVersion
	}
	if err = t.recorded(ctx, cmd, s, asks(r, cmd.Name(), name), func() (err error) {
		c, err = s.PutCommand(ctx, c)
		return err
	}); err != nil {
		return err
	}
	r.Name = c.Name
	return t.queued(cmd, s, r, w.wait, "added restore-backup command: "+commandText(c))
}

func (t *tool) restoreRequest(name string, w asked) (cluster.Request, error) {
	r := cluster.Request{
		Kind: cluster.RequestRestore, At: t.now().UTC(), Backup: name, Reason: w.reason, By: operator(),
		MemberCount: t.memberCount, SkipBackup: w.skipBackup,
	}
	var err error
	if r.Lost, err = nodeNames("--lost", w.lost); err != nil {
		return r, err
	}
	if t.memberCount < 0 || t.memberCount > cluster.MaxMembers {
		return r, cli.Usagef("--member-count is %d, it must be 1 to %d", t.memberCount, cluster.MaxMembers)
	}
	if t.etcdVersion == "" {
		return r, nil
	}
	if r.EtcdVersion, err = etcdversion.Parse(t.etcdVersion); err != nil {
		return r, cli.Usagef("--etcd-version: %v", err)
	}
	return r, nil
}

// restorable reports why a request cannot be queued, and returns the spec in
// the store.
func (t *tool) restorable(ctx context.Context, s *store.Store, r cluster.Request) (store.SpecFile, error) {
	there, err := s.Exists(ctx, r.Backup+"/"+retention.MarkerFile)
	if err != nil {
		return store.SpecFile{}, fmt.Errorf("look for backup %s: %w", r.Backup, err)
	}
	if !there {
		hint := cli.Ctl(t.location, "list-backups")
		if spelling.Nearest(r.Backup, []string{latest}) != "" {
			hint = "did you mean " + latest + "? The names: " + hint
		}
		return store.SpecFile{}, cli.WithHint(fmt.Errorf("the store has no backup %s", r.Backup), hint)
	}
	spec, err := s.Spec(ctx)
	if err != nil && !errors.Is(err, store.ErrAbsent) {
		return spec, fmt.Errorf("read the spec: %w", err)
	}
	if err != nil && (r.MemberCount == 0 || r.EtcdVersion.IsZero()) {
		return spec, cli.WithHint(errors.New("the store has no spec, which a restore needs"),
			"give --member-count and --etcd-version, or write one with configure-cluster")
	}
	v, err := s.Poll(ctx)
	if err != nil {
		return spec, fmt.Errorf("read the control store: %w", err)
	}
	for _, q := range fleet.Requests(v) {
		if q.Kind == cluster.RequestRestore && !fleet.Decided(v.Incarnations, q) {
			return spec, &cli.RefusedError{
				Text: fmt.Sprintf("a restore of %s is queued already", q.Backup),
				Next: "wait for it, or delete it: etcd-manager-ctl delete-command " + q.Name,
			}
		}
	}
	return spec, nil
}

// queued says what was queued, and waits for its end if it is to.
func (t *tool) queued(cmd *cobra.Command, s *store.Store, r cluster.Request, wait bool, text string) error {
	err := t.print(cmd, r, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, cli.Plain(text))
		return err
	})
	if err != nil || !wait {
		return err
	}
	// --timeout is for the store; the coordinator takes the time it needs.
	return t.await(cmd.Context(), cmd, s, r)
}
