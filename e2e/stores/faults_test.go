package stores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/etcdadm/etcdadm/e2e/stores/servers"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/store/storetest"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// behindProxy starts an S3 server and a proxy before it, which the stores of the
// test use.
func behindProxy(t *testing.T) (*servers.S3, *servers.Proxy) {
	t.Helper()
	server := servers.StartS3(t)
	proxy := servers.StartProxy(t, server.Endpoint)
	t.Setenv("S3_ENDPOINT", proxy.URL)
	return server, proxy
}

func is(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error is %v, want one that is %q", err, kind)
	}
}

// nothingLeft fails the test if there is an object with a key, or part of one.
func nothingLeft(t *testing.T, server *servers.S3, key string) {
	t.Helper()
	uploads, err := server.Client().ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{
		Bucket: &server.Bucket,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(uploads.Uploads) > 0 {
		t.Errorf("%d multipart uploads are left", len(uploads.Uploads))
	}
	versions, err := server.Client().ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{
		Bucket: &server.Bucket, Prefix: &key,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(versions.Versions) > 0 {
		t.Errorf("an object is left: %s", *versions.Versions[0].Key)
	}
}

// isPart says that a request sends a part.
func isPart(r *http.Request) bool {
	return r.Method == http.MethodPut && r.URL.Query().Has("partNumber")
}

// isComplete says that a request puts the parts together.
func isComplete(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
}

func TestDenied(t *testing.T) {
	_, proxy := behindProxy(t)
	s, ctx := open(t, "s3://backups/x"), t.Context()
	const name = "2026-11-20T10:39:37Z-000001"
	if err := errors.Join(s.Put(ctx, name+"/"+retention.DataFile, []byte("x")),
		s.Put(ctx, name+"/"+retention.MarkerFile, []byte("{}")), s.MarkCreated(ctx, time.Now())); err != nil {
		t.Fatal(err)
	}
	for _, code := range []string{"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"} {
		for method, calls := range map[string]map[string]func() error{
			http.MethodDelete: {
				"delete":        func() error { return s.Delete(ctx, name+"/"+retention.DataFile) },
				"delete backup": func() error { return s.DeleteBackup(ctx, name) },
			},
			http.MethodGet: {
				"poll":    func() error { _, err := s.Poll(ctx); return err },
				"backups": func() error { _, err := s.Backups(ctx); return err },
				"get":     func() error { _, err := s.Created(ctx); return err },
				"open":    func() error { _, err := s.Open(ctx, name+"/"+retention.DataFile); return err },
				"exists":  func() error { _, err := s.Exists(ctx, "no/object"); return err },
			},
			http.MethodPut: {
				"put":    func() error { return s.Put(ctx, "a", nil) },
				"create": func() error { _, err := s.Create(ctx, "b", nil); return err },
				"upload": func() error { _, err := s.Upload(ctx, "c", storetest.Content(9<<20)); return err },
			},
			http.MethodPost: {
				"upload": func() error { _, err := s.Upload(ctx, "d", storetest.Content(9<<20)); return err },
			},
		} {
			proxy.Disturb(func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) bool {
				if r.Method == method {
					servers.Answer(w, http.StatusForbidden, code)
				}
				return r.Method == method
			})
			for what, call := range calls {
				if err := call(); !errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrUnreachable) ||
					errors.Is(err, store.ErrAbsent) {
					t.Errorf("%s, with %s for a %s: %v", what, code, method, err)
				}
			}
		}
	}
	proxy.Disturb(nil)
	if all, err := s.Backups(ctx); err != nil || len(all) != 1 {
		t.Errorf("after denials backups are %+v, %v", all, err)
	}
}

// A store that denies deletion, overwriting, reading and listing takes a backup.
func TestWriteOnly(t *testing.T) {
	server, proxy := behindProxy(t)
	s, ctx := open(t, "s3://backups/x"), t.Context()
	proxy.Disturb(func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) bool {
		// To remove one's own parts is another permission than to delete.
		denied := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodDelete &&
			!r.URL.Query().Has("uploadId") ||
			r.Method == http.MethodPut && !isPart(r) && r.Header.Get("If-None-Match") == ""
		if denied {
			servers.Answer(w, http.StatusForbidden, "AccessDenied")
		}
		return denied
	})
	for key, size := range map[string]int64{"b/data": 20 << 20, "b/marker": 100} {
		for _, want := range []bool{true, false} {
			if made, err := s.Upload(ctx, key, storetest.Content(size)); made != want || err != nil {
				t.Errorf("upload of %s: %t, %v, want %t", key, made, err, want)
			}
		}
	}
	is(t, s.Put(ctx, "b/marker", nil), store.ErrDenied)
	proxy.Disturb(nil)
	nothingLeft(t, server, "x/other")
}

func TestThrottled(t *testing.T) {
	server, proxy := behindProxy(t)
	s, ctx := open(t, "s3://backups/x"), t.Context()
	calls := map[string]func() error{
		"put":    func() error { return s.Put(ctx, "a", []byte("x")) },
		"get":    func() error { _, err := s.Get(ctx, "a"); return err },
		"poll":   func() error { _, err := s.Poll(ctx); return err },
		"delete": func() error { return s.Delete(ctx, "never") },
	}
	if err := calls["put"](); err != nil {
		t.Fatal(err)
	}
	for what, call := range calls {
		var left atomic.Int64
		left.Store(2)
		proxy.Disturb(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) bool {
			if left.Add(-1) < 0 {
				return false
			}
			servers.Answer(w, http.StatusServiceUnavailable, "SlowDown")
			return true
		})
		if err := call(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Every request of an upload fails once.
	var seen sync.Map
	proxy.Disturb(func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) bool {
		what := r.Method + r.URL.Query().Get("partNumber") + fmt.Sprint(isComplete(r))
		if _, again := seen.LoadOrStore(what, true); again {
			return false
		}
		servers.Answer(w, http.StatusServiceUnavailable, "SlowDown")
		return true
	})
	if made, err := s.Upload(ctx, "big", storetest.Content(20<<20)); !made || err != nil {
		t.Errorf("upload: %t, %v", made, err)
	}
	proxy.Disturb(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) bool {
		servers.Answer(w, http.StatusServiceUnavailable, "SlowDown")
		return true
	})
	testwait.InTime(t, "a poll that is always throttled", 4*time.Second, func() {
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if _, err := s.Poll(short); !errors.Is(err, store.ErrUnreachable) {
			t.Errorf("always throttled: %v", err)
		}
	})
	proxy.Disturb(nil)
	nothingLeft(t, server, "x/other")
}

func TestConnectionLostInAPart(t *testing.T) {
	server, proxy := behindProxy(t)
	s, ctx := open(t, "s3://backups/x"), t.Context()
	var broken atomic.Int64
	proxy.Disturb(func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) bool {
		if !isPart(r) || r.URL.Query().Get("partNumber") != "2" || broken.Add(1) > 2 {
			return false
		}
		servers.ReadSome(r, 1<<20)
		servers.Reset(w)
		return true
	})
	const size = 20 << 20
	if made, err := s.Upload(ctx, "retried", storetest.Content(size)); !made || err != nil || broken.Load() < 3 {
		t.Fatalf("%t, %v after %d tries", made, err, broken.Load())
	}
	r, err := s.Open(ctx, "retried")
	if err != nil {
		t.Fatal(err)
	}
	same(t, r, storetest.Content(size))
	proxy.Disturb(func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) bool {
		if isPart(r) {
			servers.Reset(w)
		}
		return isPart(r)
	})
	short, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if made, err := s.Upload(short, "lost", storetest.Content(size)); made || !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("parts that are never taken: %t, %v", made, err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, server, "x/lost")
}

func same(t *testing.T, got, want io.Reader) {
	t.Helper()
	a, b := make([]byte, 1<<20), make([]byte, 1<<20)
	for {
		n, errA := io.ReadFull(got, a)
		m, errB := io.ReadFull(want, b)
		if n != m || string(a[:n]) != string(b[:m]) {
			t.Fatalf("the content differs: %d and %d bytes, %v, %v", n, m, errA, errB)
		}
		if errA != nil || errB != nil {
			return
		}
	}
}

// The answer to a conditional write is lost, and the SDK asks again: it is then
// answered that the key is taken, by itself.
func TestLostAnswer(t *testing.T) {
	_, proxy := behindProxy(t)
	s, ctx := open(t, "s3://backups/x"), t.Context()
	for what, call := range map[string]func() (bool, error){
		"create": func() (bool, error) { return s.Create(ctx, "a", []byte("x")) },
		"upload": func() (bool, error) { return s.Upload(ctx, "b", storetest.Content(9<<20)) },
	} {
		var lost atomic.Bool
		proxy.Disturb(func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) bool {
			if r.Header.Get("If-None-Match") == "" || !lost.CompareAndSwap(false, true) {
				return false
			}
			pass(discard{}, r)
			servers.Reset(w)
			return true
		})
		if made, err := call(); !made || err != nil || !lost.Load() {
			t.Errorf("%s: %t, %v", what, made, err)
		}
		if made, err := call(); made || err != nil {
			t.Errorf("%s again: %t, %v", what, made, err)
		}
	}
}

// discard is a ResponseWriter of which nobody hears.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

func TestHangingServer(t *testing.T) {
	server, proxy := behindProxy(t)
	s, ctx := open(t, "s3://backups/x"), t.Context()
	if err := s.Put(ctx, "a", nil); err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	proxy.Disturb(func(_ http.ResponseWriter, r *http.Request, _ http.HandlerFunc) bool {
		select {
		case <-release:
		case <-r.Context().Done():
		}
		return true
	})
	for what, call := range map[string]func(context.Context) error{
		"poll":   func(ctx context.Context) error { _, err := s.Poll(ctx); return err },
		"get":    func(ctx context.Context) error { _, err := s.Get(ctx, "a"); return err },
		"put":    func(ctx context.Context) error { return s.Put(ctx, "a", nil) },
		"upload": func(ctx context.Context) error { _, err := s.Upload(ctx, "b", storetest.Content(9<<20)); return err },
		"open":   func(ctx context.Context) error { _, err := s.Open(ctx, "a"); return err },
	} {
		testwait.InTime(t, what, 3*time.Second, func() {
			short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			if err := call(short); !errors.Is(err, store.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	close(release)
	proxy.Disturb(nil)
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, server, "x/b")
}

// What a reader or an operator breaks off is removed before Upload returns.
func TestBrokenOffUpload(t *testing.T) {
	server := servers.StartS3(t)
	s := open(t, server.Location("x"))
	lost := errors.New("etcd is gone")
	_, err := s.Upload(t.Context(), "a", io.MultiReader(storetest.Content(30<<20), iotest.ErrReader(lost)))
	is(t, err, lost)
	nothingLeft(t, server, "x/a")
	ctx, cancel := context.WithCancel(t.Context())
	_, err = s.Upload(ctx, "b", io.MultiReader(storetest.Content(30<<20), cancelling(cancel), storetest.Content(30<<20)))
	is(t, err, context.Canceled)
	nothingLeft(t, server, "x/b")
}

// A part that was under way when its upload was aborted may still arrive: the upload is
// aborted until it is gone.
func TestAPartThatArrivesAfterTheAbort(t *testing.T) {
	server, proxy := behindProxy(t)
	s := open(t, "s3://backups/x")
	var aborted atomic.Bool
	proxy.Disturb(func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) bool {
		first := r.Method == http.MethodDelete && r.URL.Query().Has("uploadId") && aborted.CompareAndSwap(false, true)
		if first {
			w.WriteHeader(http.StatusNoContent)
		}
		return first
	})
	lost := errors.New("etcd is gone")
	_, err := s.Upload(t.Context(), "a", io.MultiReader(storetest.Content(30<<20), iotest.ErrReader(lost)))
	is(t, err, lost)
	if !aborted.Load() {
		t.Error("it was not aborted")
	}
	nothingLeft(t, server, "x/a")
}

type cancelling context.CancelFunc

func (c cancelling) Read([]byte) (int, error) { c(); return 0, io.EOF }

// A download goes on where its connection broke.
func TestConnectionLostInADownload(t *testing.T) {
	_, proxy := behindProxy(t)
	s, ctx := open(t, "s3://backups/x"), t.Context()
	const size = 20 << 20
	if _, err := s.Upload(ctx, "a", storetest.Content(size)); err != nil {
		t.Fatal(err)
	}
	var breaks atomic.Int64
	breaks.Store(3)
	cut := func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) bool {
		if r.Method != http.MethodGet || breaks.Add(-1) < 0 {
			return false
		}
		pass(&short{ResponseWriter: w, left: 5 << 20}, r)
		panic(http.ErrAbortHandler)
	}
	proxy.Disturb(cut)
	r, err := s.Open(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	same(t, r, storetest.Content(size))
	if err := r.Close(); err != nil || breaks.Load() > -1 {
		t.Errorf("%v, %d breaks are left", err, breaks.Load())
	}
	// Replaced in between, it is another object.
	breaks.Store(1)
	if r, err = s.Open(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, r, 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(ctx, "a", []byte("other")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); err == nil || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("an object that was replaced reads on: %v", err)
	}
	_ = r.Close()
}

// short is a ResponseWriter whose connection breaks.
type short struct {
	http.ResponseWriter
	left int
}

func (s *short) Write(b []byte) (int, error) {
	if s.left -= len(b); s.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return s.ResponseWriter.Write(b)
}

func (s *short) Unwrap() http.ResponseWriter { return s.ResponseWriter }
