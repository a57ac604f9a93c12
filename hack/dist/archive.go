package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/images/notices"
)

// archive writes the archive of a set.
func (b build) archive(s set, arch, bin string, list []written, licenses []byte) error {
	files, err := installed(s.Programs, local, bin, "/etc/default", list)
	if err != nil {
		return err
	}
	for _, name := range []string{"LICENSE", "README.md"} {
		files = append(files, file{Path: local.Docs + "/" + name, Mode: 0o644, Source: filepath.Join(b.Source.Root, name)})
	}
	files = append(files, file{Path: local.Docs + "/" + notices.Name, Mode: 0o644, Content: licenses})
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.Path, b.Path) })
	top := fmt.Sprintf("%s-%s-linux-%s", s.Name, b.Source.Version, arch)
	out, err := os.Create(filepath.Join(b.Out, top+".tar.gz"))
	if err != nil {
		return err
	}
	err = errors.Join(writeArchive(out, top, files, b.Source.Time), out.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", out.Name(), err)
	}
	return nil
}

// writeArchive writes files as a tar.gz below a directory top. It holds no more of the
// machine than their contents.
func writeArchive(w io.Writer, top string, files []file, at time.Time) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for _, dir := range directories(top, files) {
		h := &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: at, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := add(t, top, f, at); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// directories are those of the files, each after the one that it is in.
func directories(top string, files []file) []string {
	dirs := []string{top}
	for _, f := range files {
		for d := filepath.Dir(f.Path); d != "."; d = filepath.Dir(d) {
			dirs = append(dirs, top+"/"+d)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func add(t *tar.Writer, top string, f file, at time.Time) error {
	var content io.Reader = bytes.NewReader(f.Content)
	size := int64(len(f.Content))
	if f.Source != "" {
		in, err := os.Open(f.Source)
		if err != nil {
			return err
		}
		defer in.Close()
		info, err := in.Stat()
		if err != nil {
			return err
		}
		content, size = in, info.Size()
	}
	h := &tar.Header{Name: top + "/" + f.Path, Mode: f.Mode, Size: size, ModTime: at, Format: tar.FormatUSTAR}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(t, content)
	return err
}

// sumsFile is what "sha256sum --check" reads.
const sumsFile = "SHA256SUMS"

// writeSums writes the hashes of all files in a directory.
func writeSums(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, e := range list {
		if e.Name() == sumsFile {
			continue
		}
		in, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, in)
		if err := errors.Join(err, in.Close()); err != nil {
			return fmt.Errorf("hash %s: %w", e.Name(), err)
		}
		fmt.Fprintf(&b, "%x  %s\n", sum.Sum(nil), e.Name())
	}
	return os.WriteFile(filepath.Join(dir, sumsFile), []byte(b.String()), 0o644)
}

// compressed is text for man(1), without a name and a time.
func compressed(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	// Writing to memory does not fail.
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.Bytes()
}
