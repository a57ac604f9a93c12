package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/backup/drill"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/backupsource"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/store"
)

const drillLong = `Try to restore a backup: fetch and verify it, restore it with etcd's own tool into a
temporary directory, start a real etcd on that, and compare the revision, number of
keys and hash that it serves with those of the file. Everything is removed
afterwards.

The etcd is of the backup's version if that is on this machine, or else the latest
patch of its minor version, or of the next one. It listens on unix sockets in the
temporary directory only, runs at the lowest priority, and touches no member. The
command prints how long a restore would take. The result is recorded in the store
beside the backup, where list-backups -o wide shows it.

It needs room for two snapshots in --temp-dir, and as much memory as an etcd with
this data.`

type drillCommand struct {
	*reader
	latest  bool
	version etcdversion.Version
	out     *cli.Output
}

// newDrill returns the command drill.
func newDrill(o Options) *cobra.Command {
	d := &drillCommand{reader: newReader(o)}
	cmd := &cobra.Command{
		Use: "drill [NAME|FILE|--latest]", Short: "restore a backup as a trial", Long: drillLong,
		Example: "  drill --latest\n  drill 2026-11-20T10:39:37Z-000001 --etcd-dir=/opt/etcd --temp-dir=/var/tmp",
		Args:    cobra.MaximumNArgs(1), RunE: d.run, ValidArgsFunction: cli.Complete(1, true, o.names),
	}
	f := cmd.Flags()
	f.BoolVar(&d.latest, "latest", false, "the newest backup in the store")
	f.TextVar(&d.version, "version", etcdversion.Version{},
		"etcd `version` of the backup (default: that of its description)")
	d.addFlags(f)
	d.addEtcdFlags(f)
	d.out = cli.AddOutput(cmd, cli.Table, cli.JSON, cli.YAML)
	return cmd
}

func (d *drillCommand) run(cmd *cobra.Command, args []string) error {
	if d.latest == (len(args) == 1) {
		return &cli.UsageError{Text: "name one backup, or give --latest",
			Next: "see the names: etcd-manager-ctl list-backups"}
	}
	err := d.prepare()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	var from backupsource.Source
	if d.latest {
		from, err = d.newest(ctx)
	} else {
		from, err = parseSource(args[0])
	}
	if err != nil {
		return err
	}
	p := newStages(cmd)
	o := d.drillOptions(cmd, p)
	o.Version = d.version
	result, err := d.perform(ctx, from, o)
	p.end()
	if err != nil {
		return explained(err)
	}
	return d.out.Print(cmd.OutOrStdout(), result, func(w io.Writer) error { return writeDrilled(w, result) })
}

func (d *drillCommand) perform(ctx context.Context, from backupsource.Source,
	o drill.Options) (result drill.Drilled, err error) {
	if from.File != "" {
		return d.file(ctx, from, o)
	}
	err = d.with(ctx, from.Location, func(objects *store.Store) (err error) {
		result, err = drill.Drill(ctx, objects, from.Name, o)
		return err
	})
	return result, err
}

// file drills a file. There is no place for a record.
func (d *drillCommand) file(ctx context.Context, from backupsource.Source,
	o drill.Options) (result drill.Drilled, err error) {
	s, err := d.fetchSource(ctx, from, o)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r, err := drill.Trial{
		File: s.path, Version: o.Version, Finder: o.Finder, TempDir: o.TempDir,
		Progress: func(stage string) { o.Progress(stage, 0, -1) },
	}.Run(ctx)
	result = r.Drilled()
	result.Name, result.At, result.By, result.Tool = from.File, d.Now().UTC(), o.By, o.Tool
	return result, err
}

func writeDrilled(w io.Writer, r drill.Drilled) error {
	span := func(t drill.Took) string { return time.Duration(t).Round(time.Millisecond).String() }
	hash := "compared, and the same"
	if !r.HashCompared {
		hash = "not compared"
	}
	if _, err := fmt.Fprintf(w, "%s can be restored; a restore would take %s\n", cli.Plain(r.Name),
		span(r.Took)); err != nil {
		return err
	}
	return cli.Rows(w,
		[]string{"  etcd", r.Version.String()},
		[]string{"  fetch, restore, start", span(r.Fetch) + ", " + span(r.Restore) + ", " + span(r.Start)},
		[]string{"  revision", fmt.Sprint(r.Revision)},
		[]string{"  keys", fmt.Sprint(r.Keys)},
		[]string{"  hash of all keys", hash},
		[]string{"  size of the snapshot", render.Bytes(r.Size)},
		[]string{"  disk and memory of etcd", render.Bytes(r.Disk) + ", " + render.Bytes(r.Memory)},
	)
}
