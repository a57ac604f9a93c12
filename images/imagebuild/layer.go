package imagebuild

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// rootsFile is where Go programs on Debian, and most others, look for the roots of
// public certificate authorities.
const rootsFile = "/etc/ssl/certs/ca-certificates.crt"

// A file is one entry of a layer: a directory, a symbolic link, another name of an entry
// that sorts before it, content, or a file of this machine.
type file struct {
	name    string
	mode    int64
	link    string
	same    string
	content string
	from    string
}

// layer makes a layer of the files and of the directories above them, compressed at a
// level of compress/gzip. All belong to root
// and have the time 0, so that a layer is decided by names, modes and contents alone.
func layer(level int, files ...file) (v1.Layer, error) {
	files = withParents(files)
	open := func() (io.ReadCloser, error) {
		r, w := io.Pipe()
		go func() { w.CloseWithError(archive(w, files)) }()
		return r, nil
	}
	l, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching,
		tarball.WithCompressionLevel(level))
	if err != nil {
		return nil, fmt.Errorf("make a layer: %w", err)
	}
	return l, nil
}

func withParents(files []file) []file {
	all := map[string]file{}
	for _, f := range files {
		for dir := path.Dir(f.name); dir != "/"; dir = path.Dir(dir) {
			if _, there := all[dir]; !there {
				all[dir] = file{name: dir, mode: 0o755}
			}
		}
		all[f.name] = f
	}
	list := make([]file, 0, len(all))
	for _, f := range all {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return list
}

func archive(w io.Writer, files []file) error {
	tw := tar.NewWriter(w)
	for _, f := range files {
		if err := f.write(tw); err != nil {
			return fmt.Errorf("put %s into a layer: %w", f.name, err)
		}
	}
	return tw.Close()
}

func (f file) write(tw *tar.Writer) error {
	h := &tar.Header{Name: strings.TrimPrefix(f.name, "/"), Mode: f.mode, ModTime: time.Unix(0, 0)}
	var body io.Reader = strings.NewReader(f.content)
	switch {
	case f.link != "":
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.link, 0o777
	case f.same != "":
		h.Typeflag, h.Linkname = tar.TypeLink, strings.TrimPrefix(f.same, "/")
	case f.from != "":
		opened, err := os.Open(f.from)
		if err != nil {
			return err
		}
		defer opened.Close()
		info, err := opened.Stat()
		if err != nil {
			return err
		}
		h.Typeflag, h.Size, body = tar.TypeReg, info.Size(), opened
	case f.content != "":
		h.Typeflag, h.Size = tar.TypeReg, int64(len(f.content))
	default:
		h.Typeflag = tar.TypeDir
		h.Name += "/"
	}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(tw, body)
	return err
}

// base returns the layer below all programs. The home of nonroot is /, which it cannot
// write to; /tmp is for all.
func base(level int) (v1.Layer, error) {
	roots, err := publicRoots()
	if err != nil {
		return nil, err
	}
	return layer(level,
		file{name: "/tmp", mode: 0o1777},
		file{name: "/etc/passwd", mode: 0o644,
			content: "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"},
		file{name: "/etc/group", mode: 0o644, content: "root:x:0:\nnonroot:x:65532:\n"},
		file{name: rootsFile, mode: 0o644, content: roots},
	)
}

// publicRoots returns the authorities of Mozilla's list, from the Go module that pins them, as
// PEM. A root that is trusted only under a condition that PEM cannot express is left out.
func publicRoots() (string, error) {
	var b bytes.Buffer
	for r := range bundle.Roots() {
		if r.Constraint != nil {
			continue
		}
		if err := pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate}); err != nil {
			return "", fmt.Errorf("write the roots of public authorities: %w", err)
		}
	}
	return b.String(), nil
}
