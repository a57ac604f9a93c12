package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/backupsource"
	"github.com/etcdadm/etcdadm/pkg/command/internal/progress"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// A source is where a snapshot to restore comes from.
type source struct{ backupsource.Source }

// parseSource distinguishes what somebody typed: a file with a snapshot or a database, the data of
// a backup, the directory of a backup or of etcd's data, or STORE-URL/NAME.
func parseSource(text string) (source, error) {
	s, err := backupsource.Parse(text, backupsource.Options{DataDirs: true})
	return source{s}, err
}

// completeSource completes files, and the name of a backup after the location of its store.
func completeSource(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	names := func(ctx context.Context, _ *cobra.Command) (list []string, err error) {
		location, _, ok := store.SplitBackupURL(begun + "x") // the name may have yet to begin
		if !ok || strings.Contains(begun, "?") {
			return nil, nil
		}
		err = withStore(ctx, location, io.Discard, func(st *store.Store) error {
			all, err := st.Backups(ctx)
			for _, b := range all {
				list = append(list, location+"/"+b.Name)
			}
			return err
		})
		return list, err
	}
	return cli.Complete(1, !backupsource.IsStore(begun), names)(cmd, args, begun)
}

// A known is what is known of a source before it is read.
type known struct {
	// Description is what a backup says of itself, zero where there is none.
	backup.Description
	// highest is the highest revision that the store knows of.
	highest highest
}

// observe reads what is known of a backup in a store, and checks its signature.
func (s source) observe(ctx context.Context, reported io.Writer, o backup.FetchOptions) (k known, err error) {
	k.Keys = -1
	if !s.InStore() {
		if o.NeedsSignature() {
			return k, &cli.RefusedError{
				Text: s.String() + " has no signature: only a backup in a store can have one",
				Next: "restore it from its store, STORE-URL/NAME, or from the directory with all its files",
			}
		}
		return k, nil
	}
	err = withStore(ctx, s.Location, reported, func(st *store.Store) error {
		k.Description, err = backup.Inspect(ctx, st, s.Name, o)
		if errors.Is(err, store.ErrAbsent) {
			return cli.WithHint(fmt.Errorf("the store %s has no backup %s", store.Shown(s.Location), s.Name),
				cli.Ctl(s.Location, "list-backups"))
		}
		if err != nil {
			return explained(err)
		}
		k.highest = highestOf(ctx, st)
		return nil
	})
	return k, err
}

// fetch makes a file of the snapshot in dir, uncompressed, decrypted and checked,
// unless it is one. The caller calls remove in any case.
func (s source) fetch(ctx context.Context, t *tool, dir string, o backup.FetchOptions, total int64) (
	file string, remove func(), err error) {
	if s.File != "" && !s.Packed {
		return s.File, func() {}, nil
	}
	f, err := newScratch(dir)
	if err != nil {
		return "", func() {}, err
	}
	report, finish := progress.Bar(t.cmd.ErrOrStderr(), "fetch")
	if total == 0 {
		total = -1
	}
	o.Progress = func(n int64) { report(n, total) }
	err = s.copy(ctx, f, t.cmd.ErrOrStderr(), o)
	finish()
	if err != nil {
		f.remove()
		return "", func() {}, fmt.Errorf("fetch %s: %w", s, explained(err))
	}
	return f.Name(), f.remove, nil
}

func (s source) copy(ctx context.Context, w, reported io.Writer, o backup.FetchOptions) error {
	if s.InStore() {
		return withStore(ctx, s.Location, reported, func(st *store.Store) error {
			_, err := backup.Fetch(ctx, st, s.Name, w, o)
			return err
		})
	}
	_, err := backup.ExtractFile(s.File, w, o)
	return err
}

// explained gives the errors of backups their hints.
func explained(err error) error {
	switch {
	case errors.Is(err, backup.ErrKey):
		return &cli.RefusedError{Text: err.Error(), Next: "name the file with the secret key: --decrypt-key"}
	case errors.Is(err, backup.ErrSigner):
		return &cli.RefusedError{Text: err.Error(), Next: "is the signer's public key in --trusted-signers?"}
	case errors.Is(err, backup.ErrFormat):
		return cli.WithHint(err, "use a later release of etcdadm")
	case errors.Is(err, backup.ErrDamaged):
		return damaged(err)
	}
	return err
}

// read reads a snapshot file, which must be whole unless asked otherwise.
func read(ctx context.Context, file string, skipHashCheck bool) (snapshot.Status, error) {
	s, err := snapshot.Read(ctx, file)
	switch {
	case err != nil:
		return s, damaged(err)
	case !s.Digest && !skipHashCheck:
		return s, &cli.RefusedError{
			Text: file + " has no digest: it is a copied database that cannot be verified",
			Next: "restore a file of \"snapshot save\", or accept this one with --skip-hash-check",
		}
	}
	return s, nil
}
