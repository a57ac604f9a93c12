package backup

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/etcdadm/etcdadm/pkg/retention"
)

// A Library is the part of a store that backups are read from.
type Library interface {
	// Get returns the content of a small object.
	Get(ctx context.Context, key string) ([]byte, error)
	// Open returns the content of an object as a stream.
	Open(ctx context.Context, key string) (io.ReadCloser, error)
}

// Describe reads the marker of a backup.
func Describe(ctx context.Context, store Library, name string) (Info, error) {
	b, err := store.Get(ctx, name+"/"+retention.MarkerFile)
	if err != nil {
		return Info{}, fmt.Errorf("describe backup %s: %w", name, err)
	}
	info, err := ReadInfo(b)
	if err != nil {
		return Info{}, fmt.Errorf("describe backup %s: %w", name, err)
	}
	return info, nil
}

// Fetch writes the snapshot of a backup to w, as "etcdctl snapshot save" would
// have: the database and its digest. It returns the size. The error is
// ErrDamaged if it is not whole; what has been written to w is then worth nothing.
func Fetch(ctx context.Context, store Library, name string, w io.Writer) (int64, error) {
	r, err := store.Open(ctx, name+"/"+retention.DataFile)
	if err != nil {
		return 0, fmt.Errorf("fetch backup %s: %w", name, err)
	}
	size, err := Extract(r, w)
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return size, fmt.Errorf("fetch backup %s: %w", name, err)
	}
	return size, nil
}

// Verify reports whether a backup's data, as it is stored, is whole: ErrDamaged
// if it is not, any other error if it cannot be read.
func Verify(r io.Reader) error {
	_, err := Extract(r, io.Discard)
	return err
}

// Extract uncompresses a backup's data to w, checks it, and returns the size of
// what was written. The error is ErrDamaged as for Verify.
func Extract(r io.Reader, w io.Writer) (int64, error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return 0, unzipError(err)
	}
	check := newChecker()
	buffer := make([]byte, 64<<10)
	for {
		n, err := zip.Read(buffer)
		if n > 0 {
			// Never fails.
			_, _ = check.Write(buffer[:n])
			if _, err := w.Write(buffer[:n]); err != nil {
				return check.size, fmt.Errorf("write snapshot: %w", err)
			}
		}
		if errors.Is(err, io.EOF) {
			return check.size, check.check()
		}
		if err != nil {
			return check.size, unzipError(err)
		}
	}
}

// unzipError tells data that is wrong from data that cannot be read.
func unzipError(err error) error {
	var corrupt flate.CorruptInputError
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.As(err, &corrupt) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it is cut off", ErrDamaged)
	}
	return fmt.Errorf("read snapshot: %w", err)
}
