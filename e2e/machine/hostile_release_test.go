package machine

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// A shop is a server of release archives of one version, whose files a test
// may spoil.
type shop struct {
	*httptest.Server
	mu    sync.Mutex
	files map[string][]byte
	// cut, if not 0, is after how many bytes each answer with an archive breaks off.
	cut int
}

// archiveName is what the archive is called.
func archiveName() string { return fmt.Sprintf("etcd-v%s-linux-%s.tar.gz", v36, runtime.GOARCH) }

// newShop returns a server with an archive and the checksum of it.
func newShop(t *testing.T, archive []byte) *shop {
	t.Helper()
	s := &shop{files: map[string][]byte{}}
	s.set(archive)
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

// set changes the archive and its checksum.
func (s *shop) set(archive []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256(archive)
	s.files[archiveName()] = archive
	s.files["SHA256SUMS"] = fmt.Appendf(nil, "%s  %s\n", hex.EncodeToString(sum[:]), archiveName())
}

// say changes what is in the file of checksums.
func (s *shop) say(sums string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files["SHA256SUMS"] = []byte(sums)
}

// breakOff sets after how many bytes of an archive the connection ends; 0 means never.
func (s *shop) breakOff(cut int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = cut
}

func (s *shop) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	b, ok := s.files[strings.TrimPrefix(r.URL.Path, "/v"+v36+"/")]
	cut := s.cut
	s.mu.Unlock()
	switch {
	case !ok:
		http.NotFound(w, r)
	case cut > 0 && strings.HasSuffix(r.URL.Path, ".gz"):
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		_, _ = w.Write(b[:min(cut, len(b))])
		panic(http.ErrAbortHandler)
	default:
		_, _ = w.Write(b)
	}
}

// An entry is a file in an archive.
type entry struct {
	name    string
	content []byte
}

// pack makes a release archive. It is not compressed, which takes time.
func pack(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for _, e := range entries {
		if err := w.WriteHeader(&tar.Header{Name: e.name, Mode: 0o755, Size: int64(len(e.content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

var releases sync.Map

// release returns the archive of a real release.
func release(t *testing.T) []byte {
	t.Helper()
	etcdDir(t, v36) // without it the test is skipped, which must not happen within the Once
	get, _ := releases.LoadOrStore(v36, sync.OnceValue(func() []byte { return pack(t, programsOf(t)...) }))
	return get.(func() []byte)()
}

func programsOf(t *testing.T) []entry {
	t.Helper()
	var entries []entry
	for _, name := range []string{"etcd", "etcdctl", "etcdutl"} {
		b, err := os.ReadFile(filepath.Join(etcdDir(t, v36), name))
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry{strings.TrimSuffix(archiveName(), ".tar.gz") + "/" + name, b})
	}
	return entries
}

// openDownload has an init that gets etcd from a server.
func openDownload(t *testing.T) scene {
	s := openInit(t)
	s.h.binaries = ""
	s.args = append(s.args, "--release-url", newShop(t, release(t)).URL)
	inner := s.check
	s.check = func() {
		left := glob(t, s.h.path("cache", "etcd", "v"+v36, "*"))
		for i := range left {
			left[i] = filepath.Base(left[i])
		}
		if got := strings.Join(left, " "); got != archiveName()+" "+archiveName()+".sha256" {
			t.Errorf("the cache has %s", got)
		}
		if err := os.RemoveAll(s.h.path("cache")); err != nil {
			t.Fatal(err)
		}
		inner()
	}
	return s
}

// Archives that are not what they should be are refused, name why, and leave
// nothing behind that a later command would take for good.
func TestBadReleases(t *testing.T) {
	t.Parallel()
	good := release(t)
	small := pack(t, entry{"etcd-v" + v36 + "/etcd", []byte("#!/bin/sh\necho etcd Version: 1.2.3\n")}, entry{
		"etcd-v" + v36 + "/etcdctl", []byte("#!/bin/sh\necho etcdctl version: 1.2.3\n"),
	})
	for name, tt := range map[string]struct {
		spoil func(*shop)
		words []string
	}{
		"cut off, no length": {func(s *shop) { s.set(good[:1<<20]) }, []string{"is truncated"}},
		"wrong checksum": {func(s *shop) { s.say(strings.Repeat("0", 64) + "  " + archiveName() + "\n") }, []string{
			"checksum",
		}},
		"no checksum":     {func(s *shop) { s.say("") }, []string{"checksum", "--"}},
		"another version": {func(s *shop) { s.set(small) }, []string{"1.2.3"}},
		"no archive":      {func(s *shop) { s.set([]byte("<html>log in first</html>")) }, []string{archiveName()}},
		"leads outside": {func(s *shop) { s.set(pack(t, entry{"../../../../escaped", []byte("x")}, entry{"x/etcd", nil})) },
			[]string{"../", "outside"}},
		"absolute": {func(s *shop) { s.set(pack(t, entry{"/escaped", []byte("x")})) }, []string{"/escaped", "outside"}},
		"without etcd": {func(s *shop) { s.set(pack(t, entry{"etcd-v" + v36 + "/README.md", []byte("x")})) }, []string{
			"no file etcd",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			badRelease(t, good, tt.spoil, tt.words)
		})
	}
}

// badRelease has a machine begin with what spoil leaves of a good release, and then with
// a good one.
func badRelease(t *testing.T, good []byte, spoil func(*shop), words []string) {
	t.Helper()
	h := newHost(t, "a", v36)
	h.binaries = ""
	s := newShop(t, good)
	spoil(s)
	h.fails(1, append(words, "hint: "), "init", "--release-url", s.URL,
		"--membership-timeout=10s")
	if left := glob(t, h.path("bin", "*")); len(left) > 0 {
		t.Errorf("something is installed: %q", left)
	}
	if left := glob(t, h.path("bin", ".*")); len(left) > 0 {
		t.Errorf("something is left: %q", left)
	}
	if exists(h.path("etc")) || exists(h.path("data")) || exists("/escaped") || exists(h.path("escaped")) {
		t.Error("it went on, or wrote elsewhere")
	}
	// The server is fixed.
	s.set(good)
	s.breakOff(0)
	h.ok("init", "--release-url", s.URL)
	h.wantVoters("a")
}
