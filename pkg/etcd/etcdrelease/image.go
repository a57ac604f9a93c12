package etcdrelease

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// fromImage puts the binaries of the image into the directory stage. What is
// a path on this machine is read there, everything else is a reference.
func (o Options) fromImage(ctx context.Context, stage string) error {
	image := o.Sources.Image
	st, err := os.Stat(image)
	switch {
	case err == nil && st.IsDir():
		return o.fromLayout(ctx, image, stage)
	case err == nil:
		return o.fromSaved(ctx, image, stage)
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) || strings.HasPrefix(image, "/") ||
		strings.HasPrefix(image, "."):
		return err
	}
	return o.fromRegistry(ctx, image, stage)
}

// fromRegistry pulls an image by its digest, which the layers are checked
// against.
func (o Options) fromRegistry(ctx context.Context, image, stage string) error {
	ref, err := name.NewDigest(image)
	if err != nil {
		return notByDigest(image, err)
	}
	w := o.open()
	defer w.close()
	var total, done atomic.Int64
	total.Store(-1)
	options := []remote.Option{
		remote.WithContext(ctx),
		remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}),
		remote.WithUserAgent("etcdadm"),
		remote.WithTransport(limitRedirects{o.watched(w.inner, func(req *http.Request, n int) {
			if t := total.Load(); n > 0 && t > 0 && o.Progress != nil && strings.Contains(req.URL.Path, "/blobs/") {
				o.Progress(min(done.Add(int64(n)), t), t)
			}
		})}),
	}
	return w.retry(ctx, func() (int64, error) {
		img, err := remote.Image(ref, options...)
		if err != nil {
			return 0, fromServer(image, err)
		}
		total.Store(layerBytes(img))
		done.Store(0)
		if err := o.extract(ctx, img, stage); err != nil {
			return done.Load(), fmt.Errorf("image %s: %w", image, err)
		}
		return 0, nil
	})
}

// limitRedirects refuses the eleventh redirect, and any to another scheme than http and
// https: the client of the registry follows all of them. Where else the content comes from does
// not matter, as it is checked against its digest.
type limitRedirects struct{ next http.RoundTripper }

// RoundTrip is that of [http.RoundTripper].
func (r limitRedirects) RoundTrip(req *http.Request) (*http.Response, error) {
	via := 0
	for from := req.Response; from != nil && from.Request != nil; from = from.Request.Response {
		via++
	}
	switch {
	case via >= mostRedirects:
		return nil, fmt.Errorf("stopped after %d redirects", mostRedirects)
	case via > 0 && req.URL.Scheme != "https" && req.URL.Scheme != "http":
		return nil, fmt.Errorf("refused a redirect to %s", shown(req.URL.String()))
	}
	return r.next.RoundTrip(req)
}

// fromServer says what to check where a registry has said no.
func fromServer(image string, err error) error {
	err = fmt.Errorf("image %s: %w", image, err)
	var said *transport.Error
	if !errors.As(err, &said) || said.StatusCode >= 500 {
		return err
	}
	return &adviceError{text: err.Error(), err: err,
		next: "check the reference and its digest; credentials are those of docker login or podman login"}
}

// notByDigest says why an image cannot be named like this.
func notByDigest(image string, err error) error {
	tag, terr := name.NewTag(image)
	if terr != nil {
		return &adviceError{text: fmt.Sprintf("image %q is neither a file or directory here nor a reference: %v", image, err),
			err: err,
			next: "--binaries-image takes REPOSITORY@sha256:DIGEST, or the path of an archive of docker save or of an " +
				"OCI layout"}
	}
	return &adviceError{text: fmt.Sprintf("image %s has no digest, and a tag can be moved", image), err: err,
		next: fmt.Sprintf("name it as %s@sha256:DIGEST; `docker buildx imagetools inspect %s` or `crane digest %s` print "+
			"the digest", tag.Context(), image, image)}
}

// layerBytes returns the compressed size of an image's layers, -1 if unknown.
func layerBytes(img v1.Image) int64 {
	m, err := img.Manifest()
	if err != nil {
		return -1
	}
	var sum int64
	for _, l := range m.Layers {
		sum += l.Size
	}
	return sum
}

// extract writes the binaries in the file system of the image into stage.
func (o Options) extract(ctx context.Context, img v1.Image, stage string) error {
	c, err := img.ConfigFile()
	if err != nil {
		return err
	}
	if c.Architecture != "" && c.Architecture != arch || c.OS != "" && c.OS != "linux" {
		return fmt.Errorf("it is for %s/%s, this machine is linux/%s", c.OS, c.Architecture, arch)
	}
	files := mutate.Extract(img)
	defer files.Close()
	return unpack(ctx, files, stage, pickImage)
}

// fromSaved reads the archive of an image: what docker save writes, or a tar
// of an OCI layout, packed with gzip or not. Newer docker save writes one that
// is both.
func (o Options) fromSaved(ctx context.Context, archive, stage string) error {
	open := func() (io.ReadCloser, error) { return openTar(archive) }
	_, err := tarball.LoadManifest(open)
	if err == nil {
		img, err := tarball.Image(open, nil)
		if err != nil {
			return fmt.Errorf("image %s: %w", archive, err)
		}
		return within("image "+archive, o.extract(ctx, img, stage))
	}
	dir, terr := os.MkdirTemp(stage, "layout-*")
	if terr != nil {
		return onDisk(terr, stage)
	}
	defer os.RemoveAll(dir)
	found, lerr := unpackLayout(ctx, open, dir)
	if lerr != nil {
		return within("image "+archive, lerr)
	}
	if !found {
		return fmt.Errorf("image %s is neither an archive of docker save (%w) nor an OCI layout (no index.json)", archive, err)
	}
	return within("image "+archive, o.fromLayout(ctx, dir, stage))
}

// openTar opens a tar that may be packed with gzip.
func openTar(archive string) (io.ReadCloser, error) {
	f, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	type both struct {
		io.Reader
		io.Closer
	}
	r := bufio.NewReader(f)
	if magic, _ := r.Peek(2); string(magic) != "\x1f\x8b" {
		return both{r, f}, nil
	}
	z, err := gzip.NewReader(r)
	if err != nil {
		f.Close()
		return nil, err
	}
	return both{z, f}, nil
}

var layoutEntry = regexp.MustCompile(`^(oci-layout|index\.json|blobs/[a-z0-9]+/[a-f0-9]+)$`)

// unpackLayout writes the files of an OCI layout into dir and reports whether
// there was one.
func unpackLayout(ctx context.Context, open tarball.Opener, dir string) (found bool, err error) {
	f, err := open()
	if err != nil {
		return false, err
	}
	defer f.Close()
	archive := tar.NewReader(&limited{ctx: ctx, r: f, left: maxUnpacked})
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return false, unexpected(err)
		}
		clean := path.Clean(h.Name)
		if h.Typeflag != tar.TypeReg || !layoutEntry.MatchString(clean) {
			continue
		}
		found = found || clean == "index.json"
		if err := os.MkdirAll(filepath.Join(dir, path.Dir(clean)), 0o700); err != nil {
			return false, onDisk(err, dir)
		}
		if err := put(archive, dir, clean); err != nil {
			return false, err
		}
	}
}

// fromLayout reads the image for this machine out of an OCI layout.
func (o Options) fromLayout(ctx context.Context, dir, stage string) error {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return fmt.Errorf("OCI layout %s: %w", dir, err)
	}
	images, err := forThisMachine(index)
	if err != nil {
		return fmt.Errorf("OCI layout: %w", err)
	}
	if len(images) != 1 {
		return fmt.Errorf("OCI layout has %d images for linux/%s, not one", len(images), arch)
	}
	return o.extract(ctx, images[0], stage)
}

// forThisMachine returns the images of an index, and of those in it, that run
// here.
func forThisMachine(index v1.ImageIndex) ([]v1.Image, error) {
	m, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var images []v1.Image
	seen := map[v1.Hash]bool{}
	for _, d := range m.Manifests {
		if seen[d.Digest] {
			continue // one image with two tags
		}
		seen[d.Digest] = true
		switch {
		case d.MediaType.IsIndex():
			inner, err := index.ImageIndex(d.Digest)
			if err != nil {
				return nil, err
			}
			more, err := forThisMachine(inner)
			if err != nil {
				return nil, err
			}
			images = append(images, more...)
		case d.MediaType.IsImage():
			img, err := index.Image(d.Digest)
			if err != nil {
				return nil, err
			}
			// The platform in the index may be missing; a layout that was copied
			// for one platform lacks the files of the others.
			if c, err := img.ConfigFile(); err == nil && c.OS == "linux" && c.Architecture == arch {
				images = append(images, img)
			}
		}
	}
	return images, nil
}

// within adds to an error where it was.
func within(where string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", where, err)
}
