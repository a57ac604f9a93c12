package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/backup/drill"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/internal/backupsource"
	"github.com/etcdadm/etcdadm/pkg/command/internal/progress"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/keyspace"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// parseSource distinguishes what somebody typed: STORE-URL/NAME, the path of a file or
// of a backup's directory, or the NAME of a backup in the program's store.
func parseSource(text string) (backupsource.Source, error) {
	return backupsource.Parse(text, backupsource.Options{Names: true})
}

// newest names the newest backup of the program's store that counts: one of a
// trusted signer, where signers are trusted.
func (r *reader) newest(ctx context.Context) (s backupsource.Source, err error) {
	err = r.with(ctx, "", func(objects *store.Store) error {
		all, err := objects.Backups(ctx)
		if err != nil {
			return fmt.Errorf("list backups: %w", err)
		}
		if len(all) == 0 {
			return errors.New("there is no backup in the store")
		}
		if r.fetch.NeedsSignature() {
			good, bad, err := (&backup.Vetter{Store: objects, Fetch: r.fetch}).Vet(ctx, all)
			if err != nil {
				return fmt.Errorf("list backups: %w", err)
			}
			if len(good) == 0 {
				return refused{fmt.Errorf("no backup in the store counts: %s: %s", bad[0].Name, bad[0].Why)}
			}
			all = good
		}
		s.Name = all[0].Name
		return r.ours(ctx, objects, s.Name)
	})
	return s, err
}

// ours reports why the newest backup is not of the cluster that was named. A backup that
// does not say is taken: most of the existing tool's do not.
func (r *reader) ours(ctx context.Context, objects *store.Store, name string) error {
	if r.cluster == "" {
		return nil
	}
	d, err := backup.Describe(ctx, objects, name)
	if err != nil || d.Cluster == "" || d.Cluster == r.cluster {
		return err
	}
	return cli.WithHint(refused{
		fmt.Errorf("the newest backup, %s, belongs to the cluster %q, not to %q", name, d.Cluster, r.cluster),
	},
		"a store holds the backups of one cluster; name the backup that you mean")
}

// stages prints what is being done to a terminal.
type stages struct {
	cmd    *cobra.Command
	now    string
	bar    func(done, total int64)
	finish func()
}

func newStages(cmd *cobra.Command) *stages { return &stages{cmd: cmd, finish: func() {}} }

func (p *stages) report(stage string, done, total int64) {
	if stage != p.now {
		p.end()
		p.now = stage
		p.bar, p.finish = progress.Bar(p.cmd.ErrOrStderr(), stage)
	}
	p.bar(done, total)
}

func (p *stages) end() {
	p.finish()
	p.now, p.finish = "", func() {}
}

// A snap is an open snapshot, which may have been fetched.
type snap struct {
	*keyspace.Space
	path string
	// version is the etcd that it is of, zero if that is not known.
	version etcdversion.Version
	scratch *drill.Scratch
}

// Close closes the file, and removes it where it was fetched.
func (s *snap) Close() error {
	var err error
	if s.Space != nil {
		err = s.Space.Close()
	}
	if s.scratch != nil {
		err = errors.Join(err, s.scratch.Remove())
	}
	return err
}

// fetchSource makes a file of what was named; a file that is a snapshot already
// stays where it is.
func (r *reader) fetchSource(ctx context.Context, from backupsource.Source, o drill.Options) (*snap, error) {
	if from.File != "" {
		return r.unpack(ctx, from, o)
	}
	s := &snap{}
	err := r.with(ctx, from.Location, func(objects *store.Store) error {
		f, err := drill.Fetch(ctx, objects, from.Name, o)
		if err != nil {
			return err
		}
		s.path, s.scratch, s.version = f.Path, f.Scratch, f.Description.EtcdVersion
		return nil
	})
	return s, err
}

// unpack makes a snapshot of the data of a backup in a file of its own.
func (r *reader) unpack(ctx context.Context, from backupsource.Source, o drill.Options) (*snap, error) {
	if !from.Packed {
		if r.signature {
			return nil, fmt.Errorf("%s: %w: a single file has no signature", from.File, backup.ErrSigner)
		}
		return &snap{path: from.File}, nil
	}
	scratch, err := drill.NewScratch(r.tempDir, 0)
	if err != nil {
		return nil, err
	}
	s := &snap{path: scratch.Join("snapshot.db"), scratch: scratch}
	out, err := os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		fetch := o.Fetch
		fetch.Progress = func(n int64) { o.Progress("uncompress", n, -1) }
		_, err = backup.ExtractFile(from.File, contextWriter{ctx, out}, fetch)
		err = errors.Join(err, out.Close())
	}
	if err != nil {
		return nil, errors.Join(err, scratch.Remove())
	}
	return s, nil
}

// A contextWriter ends with its context.
type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

func (w contextWriter) Write(b []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.w.Write(b)
}

// open opens what was named, at a revision; zero is the newest.
func (r *reader) open(ctx context.Context, cmd *cobra.Command, text string, revision int64) (*snap, error) {
	if err := r.prepare(); err != nil {
		return nil, err
	}
	from, err := parseSource(text)
	if err != nil {
		return nil, err
	}
	return r.openSource(ctx, cmd, from, revision)
}

func (r *reader) openSource(ctx context.Context, cmd *cobra.Command, from backupsource.Source,
	revision int64) (*snap, error) {
	p := newStages(cmd)
	defer p.end()
	s, err := r.fetchSource(ctx, from, r.drillOptions(cmd, p))
	if err != nil {
		return nil, explained(err)
	}
	s.Space, err = keyspace.Open(ctx, s.path, keyspace.Options{
		Revision: cluster.Revision(revision), SkipDigest: s.scratch != nil,
		Progress: func(done, total int64) { p.report("read", done, total) },
	})
	if err != nil {
		return nil, errors.Join(explained(err), s.Close())
	}
	return s, nil
}
