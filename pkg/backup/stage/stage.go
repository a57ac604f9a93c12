// Package stage makes etcd data directories of backups in a store: on every
// node that is to be a member, at the same time, beside what runs there.
package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdutl"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/isolate"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
	"github.com/etcdadm/etcdadm/pkg/node/apply"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// A Stager restores backups of one store.
type Stager struct {
	Store backup.Objects
	// Fetch says which keys decrypt a backup and whose signatures count.
	Fetch backup.FetchOptions
	// Machine distinguishes this machine from others, by default backup.Machine.
	Machine func() string
}

// peeking reads what a snapshot is, in a process of its own: whoever wrote it may mean harm.
var peeking = isolate.Define("peek-at-snapshot",
	isolate.Options{Fault: snapshot.ErrDamaged, Errors: []error{snapshot.ErrDamaged}, Memory: isolate.PerByte(1)},
	func(_ context.Context, path string, _ func(done, total int64)) (snapshot.Status, error) {
		return snapshot.Peek(path)
	})

func peek(ctx context.Context, path string) (snapshot.Status, error) {
	in := isolate.Input[string]{Value: path}
	if st, err := os.Stat(path); err == nil {
		in.Size = st.Size()
	}
	return peeking.Call(ctx, in)
}

// snapshotName is the file that a snapshot is fetched to. It is deleted as soon
// as there is a data directory of it.
const snapshotName = "snapshot.db"

// reserve is what a restore leaves free: the write-ahead logs of a member that
// runs on the same disk, and of the one that is made, begin with 64 MiB each, and
// the database of the former may grow.
const reserve = 256 << 20

// Restore makes a data directory of a backup. It begins again each time: what is
// left of an earlier try is not trusted.
func (s Stager) Restore(ctx context.Context, o apply.RestoreOptions) error {
	tool, err := etcdutl.Find(ctx, o.Bin.Dir, o.Staged.Version)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(o.Dir); err != nil {
		return err
	}
	if err := hostfs.MakeDir(o.Dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(o.Dir, snapshotName)
	if err := s.fetch(ctx, path, o); err != nil {
		s.remember(ctx, o, err)
		return refuse(err)
	}
	st, err := peek(ctx, path)
	if err != nil {
		s.remember(ctx, o, err)
		return refuse(err)
	}
	if st.Revision >= o.Staged.Revision {
		return &apply.RefusedError{
			Err: fmt.Errorf("the backup has revision %d, but the cluster was to begin with %d: request the restore again",
				st.Revision, o.Staged.Revision),
		}
	}
	if v, w := o.Staged.Version, st.StorageVersion; !w.IsZero() && !cluster.Reads(v, w) {
		return &apply.RefusedError{
			Err: fmt.Errorf("the snapshot is of etcd %d.%d, which etcd %s cannot read", w.Major, w.Minor, v),
		}
	}
	var all []string
	for _, v := range o.Staged.Voters {
		for _, u := range v.PeerURLs {
			all = append(all, string(v.Name)+"="+u)
		}
	}
	if _, err := space(o.Dir, st.Size); err != nil {
		return err
	}
	how := etcdutl.RestoreOptions{
		Snapshot: path, DataDir: o.DataDir, Name: o.Name, PeerURLs: o.PeerURLs, InitialCluster: strings.Join(all, ","),
		Token: string(o.Staged.Token), BumpRevision: uint64(o.Staged.Revision - st.Revision),
		// fetch has checked the digest of what it wrote. To read all of it once more
		// would ask the page cache, not the disk.
		SkipHashCheck: true,
	}
	if !tool.Bumps {
		if err := raise(ctx, o, &how); err != nil {
			return err
		}
	}
	how.Consume = true
	if err := tool.Restore(ctx, how); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(path), os.RemoveAll(filepath.Join(o.Dir, raisedName)))
}

// raisedName is the data directory in which a revision is raised.
const raisedName = "raised"

// raise has the tool of a later version raise the revision, in a data directory that is
// for nothing else, where the own tool of the version to run cannot. The database of that
// takes the place of the snapshot.
func raise(ctx context.Context, o apply.RestoreOptions, how *etcdutl.RestoreOptions) error {
	if o.Raiser.Dir == "" {
		return fmt.Errorf("the tool of etcd %s cannot raise the revision, and there is no %s or later patch of 3.5 here "+
			"that can", o.Staged.Version, cluster.FirstRaise)
	}
	tool, err := etcdutl.Find(ctx, o.Raiser.Dir, o.Raiser.Version)
	if err != nil {
		return err
	}
	raised := *how
	raised.DataDir = filepath.Join(o.Dir, raisedName)
	if err := tool.Restore(ctx, raised); err != nil {
		return err
	}
	how.Snapshot, how.BumpRevision = datadir.At(raised.DataDir).Database(), 0
	return os.Truncate(raised.Snapshot, 0) // its space is needed again
}

// fetch writes the checked snapshot to a file.
func (s Stager) fetch(ctx context.Context, path string, o apply.RestoreOptions) error {
	d, err := backup.Describe(ctx, s.Store, o.Staged.Backup)
	if err != nil {
		return err
	}
	size := d.Content.Size
	free, err := space(o.Dir, 2*size)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	opts := s.Fetch
	// Whatever is said of how large it is: it must not fill the disk of a member that
	// runs.
	opts.MaxBytes = free / 2
	if o.Progress != nil {
		opts.Progress = func(n int64) { o.Progress(n, size) }
	}
	_, err = backup.Fetch(ctx, s.Store, o.Staged.Backup, f, opts)
	return errors.Join(err, f.Close())
}

// remember records beside a backup that this machine found it to be damaged. A store that
// does not let it be recorded takes nothing back.
func (s Stager) remember(ctx context.Context, o apply.RestoreOptions, found error) {
	if target, ok := s.Store.(backup.FindingStore); ok && errors.Is(found, backup.ErrDamaged) {
		machine := s.Machine
		if machine == nil {
			machine = backup.Machine
		}
		_ = backup.ReportDamage(ctx, target, backup.Finding{
			Name: o.Staged.Backup, At: time.Now().UTC(), By: string(o.Name), Machine: machine(), Error: found.Error(),
		})
	}
}

// space makes sure that a directory's disk has room for some bytes, besides what
// a member that runs on it needs in the meantime. It returns how many there may
// be.
func space(dir string, need int64) (int64, error) {
	free, err := hostfs.FreeBytes(dir)
	if err != nil {
		return 0, err
	}
	if free -= reserve; free < need || free <= 0 {
		return 0, fmt.Errorf("%s has %d MiB to spare, the restore needs %d MiB", dir, max(0, free)>>20, need>>20)
	}
	return free, nil
}

// refuse marks an error that no further try can fix.
func refuse(err error) error {
	for _, final := range []error{backup.ErrDamaged, backup.ErrKey, backup.ErrSigner, backup.ErrFormat, store.ErrAbsent} {
		if errors.Is(err, final) {
			return &apply.RefusedError{Err: err}
		}
	}
	return err
}

var _ apply.Restorer = Stager{}
