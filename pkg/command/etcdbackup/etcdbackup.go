// Package etcdbackup is the command line of etcd-backup, which backs up any etcd
// into a backup store. It takes every flag of the existing etcd-backup, with one
// dash or two, and some of its own.
package etcdbackup

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/backup/backupagent"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/docs"
	"github.com/etcdadm/etcdadm/pkg/command/internal/progress"
	"github.com/etcdadm/etcdadm/pkg/command/internal/prune"
	"github.com/etcdadm/etcdadm/pkg/command/internal/storewait"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/store"
)

const long = `Back up an etcd cluster into a backup store, on a schedule or once.

It runs beside any etcd, as one agent for a cluster or one on each of its
machines, and changes nothing in etcd. If several agents share a store, one of
them takes each backup; the others see it and wait for the next interval.

Each flag can be set in the environment: --backup-store as ETCD_BACKUP_BACKUP_STORE.

Exit codes:
`

const example = `  etcd-backup --cluster-name=main --backup-store=s3://bucket/main \
    --client-url=https://127.0.0.1:2379 \
    --client-ca-file=ca.crt --client-cert-file=client.crt --client-key-file=client.key
  etcd-backup --cluster-name=main --backup-store=/backups --cron="0 */6 * * *"
  etcd-backup --cluster-name=main --backup-store=/backups --once`

// New returns the tree of commands.
func New() *cobra.Command {
	var f flags
	root := &cobra.Command{
		Use:     "etcd-backup",
		Short:   "back up any etcd into a backup store",
		Long:    long + cli.CodeLines(),
		Example: example,
		Version: cli.BuildVersion(),
		Args:    cli.Known,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return fromEnvironment(cmd.Flags(), os.Getenv)
		},
	}
	f.add(root)
	cli.Sections(root, sections...)
	out := cli.AddOutput(root, cli.Table, cli.JSON, cli.YAML)
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := f.config(os.Getenv, cmd.Flags().Changed("interval"))
		if err != nil {
			return err
		}
		c.Log = f.logger(cmd.ErrOrStderr())
		return f.run(cmd, c, out)
	}
	root.AddCommand(
		prune.New(prune.Options{Out: out, Open: func(ctx context.Context) (*store.Store, error) {
			return f.open(ctx, root.ErrOrStderr())
		}}),
		cli.VersionCommand(out), docs.New(root.Name()),
	)
	return root
}

func (f *flags) open(ctx context.Context, reported io.Writer) (*store.Store, error) {
	s, err := storewait.Open(ctx, f.backupStore, 0, reported)
	if err != nil {
		return nil, cli.Usagef("--backup-store: %v", err)
	}
	return s, nil
}

// shown is a location without its options, which may hold a secret.
func shown(location string) string {
	location, _, _ = strings.Cut(location, "?")
	return store.Shown(location)
}

// closeTime bounds the wait for calls of the store at the end.
const closeTime = 10 * time.Second

// run backs up with an open store.
func (f *flags) run(cmd *cobra.Command, c backupagent.Config, out *cli.Output) error {
	ctx := cmd.Context()
	reported := io.Discard // what goes on by itself has a log
	if f.once {
		reported = cmd.ErrOrStderr()
	}
	s, err := f.open(ctx, reported)
	if err != nil {
		return err
	}
	c.Store = s
	if f.once {
		err = f.runOnce(cmd, c, out)
	} else {
		err = f.runOn(ctx, c)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if closing := s.Close(ctx); err == nil {
		err = closing
	}
	return err
}

func (f *flags) runOnce(cmd *cobra.Command, c backupagent.Config, out *cli.Output) error {
	report, finish := progress.Watched(cmd.ErrOrStderr(), "snapshot",
		"the backup does not go on, for want of etcd or of the store", "the backup does not go on, for want of the store")
	c.Progress = report
	o, err := backupagent.New(c).Once(cmd.Context(), f.ifDue)
	finish()
	if err != nil {
		return err
	}
	return out.Print(cmd.OutOrStdout(), o, func(w io.Writer) error {
		if o.Backup.Name == "" {
			_, err := fmt.Fprintf(w, "no backup: %s\n", cli.Plain(o.Skipped))
			return err
		}
		return cli.Rows(w, []string{"BACKUP", o.Backup.Name}, []string{"STORE", shown(f.backupStore)}, []string{
			"SIZE", render.Bytes(o.Backup.Size),
		})
	})
}

// runOn backs up on schedule until ctx ends.
func (f *flags) runOn(ctx context.Context, c backupagent.Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var l net.Listener
	if f.listenMetrics != "" {
		var err error
		if l, err = new(net.ListenConfig).Listen(ctx, "tcp", f.listenMetrics); err != nil {
			return cli.Usagef("--listen-metrics: %v", err)
		}
	}
	a := backupagent.New(c)
	served := make(chan error, 1)
	if l == nil {
		served <- nil
	} else {
		c.Log.Info("serving /metrics and /healthz", "address", l.Addr().String())
		go func() {
			err := a.Serve(ctx, l)
			cancel() // without its metrics nobody would see that it fails
			served <- err
		}()
	}
	c.Log.Info("backing up", slog.String("cluster", c.ClusterName), slog.String("store", shown(f.backupStore)),
		slog.Any("endpoints", c.Endpoints), slog.String("agent", c.Name))
	a.Run(ctx)
	cancel()
	return <-served
}
