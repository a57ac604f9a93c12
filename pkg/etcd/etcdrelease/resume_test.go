package etcdrelease

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// cutAfter answers the first few requests for the archive with the half of
// what is asked for.
func cutAfter(s *site, times int32, etag bool) func(w http.ResponseWriter, r *http.Request, _ int) bool {
	var cut atomic.Int32
	return func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if r.URL.Path != where || cut.Add(1) > times {
			return false
		}
		b, code := s.get(where), http.StatusOK
		from := 0
		if n, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); n == 1 && err == nil {
			code = http.StatusPartialContent
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(b)-1, len(b)))
		}
		if etag {
			w.Header().Set("Etag", `"`+digest(b)[:8]+`"`)
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(b)-from))
		w.WriteHeader(code)
		w.Write(b[from : from+(len(b)-from)/2])
		return true
	}
}

func TestDownloadGoesOnWhereItBroke(t *testing.T) {
	s := newSite(t, version)
	s.answer(cutAfter(s, 2, true))
	o := s.from(t, version)
	mustDownload(t, o, s.get(where))
	size := len(s.get(where))
	half := size / 2
	want := []string{where, fmt.Sprintf("%s bytes=%d-", where, half),
		fmt.Sprintf("%s bytes=%d-", where, half+(size-half)/2)}
	if got := s.archiveRequests(); !slices.Equal(got, want) {
		t.Errorf("requests: %q, want %q", got, want)
	}
}

// A later run goes on as well, unless the archive has become another.
func TestDownloadGoesOnInALaterRun(t *testing.T) {
	for name, c := range map[string]struct {
		etag    bool
		between func(s *site, o Options)
		resumed bool
		tries   int
	}{
		"same archive":      {etag: true, resumed: true, tries: 1},
		"without validator": {etag: false, resumed: false, tries: 1},
		"another archive": {etag: true, between: func(s *site, _ Options) { s.publish(version, packedAgain(t, version)) },
			resumed: true, tries: 1},
		"part was damaged": {etag: true, between: func(_ *site, o Options) { damage(t, o.cachePath()+".part") },
			resumed: true, tries: 2},
		"part is too long": {etag: true, between: func(_ *site, o Options) {
			appendTo(t, o.cachePath()+".part", noise(200<<10))
		}, resumed: true, tries: 2},
		"part is nearly all": {etag: true, between: func(s *site, o Options) {
			write(t, o.cachePath()+".part", s.get(where)[:100])
		}, resumed: true, tries: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, version)
			s.answer(cutAfter(s, 1, c.etag))
			o := s.from(t, version)
			o.pace.tries = 1
			_, _, err := Download(soon(t), o)
			wantError(t, err, "unexpected EOF", "after "+strconv.Itoa(len(s.get(where))/2)+" bytes")
			if c.between != nil {
				c.between(s, o)
			}
			s.requests()
			o.pace.tries = 3
			mustDownload(t, o, s.get(where))
			got := s.archiveRequests()
			if len(got) != c.tries || strings.Contains(got[0], "bytes=") != c.resumed {
				t.Errorf("requests: %q", got)
			}
			wantCache(t, o, filepath.Base(where), filepath.Base(where)+".sha256")
		})
	}
}

func packedAgain(t *testing.T, v string) []byte {
	return packed(t, tarOf(t, binaries("", v)...))
}

func damage(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	write(t, path, b)
}

func appendTo(t *testing.T, path string, b []byte) {
	t.Helper()
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, append(old, b...))
}

// Killed between the last byte and the rename: nothing is fetched again.
func TestDownloadTakesAFinishedPart(t *testing.T) {
	s := newSite(t, version)
	o := s.from(t, version)
	write(t, o.cachePath()+".part", s.get(where))
	write(t, filepath.Join(filepath.Dir(o.cachePath()), "."+filepath.Base(where)+".sha256.tmp-1"), []byte("half"))
	mustDownload(t, o, s.get(where))
	if got := s.archiveRequests(); len(got) != 0 {
		t.Errorf("requests: %q", got)
	}
	wantCache(t, o, filepath.Base(where), filepath.Base(where)+".sha256")
}

func TestDownloadSurvivesAServerThatIsBusy(t *testing.T) {
	for _, code := range []int{500, 502, 503, 429} {
		s := newSite(t, version)
		s.answer(func(w http.ResponseWriter, _ *http.Request, nth int) bool {
			if nth%3 == 0 {
				return false
			}
			w.WriteHeader(code)
			return true
		})
		mustDownload(t, s.from(t, version), s.get(where))
	}
}

func TestDownloadGivesUp(t *testing.T) {
	s := newSite(t, version)
	s.answer(func(w http.ResponseWriter, _ *http.Request, _ int) bool { w.WriteHeader(503); return true })
	err := third(Download(soon(t), s.from(t, version)))
	wantError(t, err, "503 Service Unavailable", "tried 3 times", "SHA256SUMS")
	if got := s.requests(); len(got) != 3 {
		t.Errorf("requests: %q", got)
	}
	s.answer(func(w http.ResponseWriter, _ *http.Request, _ int) bool { w.WriteHeader(407); return true })
	err = third(Download(soon(t), s.from(t, version)))
	wantHint(t, err, "proxy")
	if got := s.requests(); len(got) != 1 {
		t.Errorf("requests: %q", got)
	}
	// The caller may give up earlier.
	s.answer(func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(503)
		return true
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	wantError(t, third(Download(ctx, s.from(t, version))), "503")
	if got := s.requests(); len(got) != 1 {
		t.Errorf("requests: %q", got)
	}
}

// unreachable is the address of a server that takes connections and says nothing.
func unreachable(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { io.Copy(io.Discard, c); c.Close() })
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return l.Addr().String()
}

// The existing etcdadm takes --download-connect-timeout and ignores it.
func TestConnectTimeoutIsUsed(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			o := local(t, version)
			o.Sources.ReleaseURL = scheme + "://" + unreachable(t)
			o.ConnectTimeout = 50 * time.Millisecond
			begin := time.Now()
			err := third(Download(soon(t), o))
			wantError(t, err, "tried 3 times")
			if took := time.Since(begin); took < 100*time.Millisecond || took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
			wantHint(t, err, "network")
		})
	}
	t.Run("with a client of the caller", func(t *testing.T) {
		o := local(t, version)
		o.Sources.ReleaseURL = "http://" + unreachable(t)
		o.ConnectTimeout = 50 * time.Millisecond
		o.Client = &http.Client{}
		wantError(t, third(Download(soon(t), o)), "no answer from 127.0.0.1", "in 50ms")
	})
}

func TestDownloadThatStallsGoesOn(t *testing.T) {
	s := newSite(t, version)
	var stalled atomic.Bool
	s.answer(func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if r.URL.Path != where || stalled.Swap(true) {
			return false
		}
		b := s.get(where)
		w.Header().Set("Etag", `"`+digest(b)[:8]+`"`)
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
		w.Write(b[:1000])
		w.(http.Flusher).Flush()
		<-r.Context().Done() // until the client hangs up
		return true
	})
	o := s.from(t, version)
	o.ConnectTimeout = 3 * time.Second // does not count any more
	o.pace.stall = 5 * time.Second
	mustDownload(t, o, s.get(where))
	if got := s.archiveRequests(); !slices.Equal(got, []string{where, where + " bytes=1000-"}) {
		t.Errorf("requests: %q", got)
	}
}
