package etcdrelease

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// script returns a program that prints its version as the binary name does.
func script(name, version string) []byte {
	word := "version"
	if name == "etcd" {
		word = "Version"
	}
	return fmt.Appendf(nil, "#!/bin/sh\necho '%s %s: %s'\necho 'Git SHA: none'\n", name, word, version)
}

// A file is an entry of a tar.
type file struct {
	name string
	body []byte
	mode int64
	kind byte
	link string
}

// tarOf makes a tar.
func tarOf(t *testing.T, files ...file) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Size: int64(len(f.body)), Mode: 0o755, Typeflag: tar.TypeReg, Linkname: f.link}
		if f.mode != 0 {
			h.Mode = f.mode
		}
		if f.kind != 0 {
			h.Typeflag = f.kind
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func packed(t *testing.T, b []byte) []byte {
	t.Helper()
	var z bytes.Buffer
	w, err := gzip.NewWriterLevel(&z, gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return z.Bytes()
}

// release makes an archive as etcd publishes it, of scripts that print a
// version, and of padding that does not shrink, so that it has a few KiB.
func release(t *testing.T, version string) []byte {
	t.Helper()
	top := fmt.Sprintf("etcd-v%s-linux-%s/", version, arch)
	files := []file{{name: top, kind: tar.TypeDir}, {name: top + "README.md", body: noise(64 << 10)}}
	for _, name := range tools {
		files = append(files, file{name: top + name, body: script(name, version)})
	}
	return packed(t, tarOf(t, files...))
}

// noise returns bytes that do not compress, the same each time.
func noise(n int) []byte {
	var b []byte
	for sum := sha256.Sum256(nil); len(b) < n; sum = sha256.Sum256(sum[:]) {
		b = append(b, sum[:]...)
	}
	return b[:n]
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// dirOf makes a directory with scripts that print a version.
func dirOf(t *testing.T, version string, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		write(t, filepath.Join(dir, name), script(name, version))
	}
	return dir
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

// A site is a server of releases on the loopback interface.
type site struct {
	*httptest.Server

	mu    sync.Mutex
	first func(w http.ResponseWriter, r *http.Request, nth int) bool
	files map[string][]byte
	asked []string
}

// newSite has the archives of versions, and their checksums.
func newSite(t *testing.T, versions ...string) *site {
	t.Helper()
	s := &site{files: map[string][]byte{}}
	for _, v := range versions {
		s.publish(v, release(t, v))
	}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *site) publish(version string, archive []byte) {
	name := fmt.Sprintf("etcd-v%s-linux-%s.tar.gz", version, arch)
	s.put("/v"+version+"/"+name, archive)
	s.put("/v"+version+"/SHA256SUMS",
		fmt.Appendf(nil, "%s  etcd-v%s-darwin-amd64.zip\n%s  %s\n", digest(nil), version, digest(archive), name))
}

func (s *site) put(path string, b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[path] = b
}

func (s *site) get(path string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[path]
}

// answer makes the site ask first, which may answer a request itself; it
// returns whether it did.
func (s *site) answer(first func(w http.ResponseWriter, r *http.Request, nth int) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = first
}

func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	b, ok := s.files[r.URL.Path]
	s.asked = append(s.asked, strings.TrimSpace(r.URL.Path+" "+r.Header.Get("Range")))
	nth, first := len(s.asked), s.first
	s.mu.Unlock()
	if first != nil && first(w, r, nth) {
		return
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Etag", `"`+digest(b)[:8]+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
}

// requests returns what the site was asked for, and forgets it.
func (s *site) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

// archiveRequests are those of them that are for archives.
func (s *site) archiveRequests() []string {
	return slices.DeleteFunc(s.requests(), func(r string) bool {
		return !strings.Contains(r, ".tar.gz") || strings.Contains(r, ".sha256")
	})
}

// from returns options for a version from the site, with an empty cache.
func (s *site) from(t *testing.T, version string) Options {
	o := local(t, version)
	o.Sources.ReleaseURL = s.URL
	return o
}

// local returns options whose release URL has nobody behind it.
func local(t *testing.T, version string) Options {
	return Options{
		Version:        etcdversion.Must(version),
		Sources:        machine.Binaries{ReleaseURL: "http://127.0.0.1:1"},
		CacheDir:       t.TempDir(),
		ConnectTimeout: 30 * time.Second,
		pins:           "# archives of tests are not etcd's own\n",
		pace:           pace{tries: 3, backoff: time.Millisecond, stall: 30 * time.Second, lock: 3 * time.Minute},
	}
}

// seed puts an archive into the cache of o.
func seed(t *testing.T, o Options, archive []byte) {
	t.Helper()
	write(t, o.cachePath(), archive)
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// mustInstall installs, and checks that the whole set is there and nothing
// else.
func mustInstall(t *testing.T, o Options, dir string) Installed {
	t.Helper()
	done, err := Install(soon(t), o, dir)
	if err != nil {
		t.Fatal(err)
	}
	wantSet(t, dir, o.Version, "etcd", "etcdctl", "etcdutl")
	return done
}

func wantSet(t *testing.T, dir string, v etcdversion.Version, names ...string) {
	t.Helper()
	if wrong := Present(soon(t), dir).Problems(v); len(wrong) > 0 {
		t.Fatalf("%s is not etcd %s: %q", dir, v, wrong)
	}
	if got := listed(t, dir); !slices.Equal(got, names) {
		t.Fatalf("%s has %q, want %q", dir, got, names)
	}
	for _, name := range names {
		if st, err := os.Lstat(filepath.Join(dir, name)); err != nil || st.Mode() != 0o755 {
			t.Errorf("%s has mode %v, %v", name, st.Mode(), err)
		}
	}
}

func listed(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// wantError checks that err says all of words.
func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q: %v", w, err)
		}
	}
}

// wantHint checks that the hint of err says all of words.
func wantHint(t *testing.T, err error, words ...string) {
	t.Helper()
	hint := hintOf(err)
	for _, w := range words {
		if !strings.Contains(hint, w) {
			t.Errorf("the hint does not say %q: %q", w, hint)
		}
	}
}
