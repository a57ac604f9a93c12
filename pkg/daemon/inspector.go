package daemon

import (
	"context"
	"log/slog"

	"github.com/etcdadm/etcdadm/pkg/backup/drill"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// An inspector verifies backups, and restores them for a trial, on this node.
type inspector struct {
	store *store.Store
	how   Backups
	by    string
	dirs  []string
	temp  string
	log   *slog.Logger
}

func (i inspector) options() drill.Options {
	return drill.Options{
		Fetch: i.how.Fetch, TempDir: i.temp, By: i.by, Tool: i.how.Tool, Finder: etcdbin.Finder{Dirs: i.dirs},
		Unrecorded: func(err error) { i.log.Warn("the result of a check of a backup cannot be recorded", "error", err) },
	}
}

// Verify reads a backup to its end.
func (i inspector) Verify(ctx context.Context, name string) error {
	_, err := drill.Verify(ctx, i.store, name, i.options())
	return err
}

// Drill restores a backup for a trial.
func (i inspector) Drill(ctx context.Context, name string) error {
	d, err := drill.Drill(ctx, i.store, name, i.options())
	if err == nil {
		i.log.Info("a backup was restored as a trial", "backup", name, "took", d.Took)
	}
	return err
}
