package etcdrelease

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	version = "3.6.16"
	where   = "/v" + version + "/etcd-v" + version + "-linux-" + arch + ".tar.gz"
)

// mustDownload downloads, and checks what is in the cache after it.
func mustDownload(t *testing.T, o Options, want []byte) (fetched bool) {
	t.Helper()
	path, fetched, err := Download(soon(t), o)
	if err != nil {
		t.Fatal(err)
	}
	if cached, ok := Cached(o); path != o.cachePath() || cached != path || !ok {
		t.Errorf("it is in %q, the cache has %q, %v", path, cached, ok)
	}
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, want) {
		t.Fatalf("the cache has %d bytes, %v, want %d", len(b), err, len(want))
	}
	return fetched
}

func wantCache(t *testing.T, o Options, names ...string) {
	t.Helper()
	if got := listed(t, filepath.Dir(o.cachePath())); !slices.Equal(got, names) {
		t.Errorf("the cache has %q, want %q", got, names)
	}
}

func TestDownloadOnce(t *testing.T) {
	s := newSite(t, version)
	o := s.from(t, version)
	o.Sources.ReleaseURL += "/" // as people write it
	var done, total []int64
	o.Progress = func(d, n int64) { done, total = append(done, d), append(total, n) }
	if _, ok := Cached(o); ok {
		t.Error("an empty cache has it")
	}
	if !mustDownload(t, o, s.get(where)) {
		t.Error("it says that it was there")
	}
	size := int64(len(s.get(where)))
	if len(done) < 2 || !slices.IsSorted(done) || done[len(done)-1] != size || total[0] != size {
		t.Errorf("progress: %d of %d", done, total)
	}
	if got := s.requests(); !slices.Equal(got, []string{"/v3.6.16/SHA256SUMS", where}) {
		t.Errorf("requests: %q", got)
	}
	base := filepath.Base(where)
	wantCache(t, o, base, base+".sha256")
	line, _ := os.ReadFile(o.cachePath() + ".sha256")
	if string(line) != digest(s.get(where))+"  "+base+"\n" {
		t.Errorf("recorded: %q", line)
	}
	s.Close()
	if mustDownload(t, o, s.get(where)) {
		t.Error("it was fetched twice")
	}
	if mustInstall(t, o, t.TempDir()); len(s.requests()) > 0 {
		t.Error("installing asked the site")
	}
}

// What an interrupted curl of the retired etcdadm has left, and what a disk
// has done to our own, is found and fetched again.
func TestDownloadReplacesABadArchive(t *testing.T) {
	s := newSite(t, version)
	good := s.get(where)
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	other := release(t, "3.5.1")
	for _, c := range []struct {
		name     string
		cached   []byte
		recorded string
		sha256   string
	}{
		{name: "empty", cached: []byte{}},
		{name: "cut off", cached: good[:len(good)/2]},
		{name: "last byte missing", cached: good[:len(good)-1]},
		{name: "damaged", cached: flipped},
		{name: "a page of a proxy", cached: []byte("<html>please log in</html>")},
		{name: "other than recorded", cached: other, recorded: digest(good)},
		{name: "record damaged", cached: good, recorded: "nonsense"},
		{name: "other than given", cached: other, sha256: digest(good)},
		{name: "as recorded, other than given", cached: other, recorded: digest(other),
			sha256: strings.ToUpper(digest(good))},
	} {
		for _, op := range []string{"download", "install"} {
			t.Run(op+" over "+c.name, func(t *testing.T) {
				o := s.from(t, version)
				o.Sources.SHA256 = c.sha256
				seed(t, o, c.cached)
				if c.recorded != "" {
					write(t, o.cachePath()+".sha256", []byte(c.recorded+"  "+filepath.Base(where)+"\n"))
				}
				s.requests()
				if op == "install" {
					mustInstall(t, o, t.TempDir())
				} else if !mustDownload(t, o, good) {
					t.Error("it says that nothing was fetched")
				}
				if got := s.archiveRequests(); len(got) != 1 {
					t.Errorf("requests for the archive: %q", got)
				}
				if got, _ := Digest(o.cachePath()); got != digest(good) {
					t.Error("the cache is still bad")
				}
			})
		}
	}
}

func TestSeededArchiveNeedsNoNetwork(t *testing.T) {
	archive := release(t, version)
	// As image builders of EKS Anywhere do: no checksum beside it.
	o := local(t, version)
	seed(t, o, archive)
	if mustDownload(t, o, archive) {
		t.Error("it was fetched")
	}
	done := mustInstall(t, o, t.TempDir())
	if done.Source != o.cachePath() {
		t.Errorf("it comes from %q", done.Source)
	}
	wantCache(t, o, filepath.Base(where))
	// With a checksum, as sha256sum or as a bare digest.
	for _, beside := range []string{digest(archive) + " *etcd.tar.gz\n", strings.ToUpper(digest(archive))} {
		write(t, o.cachePath()+".sha256", []byte(beside))
		mustDownload(t, o, archive)
	}
	// A bad one, and nobody to ask: both are said, the way out first.
	write(t, o.cachePath()+".sha256", []byte(digest(nil)))
	for _, err := range []error{second(Install(soon(t), o, t.TempDir())), third(Download(soon(t), o))} {
		wantError(t, err, "127.0.0.1:1", "refused", "archive in the cache is not usable", digest(nil))
		wantHint(t, err, "network", "--binaries-archive")
	}
	// A version that is another's.
	o = local(t, version)
	seed(t, o, release(t, "3.6.1"))
	wantError(t, second(Install(soon(t), o, t.TempDir())), "not usable", "etcd has version 3.6.1")
}

func TestReadOnlyCache(t *testing.T) {
	o := local(t, version)
	seed(t, o, release(t, version))
	if err := unix.Mount(o.CacheDir, o.CacheDir, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("mounting is not permitted here: %v", err)
	}
	defer unix.Unmount(o.CacheDir, unix.MNT_DETACH)
	if err := unix.Mount("", o.CacheDir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Skipf("mounting is not permitted here: %v", err)
	}
	mustInstall(t, o, t.TempDir())
}

func second[A any](_ A, err error) error        { return err }
func third[A, B any](_ A, _ B, err error) error { return err }

func TestArchiveOfTheOperator(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "etcd.tar.gz")
	write(t, archive, release(t, version))
	good := digest(release(t, version))
	o := local(t, version)
	o.Sources.Archive = archive
	o.Sources.SHA256 = "sha256:" + good
	mustInstall(t, o, t.TempDir())
	o.Sources.SHA256 = digest(nil)
	var sum *ChecksumError
	err := second(Install(soon(t), o, t.TempDir()))
	if !errors.As(err, &sum) || sum.Want != digest(nil) || sum.Got != good {
		t.Errorf("got %v", err)
	}
	wantError(t, err, "--binaries-sha256", archive)
	o.Sources.SHA256 = ""
	write(t, archive+".sha256", []byte(digest(nil)))
	wantError(t, second(Install(soon(t), o, t.TempDir())), archive+".sha256")
}

func TestDownloadOfAWrongArchive(t *testing.T) {
	s := newSite(t, version)
	s.put(where, release(t, "3.6.1"))
	for _, skip := range []bool{false, true} {
		o := s.from(t, version)
		o.Sources.SkipChecksum = skip // is for what has none
		_, _, err := Download(soon(t), o)
		var sum *ChecksumError
		if !errors.As(err, &sum) || sum.Got != digest(s.get(where)) || sum.From != s.URL+"/v3.6.16/SHA256SUMS" {
			t.Fatalf("got %v", err)
		}
		wantHint(t, err, "do not use")
		wantCache(t, o)
		if got := s.archiveRequests(); len(got) != 1 {
			t.Errorf("requests: %q", got)
		}
	}
}

func TestDownloadWithoutAnyChecksum(t *testing.T) {
	s := newSite(t, version)
	s.put("/v3.6.16/SHA256SUMS", []byte("nothing about it\n"))
	o := s.from(t, version)
	_, _, err := Download(soon(t), o)
	var none *NoChecksumError
	if !errors.As(err, &none) || none.URL != s.URL+where {
		t.Fatalf("got %v", err)
	}
	wantError(t, err, s.URL+"/v3.6.16/SHA256SUMS", s.URL+where+".sha256")
	wantHint(t, err, "--binaries-sha256", "--skip-checksum")
	wantCache(t, o)
	for _, set := range []func(o *Options){
		func(o *Options) { o.Sources.SHA256 = digest(s.get(where)) },
		func(o *Options) { o.Sources.SkipChecksum = true },
	} {
		o := s.from(t, version)
		set(&o)
		mustDownload(t, o, s.get(where))
	}
	// Nobody would notice that an old part does not fit.
	o = s.from(t, version)
	o.Sources.SkipChecksum = true
	write(t, o.cachePath()+".part", []byte("old"))
	mustDownload(t, o, s.get(where))
}

func TestDownloadNotFound(t *testing.T) {
	s := newSite(t, "3.6.15")
	for _, code := range []int{404, 403, 410} {
		s.answer(func(w http.ResponseWriter, _ *http.Request, _ int) bool { w.WriteHeader(code); return true })
		_, _, err := Download(soon(t), s.from(t, version))
		var none *NotFoundError
		if !errors.As(err, &none) || len(none.Answers) != 2 {
			t.Fatalf("got %v", err)
		}
		wantError(t, err, s.URL+where, fmt.Sprint(code), "etcd-linux-"+arch+"-v3.6.16.tar.gz", "no archive of etcd 3.6.16")
		wantHint(t, err, "--version", "--release-url")
	}
}

func TestDownloadFromEKSDistro(t *testing.T) {
	const v = "3.5.8-eks-1-26-16"
	s := newSite(t)
	archive := release(t, "3.5.8")
	name := "etcd-linux-" + arch + "-v" + v + ".tar.gz"
	path := "/artifacts/etcd/v" + v + "/" + name
	s.put(path, archive)
	s.put(path+".sha256", fmt.Appendf(nil, "%s  bin/elsewhere/%s\n", digest(archive), name))
	// Object stores hide what is missing.
	s.answer(func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if s.get(r.URL.Path) == nil {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	})
	for _, u := range []string{"/artifacts/etcd", path, path + "?signature=secret"} {
		o := s.from(t, v)
		o.Sources.ReleaseURL = s.URL + u
		mustDownload(t, o, archive)
		done := mustInstall(t, o, t.TempDir())
		if done.Version.String() != "3.5.8" ||
			!strings.HasSuffix(done.Source, "/etcd/v"+v+"/etcd-v"+v+"-linux-"+arch+".tar.gz") {
			t.Errorf("installed %+v", done)
		}
	}
	o := s.from(t, v)
	o.Sources.ReleaseURL = s.URL + "/none/x.tar.gz?signature=secret"
	err := third(Download(soon(t), o))
	wantError(t, err, s.URL+"/none/x.tar.gz: 403")
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error has the secret: %v", err)
	}
}

func TestConcurrentDownloadsFetchOnce(t *testing.T) {
	s := newSite(t, version)
	o := s.from(t, version)
	var all sync.WaitGroup
	var fetched atomic.Int32
	for range 6 {
		all.Go(func() {
			if mustDownload(t, o, s.get(where)) {
				fetched.Add(1)
			}
		})
	}
	all.Wait()
	if got := s.archiveRequests(); len(got) != 1 || fetched.Load() != 1 {
		t.Errorf("%d of them fetched it: %q", fetched.Load(), got)
	}
}

func TestDownloadOnAFullDisk(t *testing.T) {
	s := newSite(t, version)
	o := s.from(t, version)
	if err := unix.Mount("none", o.CacheDir, "tmpfs", 0, "size=32k"); err != nil {
		t.Skipf("mounting a small file system is not permitted here: %v", err)
	}
	defer unix.Unmount(o.CacheDir, unix.MNT_DETACH)
	err := third(Download(soon(t), o))
	var full *SpaceError
	if !errors.As(err, &full) {
		t.Fatalf("got %v", err)
	}
	if got := s.archiveRequests(); len(got) != 1 {
		t.Errorf("a full disk was tried again: %q", got)
	}
	wantCache(t, o) // and nothing of it is left
}

func TestDownloadWhereTheCacheCannotBe(t *testing.T) {
	s := newSite(t, version)
	o := s.from(t, version)
	write(t, o.CacheDir+"/etcd", nil)
	wantError(t, third(Download(soon(t), o)), o.CacheDir+"/etcd")
}

func TestReleaseURLs(t *testing.T) {
	for _, u := range []string{"ftp://x/y", "releases", "http://", "://", "https:///x"} {
		o := local(t, version)
		o.Sources.ReleaseURL = u
		err := third(Download(soon(t), o))
		wantError(t, err, "release URL", u)
		wantHint(t, err, "--release-url")
	}
	// A mirror on a mounted disk, as curl took it.
	dir, archive := t.TempDir(), release(t, version)
	write(t, dir+where, archive)
	write(t, dir+"/v3.6.16/SHA256SUMS", []byte(digest(archive)+"  "+filepath.Base(where)+"\n"))
	o := local(t, version)
	o.Sources.ReleaseURL = "file://" + dir
	mustDownload(t, o, archive)
	o = local(t, "3.6.1")
	o.Sources.ReleaseURL = "file://" + dir
	wantError(t, third(Download(soon(t), o)), "no archive of etcd 3.6.1", "404")
}

func TestDownloadOverTLS(t *testing.T) {
	s := newSite(t, version)
	plain := s.URL
	secure := httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	o := s.from(t, version)
	o.Sources.ReleaseURL = secure.URL
	err := third(Download(soon(t), o))
	wantError(t, err, "certificate signed by unknown authority")
	if strings.Contains(err.Error(), "tried") {
		t.Errorf("a wrong certificate was tried again: %v", err)
	}
	o.Client = secure.Client()
	mustDownload(t, o, s.get(where))

	// The checksum must not come from somebody else.
	for _, c := range []struct {
		from, to string
		follow   bool
	}{
		{plain, plain, true}, {plain, secure.URL, true}, {secure.URL, secure.URL, true},
		{secure.URL, plain, false}, {plain, "file:///etc/passwd", false}, {secure.URL, "file:///etc/passwd", false},
	} {
		err := checkRedirect(httptest.NewRequest(http.MethodGet, c.to, nil), []*http.Request{
			httptest.NewRequest(http.MethodGet, c.from, nil),
		})
		if (err == nil) != c.follow {
			t.Errorf("redirect from %s to %s: %v", c.from, c.to, err)
		}
	}
}

func TestDownloadFollowsRedirects(t *testing.T) {
	s := newSite(t, version)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, s.URL+r.URL.Path, http.StatusFound)
	}))
	defer front.Close()
	o := s.from(t, version)
	o.Sources.ReleaseURL = front.URL
	mustDownload(t, o, s.get(where))
	loop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Path, http.StatusFound)
	}))
	defer loop.Close()
	o = s.from(t, version)
	o.Sources.ReleaseURL = loop.URL
	wantError(t, third(Download(soon(t), o)), "10 redirects")
}
