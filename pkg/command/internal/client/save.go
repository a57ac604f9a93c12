package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/internal/backupflags"
	"github.com/etcdadm/etcdadm/pkg/command/internal/backupsource"
	"github.com/etcdadm/etcdadm/pkg/command/internal/progress"
	"github.com/etcdadm/etcdadm/pkg/command/internal/storewait"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
	"github.com/etcdadm/etcdadm/pkg/store"
)

func newSave() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "save FILE|STORE-URL",
		Short: "save a snapshot to a file, or as a backup in a store",
		Long: `save reads the database of the first endpoint that answers, checks it by etcd's own digest, and writes it to a
file of mode 0600, as "etcdctl snapshot save" does. A target with :// in it is a backup store: the snapshot
becomes a backup there, in the same format as etcd-manager's; it can be encrypted and signed on the way.`,
		Example: "  etcdadm snapshot save /var/backups/etcd.db\n  etcdadm snapshot save " +
			"file:///mnt/etcd-store/backups/etcd/main\n" +
			"  etcdadm snapshot save s3://bucket/etcd/main --compression=zstd --encrypt-to=age1... " +
			"--sign-key=/etc/etcd/backup-signing.pem --cluster-name=main",
		Args: cobra.ExactArgs(1),
	}
	s := save{tool: newTool(cmd)}
	cmd.Flags().BoolVar(&s.force, "force", false, "replace a file that is there")
	s.backup = backupflags.Add(cmd.Flags())
	cli.Sections(cmd, cli.FlagSection{Title: "A backup in a store", Common: backupflags.Names})
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return s.run(cmd.Context(), args[0]) }
	return cmd
}

type save struct {
	*tool
	force  bool
	backup *backupflags.Flags
}

// options are those of a backup, without what it is of.
func (s *save) options(target string) (backup.TakeOptions, error) {
	if !backupsource.IsStore(target) {
		for _, name := range backupflags.Names {
			if s.cmd.Flags().Changed(name) {
				return backup.TakeOptions{}, &cli.UsageError{
					Text: "--" + name + " needs a backup store as target",
					Next: "a file of \"snapshot save\" is what etcdctl writes; name a store: file:///DIRECTORY",
				}
			}
		}
	}
	return s.backup.Options()
}

func (s *save) run(ctx context.Context, target string) error {
	options, err := s.options(target)
	if err != nil {
		return err
	}
	endpoints, err := s.access.Reach(ctx)
	if err != nil {
		return err
	}
	// Of one member, so that it is one state.
	c, err := s.access.At(endpoints[0])
	if err != nil {
		return err
	}
	// Nothing is written over it.
	defer c.Close()
	limited, cancel := s.access.Limit(ctx)
	answered := s.access.Asked(endpoints[0])
	r, err := c.Report(limited)
	answered()
	cancel()
	if err != nil {
		return s.access.Explain(ctx, err)
	}
	if fault := r.Unfit(nil); fault != "" {
		s.access.Warn("%s %s; the snapshot has its data", endpoints[0], strings.TrimPrefix(fault, "it "))
	}
	hangs := fmt.Sprintf("etcd at %s sends nothing; it is waited for %s at most (--timeout)", endpoints[0], s.access.Timeout)
	if backupsource.IsStore(target) {
		hangs = fmt.Sprintf("the backup does not go on, for want of etcd at %s or of the store", endpoints[0])
		report, finish := progress.Watched(s.cmd.ErrOrStderr(), "backup", hangs,
			"the backup does not go on, for want of the store")
		defer finish()
		options.Progress = func(n int64) { report(n, r.DBSize) }
		return s.toStore(ctx, c, r, target, options, finish)
	}
	return s.toFile(ctx, c, r, target, hangs)
}

// A saved snapshot is the result of "snapshot save" to a file.
type saved struct {
	File string `json:"file"`
	// Member is the one whose database it is.
	Member  cluster.MemberID `json:"member"`
	Seconds float64          `json:"seconds"`
	snapshot.Status
}

func (s *save) toFile(ctx context.Context, c *etcdclient.Client, r cluster.Report, path, hangs string) error {
	if err := room(filepath.Dir(path), r.DBSize); err != nil {
		return err
	}
	report, finish := progress.Watched(s.cmd.ErrOrStderr(), "snapshot", hangs,
		"writing the snapshot to the disk")
	read := int64(0)
	began := time.Now()
	_, err := snapshot.Save(ctx, snapshot.SaveOptions{
		Source: c, Path: path, Force: s.force, Stall: s.access.Timeout,
		Progress: func(n int) {
			read += int64(n)
			report(read, r.DBSize)
		},
	})
	finish()
	var exists *snapshot.ExistsError
	switch {
	case errors.As(err, &exists):
		return &cli.RefusedError{Text: err.Error(), Next: "choose another name, or replace it with --force"}
	case errors.Is(err, syscall.ENOSPC):
		return cli.WithHint(err, "make room, or save to another disk; the partial file is removed")
	case errors.As(err, new(*os.PathError)), errors.Is(err, snapshot.ErrBusy):
		return cli.WithHint(err, "name a file in an existing directory that can be written")
	case err != nil:
		return s.access.Explain(ctx, err)
	}
	result := saved{File: path, Member: r.ID, Seconds: time.Since(began).Seconds()}
	// What is on the disk is what counts.
	on, err := snapshot.Read(ctx, path)
	if err != nil {
		return err
	}
	result.Status = on.Served()
	return s.print("SavedSnapshot", result, rows(
		append([][]string{{"FILE", path}, {"MEMBER", r.ID.String()}}, statusRows(result.Status)...)...))
}

// room reports whether there is space for size bytes below dir.
func room(dir string, size int64) error {
	free, err := hostfs.FreeBytes(dir)
	if err != nil {
		// Whatever is wrong there shows when it is used.
		return nil //nolint:nilerr
	}
	if free < size {
		return cli.WithHint(fmt.Errorf("%s has %s free, but %s are needed: %w", dir, render.Bytes(free), render.Bytes(size),
			syscall.ENOSPC),
			"make room there, or use another disk")
	}
	return nil
}

// A stored backup is the result of "snapshot save" to a store.
type stored struct {
	Store string `json:"store"`
	cluster.Backup
	EtcdVersion string           `json:"etcdVersion"`
	Member      cluster.MemberID `json:"member"`
	// Revision is the member's before it was read: the backup has it at least.
	Revision cluster.Revision `json:"revision"`
	Signer   string           `json:"signer,omitempty"`
	Seconds  float64          `json:"seconds"`
}

func (s *save) toStore(ctx context.Context, c *etcdclient.Client, r cluster.Report, location string,
	o backup.TakeOptions, finish func()) error {
	began := time.Now()
	o.Source, o.Stall = c, s.access.Timeout
	o.Info = backup.Info{EtcdVersion: r.Version, SpecVersion: r.Version}
	o.Facts = backup.Facts{
		StorageVersion: r.Storage, Revision: r.Revision, RaftTerm: r.RaftTerm, RaftIndex: r.Applied,
		Cluster: s.backup.Cluster, ClusterID: r.ClusterID, MemberID: r.ID,
	}
	for _, m := range r.Members {
		if !m.Learner {
			o.Info.MemberCount++
		}
		if m.ID == r.ID {
			o.Facts.MemberName = m.Name
		}
	}
	var b cluster.Backup
	err := withStore(ctx, location, s.cmd.ErrOrStderr(), func(st *store.Store) (err error) {
		o.Store = st
		if b, err = backup.Take(ctx, o); err != nil {
			return err
		}
		// A restore begins above what the store knows of. Some stores only take
		// backups, which is no failure of this one.
		if err := st.PutRevision(ctx, r.Revision, began); err != nil {
			s.access.Warn("revision %d could not be recorded in the store: %v", r.Revision, err)
		}
		return nil
	})
	finish()
	if err != nil {
		return s.access.Explain(ctx, err)
	}
	result := stored{Store: location, Backup: b, EtcdVersion: r.Version.String(), Member: r.ID, Revision: r.Revision,
		Seconds: time.Since(began).Seconds()}
	table := [][]string{
		{"STORE", location}, {"BACKUP", b.Name}, {"MEMBER", r.ID.String()}, {"ETCD", result.EtcdVersion},
		{"REVISION", fmt.Sprint(r.Revision)}, {"SIZE", render.Bytes(b.Size)},
	}
	if b.Encrypted {
		table = append(table, []string{"ENCRYPTED", fmt.Sprintf("for %d recipients", len(o.Recipients))})
	}
	if o.Signer != nil {
		result.Signer = o.Signer.ID()
		table = append(table, []string{"SIGNED", "with key " + result.Signer})
	}
	return s.print("SavedBackup", result, rows(table...))
}

// withStore opens a store for f; w is written to where it does not answer for long.
func withStore(ctx context.Context, location string, w io.Writer, f func(*store.Store) error) error {
	st, err := storewait.Open(ctx, location, 0, w)
	if err != nil {
		return cli.Usagef("%v", err)
	}
	err = f(st)
	// Also where ctx has ended: what is left to do is little.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if closing := st.Close(ctx); err == nil {
		err = closing
	}
	return err
}
