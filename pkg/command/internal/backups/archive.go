package backups

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/keyspace"
)

// writeArchive writes --out, as a whole or not at all.
func (d *dump) writeArchive(cmd *cobra.Command, s *keyspace.Space) (err error) {
	f, err := os.CreateTemp(filepath.Dir(d.archive), "."+filepath.Base(d.archive)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", d.archive, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", d.archive, err), os.Remove(f.Name()))
		}
	}()
	keys := s.Keys(d.prefix)
	err = pack(cmd.Context(), f, s, keys)
	if err == nil {
		err = f.Chmod(0o600) // there are secrets in it
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), d.archive); err != nil {
		return err
	}
	// Where the existing tool says it, and not on the standard output.
	fmt.Fprintf(cmd.ErrOrStderr(), "wrote %d keys to %s\n", len(keys), d.archive)
	return nil
}

// pack writes a tar.gz with a file for each key.
func pack(ctx context.Context, to io.Writer, s *keyspace.Space, keys []keyspace.Key) error {
	buffered := bufio.NewWriterSize(to, 1<<20)
	// The fastest level: values of Kubernetes gain little from the others.
	zip, err := gzip.NewWriterLevel(buffered, gzip.BestSpeed)
	if err != nil {
		return err
	}
	a := &archive{w: tar.NewWriter(zip), space: s, dirs: map[string]bool{".": true}}
	var value []byte
	for i, k := range keys {
		if i%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if value, err = s.Value(k, value); err != nil {
			return explained(err)
		}
		if err := a.file(k.Key, value); err != nil {
			return err
		}
	}
	return errors.Join(a.w.Close(), zip.Close(), buffered.Flush())
}

// An archive is a tar file that is being written.
type archive struct {
	w     *tar.Writer
	space *keyspace.Space
	// dirs are the directories that have been written.
	dirs map[string]bool
}

// epoch is the time of all files: etcd does not know when a key was written.
var epoch = time.Unix(0, 0).UTC()

func (a *archive) file(key string, value []byte) error {
	name := fileName(key, a.space)
	if err := a.makeDir(path.Dir(name)); err != nil {
		return err
	}
	err := a.w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(value)), ModTime: epoch, Format: tar.FormatPAX,
	})
	if err == nil {
		_, err = a.w.Write(value)
	}
	return err
}

// makeDir writes a directory and those above it, unless that was done.
func (a *archive) makeDir(dir string) error {
	if a.dirs[dir] {
		return nil
	}
	if err := a.makeDir(path.Dir(dir)); err != nil {
		return err
	}
	a.dirs[dir] = true
	return a.w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: epoch, Format: tar.FormatPAX,
	})
}

// The parts of names that keys have no way to say: a percent sign in a key is
// %25.
const (
	emptyPart = "%-"
	otherRoot = "%+"
	alsoDir   = "%"
	// maxPart is how long the name of a file may be.
	maxPart = 255
)

// fileName returns the name of a key's file: the key without its first slash,
// where that is a good name. No two keys of a space have the same one, none is
// absolute or leads upwards, and none is the directory of another.
func fileName(key string, s *keyspace.Space) string {
	trimmed, slash := strings.CutPrefix(key, "/")
	parts := strings.Split(trimmed, "/")
	for i, part := range parts {
		parts[i] = escape(part)
	}
	name := strings.Join(parts, "/")
	if _, both := s.Get("/" + trimmed); both && !slash {
		name = otherRoot + "/" + name
	}
	if len(s.Keys("/"+trimmed+"/")) > 0 || len(s.Keys(trimmed+"/")) > 0 {
		name += alsoDir
	}
	return name
}

// escape makes the name of a file of a part of a key.
func escape(part string) string {
	switch part {
	case "":
		return emptyPart
	case ".", "..":
		return strings.ReplaceAll(part, ".", "%2E")
	}
	var b strings.Builder
	for _, c := range []byte(part) {
		// Backslashes and colons divide names elsewhere.
		if c < ' ' || c >= 0x7f || c == '%' || c == '\\' || c == ':' {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	// Room for the mark behind it.
	if b.Len() >= maxPart {
		sum := sha256.Sum256([]byte(part))
		return fmt.Sprintf("%s%%...%x", b.String()[:150], sum[:16])
	}
	return b.String()
}
