package migrate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/internal/bytesize"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// A sourceFile is one that is copied, with its name in the copy.
type sourceFile struct{ path, name string }

// files lists what an etcd reads when it starts: the log, the raft snapshots and the
// database.
func (o Options) files() ([]sourceFile, error) {
	var list []sourceFile
	var made datadir.Dir // in which the log is at its usual place
	for _, from := range []struct{ dir, to string }{{o.Dir.Log(), made.Log()}, {o.Dir.Snap(), made.Snap()}} {
		entries, err := os.ReadDir(from.dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			name := e.Name()
			if e.Type().IsRegular() && (strings.HasSuffix(name, ".wal") || strings.HasSuffix(name, ".snap") || name == "db") {
				list = append(list, sourceFile{filepath.Join(from.dir, name), filepath.Join(from.to, name)})
			}
		}
	}
	return list, nil
}

// slack is what an etcd needs for its next log file, beside the copy.
const slack = 256 << 20

// room returns the bytes that are copied, and refuses where there is no space for them
// and for what is made of them.
func (o Options) room() (int64, error) {
	files, err := o.files()
	if err != nil {
		return 0, err
	}
	var size int64
	for _, f := range files {
		st, err := os.Stat(f.path)
		if err != nil {
			return 0, err
		}
		size += st.Size()
	}
	parent := filepath.Dir(o.Work)
	free, err := hostfs.FreeBytes(parent)
	if err != nil {
		return 0, refuse("name a new directory in an existing one: --work-dir=DIR/migrate", "%v", err)
	}
	if need := 3*size + slack; free < need {
		return 0, refuse("make room there, or name another place: --work-dir=DIR/migrate",
			"%s has %s free, but the copy and the result need %s", parent, bytesize.Format(free),
			bytesize.Format(need))
	}
	return size, nil
}

// copy copies the files while no etcd can start on them, and returns their digest.
func (o Options) copy(ctx context.Context, to string) (string, error) {
	files, err := o.files()
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	fmt.Fprintf(digest, "keep %q\n", o.Keep)
	var held []*os.File
	defer func() {
		for _, f := range held {
			_ = f.Close() // nothing was written
		}
	}()
	for _, file := range files {
		f, err := os.Open(file.path)
		if err != nil {
			return "", err
		}
		held = append(held, f)
		if err := hold(f); err != nil {
			return "", err
		}
	}
	// An etcd that finds a log wants both directories.
	for _, dir := range []string{datadir.At(to).Log(), datadir.At(to).Snap()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
	}
	for i, file := range files {
		if err := copyFile(ctx, held[i], filepath.Join(to, file.name), digest); err != nil {
			return "", fmt.Errorf("copy %s: %w", file.path, err)
		}
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

// hold takes readers' locks of a file, of both kinds that versions of etcd take.
func hold(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err == nil {
		lock := unix.Flock_t{Type: unix.F_RDLCK}
		err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock)
	}
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EACCES) {
		return refuse("stop that member, make sure that nothing starts it again, then run the same command",
			"an etcd uses this directory: it holds %s", f.Name())
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

func copyFile(ctx context.Context, from *os.File, to string, digest hash.Hash) error {
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	fmt.Fprintf(digest, "%q\n", filepath.Base(to))
	_, err = io.Copy(io.MultiWriter(f, digest), reader{ctx, from})
	return errors.Join(err, f.Close())
}

// A reader ends with its context.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(b []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}

// A work is the directory of the copy. The file in it says that it is one, and its lock
// that somebody works there.
type work struct {
	dir  string
	lock *hostfs.LockedFile
}

const workMark = "etcdadm-migrate"

// claimWork makes the directory, in place of one that a killed command left.
func claimWork(dir string) (*work, error) {
	mark := filepath.Join(dir, workMark)
	if exists(dir) && !exists(mark) {
		return nil, refuse("name a directory that does not exist yet: --work-dir=DIR/migrate",
			"%s exists, and was not made by this command", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := hostfs.Lock(mark)
	var locked *hostfs.LockedError
	if errors.As(err, &locked) {
		return nil, refuse("wait until it has ended", "another migration is using %s (process %d)", dir, locked.Holder)
	}
	if err != nil {
		return nil, err
	}
	w := &work{dir, lock}
	return w, w.clear()
}

// clear deletes all but the mark.
func (w *work) clear() error {
	entries, err := os.ReadDir(w.dir)
	for _, e := range entries {
		if e.Name() != workMark {
			err = errors.Join(err, os.RemoveAll(filepath.Join(w.dir, e.Name())))
		}
	}
	return err
}

func (w *work) remove() error {
	return errors.Join(w.clear(), os.RemoveAll(w.dir), w.lock.Unlock())
}
