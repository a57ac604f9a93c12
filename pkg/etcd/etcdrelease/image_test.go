package etcdrelease

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// binaries are the files of a release below a directory.
func binaries(dir, version string) []file {
	var files []file
	for _, name := range tools {
		files = append(files, file{name: dir + name, body: script(name, version)})
	}
	return files
}

func layerOf(t *testing.T, files ...file) v1.Layer {
	t.Helper()
	b := tarOf(t, files...)
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// imageOf makes an image of layers, the lowest first.
func imageOf(t *testing.T, arch string, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: arch})
	if err == nil {
		img, err = mutate.AppendLayers(img, layers...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// indexOf makes an image for several platforms, with the attestation that
// BuildKit adds.
func indexOf(t *testing.T, images map[string]v1.Image) v1.ImageIndex {
	t.Helper()
	index := v1.ImageIndex(empty.Index)
	for platform, img := range images {
		opSys, arch, _ := strings.Cut(platform, "/")
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			MediaType: types.OCIManifestSchema1, Platform: &v1.Platform{OS: opSys, Architecture: arch},
		}})
	}
	return index
}

func saveImage(t *testing.T, path string, img v1.Image) {
	t.Helper()
	tag, err := name.NewTag("etcd.example/etcd:v3")
	if err == nil {
		err = tarball.WriteToFile(path, tag, img)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func saveLayout(t *testing.T, index v1.ImageIndex) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := layout.Write(dir, index); err != nil {
		t.Fatal(err)
	}
	return dir
}

// tarDir packs a directory as skopeo's oci-archive does.
func tarDir(t *testing.T, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func otherArch() string {
	if arch == "arm64" {
		return "amd64"
	}
	return "arm64"
}

// A registryServer is a registry on the loopback interface.
type registryServer struct {
	*httptest.Server
	first func(w http.ResponseWriter, r *http.Request) bool
}

func newRegistry(t *testing.T) *registryServer {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir()) // nobody's credentials
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s := &registryServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.first == nil || !s.first(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// push returns the reference without its digest.
func (s *registryServer) push(t *testing.T, what remote.Taggable) (repository string, digest v1.Hash) {
	t.Helper()
	ref, err := name.ParseReference(strings.TrimPrefix(s.URL, "http://") + "/etcd:v3")
	if err != nil {
		t.Fatal(err)
	}
	switch w := what.(type) {
	case v1.Image:
		err = remote.Write(ref, w)
		digest, _ = w.Digest()
	case v1.ImageIndex:
		err = remote.WriteIndex(ref, w)
		digest, _ = w.Digest()
	}
	if err != nil {
		t.Fatal(err)
	}
	return ref.Context().Name(), digest
}

func fromImage(t *testing.T, image string) Options {
	o := local(t, "3.6.16")
	o.Sources = machine.Binaries{Image: image}
	return o
}

func TestImageFromARegistry(t *testing.T) {
	const v = "3.6.16"
	s := newRegistry(t)
	mine := imageOf(t, arch, layerOf(t, binaries("usr/local/bin/", v)...))
	theirs := imageOf(t, otherArch(), layerOf(t, binaries("usr/local/bin/", "3.5.1")...))
	index := indexOf(t, map[string]v1.Image{
		"linux/" + otherArch(): theirs, "linux/" + arch: mine, "unknown/unknown": empty.Image,
	})
	for name, what := range map[string]remote.Taggable{"one platform": mine, "several platforms": index} {
		t.Run(name, func(t *testing.T) {
			repository, digest := s.push(t, what)
			for _, ref := range []string{repository + "@" + digest.String(), repository + ":v3@" + digest.String()} {
				o := fromImage(t, ref)
				var done, total int64
				o.Progress = func(d, t int64) { done, total = d, t }
				mustInstall(t, o, t.TempDir())
				if total <= 0 || done != total {
					t.Errorf("progress ended at %d of %d bytes", done, total)
				}
			}
		})
	}
	t.Run("for another platform only", func(t *testing.T) {
		repository, digest := s.push(t, theirs)
		_, err := Install(soon(t), fromImage(t, repository+"@"+digest.String()), t.TempDir())
		wantError(t, err, "linux/"+otherArch(), "linux/"+arch)
	})
	t.Run("not there", func(t *testing.T) {
		repository, _ := s.push(t, theirs)
		_, err := Install(soon(t), fromImage(t, repository+"@sha256:"+digest(nil)), t.TempDir())
		wantError(t, err, repository, "MANIFEST_UNKNOWN")
		wantHint(t, err, "digest", "docker login")
	})
}

func TestImageWithoutDigestIsRefused(t *testing.T) {
	for _, image := range []string{"registry.k8s.io/etcd:3.6.16-0", "registry.k8s.io/etcd"} {
		_, err := Install(soon(t), fromImage(t, image), t.TempDir())
		wantError(t, err, image, "no digest")
		wantHint(t, err, "registry.k8s.io/etcd@sha256:DIGEST", "imagetools inspect "+image)
	}
	_, err := Install(soon(t), fromImage(t, "Not A Reference"), t.TempDir())
	wantError(t, err, "neither a file")
	wantHint(t, err, "REPOSITORY@sha256:DIGEST")
}

func TestImageRegistryThatLies(t *testing.T) {
	s := newRegistry(t)
	img := imageOf(t, arch, layerOf(t, file{name: "bin/etcd", body: noise(5000)}))
	repository, digest := s.push(t, img)
	layers, _ := img.Layers()
	layer, _ := layers[0].Digest()
	good, _ := layers[0].Compressed()
	body, _ := io.ReadAll(good)
	body[len(body)/2] ^= 1 // in the noise, which gzip stores as it is
	s.first = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, layer.String()) {
			return false
		}
		w.Write(body)
		return true
	}
	dir := t.TempDir()
	_, err := Install(soon(t), fromImage(t, repository+"@"+digest.String()), dir)
	wantError(t, err, "verif")
	if got := listed(t, dir); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}

func TestImageSurvivesABrokenConnection(t *testing.T) {
	s := newRegistry(t)
	layer := layerOf(t, binaries("usr/local/bin/", "3.6.16")...)
	size, _ := layer.Size()
	hash, _ := layer.Digest()
	repository, digest := s.push(t, imageOf(t, arch, layer))
	var broken atomic.Int32 // connections have a goroutine each
	s.first = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, hash.String()) || broken.Load() == 2 {
			return false
		}
		if broken.Add(1) == 1 {
			panic(http.ErrAbortHandler) // before the answer
		}
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		w.Write([]byte("\x1f\x8b")) // in its middle
		return true
	}
	mustInstall(t, fromImage(t, repository+"@"+digest.String()), t.TempDir())
	if n := broken.Load(); n != 2 {
		t.Errorf("the connection broke %d times", n)
	}
}

func TestImageOnDisk(t *testing.T) {
	const v = "3.6.16"
	mine := imageOf(t, arch, layerOf(t, binaries("usr/local/bin/", v)...))
	theirs := imageOf(t, otherArch(), layerOf(t, binaries("usr/local/bin/", "3.5.1")...))
	index := indexOf(t, map[string]v1.Image{
		"linux/" + otherArch(): theirs, "linux/" + arch: mine, "unknown/unknown": empty.Image,
	})
	nested := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: index})
	bare := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: mine})
	saved := filepath.Join(t.TempDir(), "saved.tar")
	saveImage(t, saved, mine)
	b, err := os.ReadFile(saved)
	if err != nil {
		t.Fatal(err)
	}
	flat, nestedDir := saveLayout(t, bare), saveLayout(t, nested)
	file := func(name string, b []byte) string {
		path := filepath.Join(t.TempDir(), name)
		write(t, path, b)
		return path
	}
	for name, image := range map[string]string{
		"docker save":                     saved,
		"docker save, packed":             file("saved.tgz", packed(t, b)),
		"layout":                          flat,
		"layout with an index in it":      nestedDir,
		"tar of a layout":                 file("layout.tar", tarDir(t, nestedDir)),
		"tar of a layout, packed":         file("layout.tar.gz", packed(t, tarDir(t, flat))),
		"both in one, as of newer docker": file("both.tar", both(t, b, tarDir(t, flat))),
	} {
		t.Run(name, func(t *testing.T) {
			mustInstall(t, fromImage(t, image), t.TempDir())
		})
	}
	t.Run("by a relative path", func(t *testing.T) {
		t.Chdir(filepath.Dir(saved))
		mustInstall(t, fromImage(t, "saved.tar"), t.TempDir())
	})
	for name, c := range map[string]struct{ image, word string }{
		"layout without this platform": {
			saveLayout(t, indexOf(t, map[string]v1.Image{"linux/" + otherArch(): theirs})), "0 images for linux/" + arch,
		},
		"directory of something else": {t.TempDir(), "index.json"},
		"tar of something else":       {file("other.tar", tarOf(t, binaries("", v)...)), "neither an archive of docker"},
		"no tar":                      {file("other.txt", noise(5000)), "other.txt"},
		"cut off":                     {file("cut.tar", b[:len(b)/2]), "cut.tar"},
		"without etcd": {
			saveLayout(t, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
				Add: imageOf(t, arch, layerOf(t, file1("bin/sh"))),
			})), "no file etcd",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := Install(soon(t), fromImage(t, c.image), dir)
			wantError(t, err, c.word)
			if got := listed(t, dir); len(got) != 0 {
				t.Errorf("left behind: %q", got)
			}
		})
	}
}

func file1(name string) file { return file{name: name, body: []byte("x")} }

// both joins two tars.
func both(t *testing.T, a, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, in := range [][]byte{a, b} {
		r := tar.NewReader(bytes.NewReader(in))
		for {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := w.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
			io.Copy(w, r)
		}
	}
	w.Close()
	return out.Bytes()
}

func TestImageFindsTheBinaries(t *testing.T) {
	const v = "3.6.16"
	for name, layers := range map[string][][]file{
		"in /usr/local/bin":    {binaries("usr/local/bin/", v)},
		"at the root":          {binaries("", v)},
		"in a place of theirs": {binaries("opt/vendor/etcd/bin/", v)},
		"names with a dot":     {binaries("./usr/bin/", v)},
		"replaced by a later layer": {
			binaries("usr/local/bin/", "3.5.1"), binaries("usr/local/bin/", v)},
		"removed by a later layer": {
			binaries("usr/local/bin/", "3.5.1"), {
				{name: "usr/local/bin/.wh.etcd"}, {name: "usr/local/bin/.wh.etcdctl"}, {name: "usr/local/bin/.wh.etcdutl"},
			}, binaries("usr/bin/", v)},
		"directory emptied by a later layer": {
			binaries("usr/local/bin/", "3.5.1"), append([]file{{name: "usr/local/bin/.wh..wh..opq"}}, binaries("opt/", v)...)},
		"others of the same name": {
			{{name: "etc/etcd/", kind: tar.TypeDir}, {
				name: "usr/share/bash-completion/completions/etcdctl", body: []byte("#"), mode: 0o644,
			}},
			binaries("usr/local/bin/", v), binaries("opt/old/bin/", "3.5.1")},
		"with a link to them": {
			binaries("opt/etcd/", v), {{name: "usr/local/bin/etcd", kind: tar.TypeSymlink, link: "/opt/etcd/etcd"}}},
		"of several versions": {
			{{name: "usr/local/bin/etcd-3.5.1", body: script("etcd", "3.5.1")}}, binaries("usr/local/bin/", v)},
	} {
		t.Run(name, func(t *testing.T) {
			var all []v1.Layer
			for _, files := range layers {
				all = append(all, layerOf(t, files...))
			}
			image := filepath.Join(t.TempDir(), "image.tar")
			saveImage(t, image, imageOf(t, arch, all...))
			mustInstall(t, fromImage(t, image), t.TempDir())
		})
	}
}

func TestImageOfAnotherVersion(t *testing.T) {
	image := filepath.Join(t.TempDir(), "image.tar")
	saveImage(t, image, imageOf(t, arch, layerOf(t, binaries("usr/local/bin/", "3.6.1")...)))
	_, err := Install(soon(t), fromImage(t, image), t.TempDir())
	var other *VersionError
	if !errors.As(err, &other) {
		t.Fatal(err)
	}
	wantError(t, err, fmt.Sprintf("not etcd %s", "3.6.16"), "3.6.1")
}
