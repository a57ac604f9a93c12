package etcdrelease

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Limits for what an archive or image may make of itself. etcd 3.6 has 25 MiB
// and unpacks to 70 MiB.
const (
	maxDownload = 1 << 30
	maxFile     = 1 << 30
	maxUnpacked = 8 << 30
)

// A pick says whether an entry is one of the binaries: by its name, "" if not,
// and a rank. Where several entries are the same binary, the lowest rank wins.
type pick func(*tar.Header) (name string, rank int, err error)

// unpackArchive writes the binaries in the .tar.gz at archive into dir. With
// dir "" it only reads the archive to its end, which finds what is cut off or
// damaged.
func unpackArchive(ctx context.Context, archive, dir string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s is not a .tar.gz: %w", archive, err)
	}
	err = unpack(ctx, z, dir, pickRelease())
	if err != nil {
		return fmt.Errorf("unpack %s: %w", archive, err)
	}
	return nil
}

// unpack reads a tar stream to its end and writes the binaries into dir.
func unpack(ctx context.Context, r io.Reader, dir string, pick pick) error {
	r = &limited{ctx: ctx, r: r, left: maxUnpacked}
	archive := tar.NewReader(r)
	ranks := map[string]int{}
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return unexpected(err)
		}
		name, rank, err := pick(h)
		if err != nil {
			return err
		}
		before, again := ranks[name]
		if name == "" || again && before <= rank {
			continue
		}
		ranks[name] = rank
		if h.Size > maxFile {
			return fmt.Errorf("%s has %d bytes, more than any etcd", h.Name, h.Size)
		}
		if err := put(archive, dir, name); err != nil {
			return err
		}
	}
	// The checksums of gzip and of image layers are behind the end of the tar.
	if _, err := io.Copy(io.Discard, r); err != nil {
		return unexpected(err)
	}
	for _, name := range []string{"etcd", "etcdctl"} {
		if _, ok := ranks[name]; !ok {
			return fmt.Errorf("there is no file %s in it", name)
		}
	}
	return nil
}

func unexpected(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("it is truncated: %w", err)
	}
	return err
}

// pickRelease picks the binaries of a release archive: regular files at the
// top or in one directory at the top. It refuses archives with names that lead
// elsewhere, as nobody makes them by accident.
func pickRelease() pick {
	seen := map[string]string{}
	return func(h *tar.Header) (string, int, error) {
		if path.IsAbs(h.Name) || slices.Contains(strings.Split(h.Name, "/"), "..") {
			return "", 0, fmt.Errorf("it has an entry %q, which is outside of the archive", h.Name)
		}
		clean := path.Clean(h.Name)
		name := path.Base(clean)
		if !slices.Contains(tools, name) || strings.Count(clean, "/") > 1 || h.Typeflag == tar.TypeDir {
			return "", 0, nil
		}
		if h.Typeflag != tar.TypeReg {
			return "", 0, fmt.Errorf("its entry %q is a link or device, not a file", h.Name)
		}
		if other, ok := seen[name]; ok {
			return "", 0, fmt.Errorf("it has %s twice: %q and %q", name, other, h.Name)
		}
		seen[name] = h.Name
		return name, 0, nil
	}
}

// pickImage picks the binaries of the file system of an image, wherever they
// are, in the directories of the usual PATH first. Files that cannot be run
// are something else, for example completions for a shell.
func pickImage(h *tar.Header) (string, int, error) {
	clean := path.Clean("/" + h.Name)
	name := path.Base(clean)
	if !slices.Contains(tools, name) || h.Typeflag != tar.TypeReg || h.FileInfo().Mode()&0o111 == 0 {
		return "", 0, nil
	}
	usual := []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}
	if rank := slices.Index(usual, path.Dir(clean)); rank >= 0 {
		return name, rank, nil
	}
	return name, len(usual) + strings.Count(clean, "/"), nil
}

// copyDir copies the binaries in from into dir.
func copyDir(ctx context.Context, from, dir string) error {
	for _, name := range tools {
		err := copyFile(ctx, filepath.Join(from, name), dir, name)
		if name == "etcdutl" && errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("copy from the directory %s: %w", from, err)
		}
	}
	return nil
}

func copyFile(ctx context.Context, from, dir, name string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("%s is not a file", from))
	}
	return put(&limited{ctx: ctx, r: f, left: maxFile}, dir, name)
}

// put writes the executable file name in dir, and on the disk. With dir "" it
// only reads.
func put(r io.Reader, dir, name string) (err error) {
	if dir == "" {
		_, err = io.Copy(io.Discard, r)
		return unexpected(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o700)
	if err != nil {
		return onDisk(err, dir)
	}
	_, err = io.Copy(f, r)
	if err == nil {
		err = f.Chmod(0o755) // whatever the umask is
	}
	if err == nil {
		err = f.Sync()
	}
	return onDisk(unexpected(errors.Join(err, f.Close())), dir)
}

// A limited reader ends with an error after left bytes, and when ctx does.
type limited struct {
	ctx  context.Context
	r    io.Reader
	left int64
}

func (l *limited) Read(b []byte) (int, error) {
	if l.ctx.Err() != nil {
		return 0, context.Cause(l.ctx)
	}
	n, err := l.r.Read(b)
	l.left -= int64(n)
	if l.left < 0 {
		return 0, errors.New("it unpacks to more bytes than any release of etcd")
	}
	return n, err
}
