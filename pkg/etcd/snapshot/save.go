package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// A Source streams a snapshot. A Read of the stream must end when the stream
// is closed or the context ends.
type Source interface {
	Snapshot(ctx context.Context) (io.ReadCloser, error)
}

// SaveOptions say what [Save] writes, and where to.
type SaveOptions struct {
	Source Source
	// Path is the file. Its directory must exist.
	Path string
	// Force replaces a file that is there.
	Force bool
	// Stall is how long the stream may give nothing before it counts as broken;
	// zero is without limit.
	Stall time.Duration
	// Progress, if not nil, receives each piece by its length.
	Progress func(n int)
}

// An ExistsError says that there is a file already.
type ExistsError struct{ Path string }

func (e *ExistsError) Error() string { return e.Path + " exists" }

// ErrBusy is returned by [Save] while another process saves to the same path.
var ErrBusy = errors.New("another process is saving to the same file")

// part is behind the name of the file while it is not complete.
const part = ".part"

// Save writes a snapshot to a file with the mode 0600, and returns its size in
// bytes. The stream goes to a file with ".part" behind its name, is checked on
// its way, and gets its name when it is complete and on the disk. A Save that
// fails leaves nothing behind; one that was killed leaves the ".part", which
// the next one of the same path overwrites.
func Save(ctx context.Context, o SaveOptions) (int64, error) {
	size, err := o.save(ctx)
	if err != nil {
		return 0, fmt.Errorf("save snapshot: %w", err)
	}
	return size, nil
}

func (o SaveOptions) save(ctx context.Context) (int64, error) {
	if err := o.free(); err != nil {
		return 0, err
	}
	f, err := claim(o.Path + part)
	if err != nil {
		return 0, err
	}
	size, err := o.fill(ctx, f)
	if err == nil {
		// Others may have written it in the meantime.
		err = o.free()
	}
	if err == nil {
		err = os.Rename(f.Name(), o.Path)
	}
	if err != nil {
		// While the lock is held: nobody else's file has this name.
		_ = os.Remove(f.Name())
	}
	// It has been synced; closing frees the lock.
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = hostfs.SyncDir(filepath.Dir(o.Path))
	}
	return size, err
}

// free reports why the path cannot be written to.
func (o SaveOptions) free() error {
	st, err := os.Lstat(o.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case st.IsDir():
		return &fs.PathError{Op: "write", Path: o.Path, Err: unix.EISDIR}
	case !o.Force:
		return &ExistsError{o.Path}
	}
	return nil
}

// claim opens an empty file that no other Save writes to.
func claim(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrBusy
	}
	if err == nil && !isAt(f, path) {
		err = ErrBusy // its owner has just finished it
	}
	if err == nil {
		err = f.Chmod(0o600)
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// isAt reports whether f is the file at path.
func isAt(f *os.File, path string) bool {
	mine, err1 := f.Stat()
	there, err2 := os.Lstat(path)
	return err1 == nil && err2 == nil && os.SameFile(mine, there)
}

// fill writes the checked stream to f and puts it on the disk.
func (o SaveOptions) fill(ctx context.Context, f *os.File) (int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	heard := func() {}
	if o.Stall > 0 {
		unreachable := time.AfterFunc(o.Stall, func() { cancel(fmt.Errorf("etcd sent nothing for %s", o.Stall)) })
		defer unreachable.Stop()
		heard = func() { unreachable.Reset(o.Stall) }
	}
	stream, err := o.Source.Snapshot(ctx)
	if err != nil {
		return 0, cause(ctx, err)
	}
	defer stream.Close()
	defer context.AfterFunc(ctx, func() { stream.Close() })()
	d := NewDigest()
	buffer := make([]byte, 256<<10)
	for {
		n, err := stream.Read(buffer)
		heard()
		// Never fails.
		_, _ = d.Write(buffer[:n])
		if _, err := f.Write(buffer[:n]); err != nil {
			return 0, err
		}
		if o.Progress != nil {
			o.Progress(n)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("read it from etcd: %w", cause(ctx, err))
		}
	}
	if err := d.Check(); err != nil {
		return 0, err
	}
	return d.Size(), f.Sync()
}

// cause returns why ctx has ended, if it has, in place of what that did.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
