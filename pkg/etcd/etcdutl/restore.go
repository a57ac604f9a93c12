package etcdutl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
)

// RestoreOptions say what [Tool.Restore] makes.
type RestoreOptions struct {
	// Snapshot is the file.
	Snapshot string
	// Consume deletes the file as soon as the tool has read it, so that what of it is not
	// on the disk yet never gets there.
	Consume bool
	// SkipHashCheck takes a database that was copied from a data directory and has
	// no digest. One that is there is not checked either.
	SkipHashCheck bool
	// DataDir is the data directory to make. It must be missing or empty.
	DataDir string

	// Name is the member's, PeerURLs are what it advertises.
	Name     cluster.NodeName
	PeerURLs []string
	// InitialCluster are all members, as "a=https://10.0.0.1:2380,b=...", empty
	// for this one alone. Each is to restore the same file with the same one.
	InitialCluster string
	// Token makes the ids of the members and of the cluster, empty for etcd's
	// default. Two clusters of one token and the same members are taken for one.
	Token string

	// BumpRevision is by how much the revision is raised, so that clients who have
	// seen later ones than the snapshot's do not miss changes; zero is not at all.
	// All before is then marked as compacted.
	BumpRevision uint64
}

// A NotEmptyError says that there is something in the data directory.
type NotEmptyError struct {
	Dir string
	// Entry is one of the things in it.
	Entry string
}

func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("the data directory %s is not empty: it has %s", e.Dir, e.Entry)
}

// Hint says what to do about it.
func (e *NotEmptyError) Hint() string {
	return "a restore never replaces data: move it away first, or restore into another directory"
}

// tempName is behind the name of a new data directory, or inside of one that
// is there, while it is not complete.
const tempName = ".restore"

// Free reports why there can be no restore into a data directory: a
// [*NotEmptyError], or that it is not a directory. What a restore left that
// was killed, the directory lost+found of a new disk, and what etcdadm keeps
// in a data directory beside the member do not count.
func Free(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	for _, e := range entries {
		if !aside(e.Name()) {
			return &NotEmptyError{dir, e.Name()}
		}
	}
	return nil
}

// aside says whether a name in a data directory is not etcd's.
func aside(name string) bool {
	return name == tempName || name == "lost+found" || name == ".etcdadm" || strings.HasPrefix(name, "set-aside-")
}

// Restore makes a data directory of a snapshot. It works in a directory beside
// the data directory, or in it where it exists, and moves the result to its
// place when that is complete and on the disk. It belongs to the owner of a
// directory that exists. So after a crash there is a whole
// member or none, and Restore can be called again. Two calls for one data
// directory must not run at the same time.
func (t Tool) Restore(ctx context.Context, o RestoreOptions) error {
	if err := t.restore(ctx, o); err != nil {
		return fmt.Errorf("restore snapshot %s into %s: %w", o.Snapshot, o.DataDir, err)
	}
	return nil
}

func (t Tool) restore(ctx context.Context, o RestoreOptions) error {
	o.DataDir = filepath.Clean(o.DataDir)
	if o.BumpRevision > 0 && !t.Bumps {
		return fmt.Errorf("%s: %w", t.Path, errNoBump)
	}
	if err := Free(o.DataDir); err != nil {
		return err
	}
	temp, made, target, owner := o.DataDir+tempName, "", o.DataDir, os.FileInfo(nil)
	if st, err := os.Stat(o.DataDir); err == nil {
		// The directory stays: it may be a mount point, and has an owner.
		temp, made, target, owner = filepath.Join(o.DataDir, tempName), datadir.MemberName, datadir.At(o.DataDir).Member(), st
	}
	// A restore that was killed left it.
	if err := os.RemoveAll(temp); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(temp), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(temp, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	data := filepath.Join(temp, "data")
	if err := t.make(ctx, o, data); err != nil {
		return err
	}
	if err := finish(data, owner); err != nil {
		return err
	}
	// Over an empty directory, if somebody made it meanwhile; over no other.
	if err := os.Rename(filepath.Join(data, made), target); err != nil {
		return err
	}
	return syncPath(filepath.Dir(target))
}

// make has the tool make a data directory.
func (t Tool) make(ctx context.Context, o RestoreOptions, data string) error {
	started, end := func(int) {}, func() {}
	if o.Consume {
		end = func() { _ = os.Remove(o.Snapshot) }
		started = func(pid int) { end = deleteWhenRead(o.Snapshot, pid) }
	}
	_, err := t.runWith(ctx, started, o.args(data)...)
	end()
	return err
}

// args is the command line that makes the data directory.
func (o RestoreOptions) args(data string) []string {
	all := o.InitialCluster
	if all == "" {
		var own []string
		for _, u := range o.PeerURLs {
			own = append(own, string(o.Name)+"="+u)
		}
		all = strings.Join(own, ",")
	}
	args := []string{
		"snapshot", "restore", o.Snapshot, "--data-dir=" + data, "--name=" + string(o.Name),
		"--initial-advertise-peer-urls=" + strings.Join(o.PeerURLs, ","), "--initial-cluster=" + all,
	}
	if o.Token != "" {
		args = append(args, "--initial-cluster-token="+o.Token)
	}
	if o.SkipHashCheck {
		args = append(args, "--skip-hash-check")
	}
	if o.BumpRevision > 0 {
		args = append(args, "--bump-revision="+strconv.FormatUint(o.BumpRevision, 10), "--mark-compacted")
	}
	return args
}

// finish gives all files and directories in dir and below to the owner of
// like, unless that is nil, and puts them on the disk.
func finish(dir string, like os.FileInfo) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if like != nil {
			owner, ok := like.Sys().(*syscall.Stat_t)
			if ok && int(owner.Uid) != os.Geteuid() {
				if err := os.Lchown(path, int(owner.Uid), int(owner.Gid)); err != nil {
					return err
				}
			}
		}
		return syncPath(path)
	})
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
