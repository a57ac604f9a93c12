package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/internal/keystone/keystonetest"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/store/storetest"
)

func TestSwift(t *testing.T) {
	f := startSwift(t)
	store.Register("quickswift", func(u *url.URL) (store.Dial, error) {
		c, err := parseSwift(u)
		if err != nil {
			return nil, err
		}
		c.settle = 10 * time.Millisecond
		return c.dial, nil
	})
	paths := 0
	storetest.Run(t, func(t *testing.T) func() *store.Store {
		paths++
		location := fmt.Sprintf("quickswift://container/a/path/%d", paths)
		return func() *store.Store { return f.open(t, location) }
	})
	for key := range f.objects {
		if !strings.HasPrefix(key, "a/path/") {
			t.Errorf("the object %s is not in the store", key)
		}
	}
}

// segments returns the keys of those that are there.
func (f *swiftFake) segments() (keys []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.objects {
		if strings.Contains(key, store.SegmentsDir) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (f *swiftFake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

const largeKey = "2026-11-20T10:39:37Z-000001/etcd.backup.gz"

// Segments are deleted with their backup, and those of an upload that was broken
// off are found.
func TestSegmentsOfABackup(t *testing.T) {
	f := startSwift(t)
	s := f.open(t, "swift://container")
	ctx := t.Context()
	if made, err := s.Upload(ctx, largeKey, storetest.Content(20<<20)); !made || err != nil {
		t.Fatalf("%t, %v", made, err)
	}
	if keys := f.segments(); len(keys) != 3 || !strings.HasPrefix(keys[0], largeKey+".segments/") {
		t.Errorf("the segments are %q", keys)
	}
	if err := s.Put(ctx, "2026-11-20T10:39:37Z-000001/_etcd_backup.meta", []byte("{}")); err != nil {
		t.Error(err)
	}
	all, err := s.Backups(ctx)
	if err != nil || len(all) != 1 || all[0].Size != 20<<20 {
		t.Errorf("%+v, %v", all, err)
	}
	if err := s.DeleteBackup(ctx, "2026-11-20T10:39:37Z-000001"); err != nil || len(f.objects) > 0 {
		t.Errorf("%v, %d objects stay", err, len(f.objects))
	}
	// A program that is killed leaves its segments.
	if err := s.Put(ctx, "2026-11-19T10:39:37Z-000001/etcd.backup.gz.segments/X/00000001", []byte("x")); err != nil {
		t.Error(err)
	}
	left, err := s.Leftovers(ctx, f.clock.AddDate(1, 0, 0))
	if err != nil || !slices.Equal(left, []string{"2026-11-19T10:39:37Z-000001"}) {
		t.Fatalf("%q, %v", left, err)
	}
	if err := s.DeleteBackup(ctx, left[0]); err != nil || len(f.objects) > 0 {
		t.Errorf("%v, %d objects stay", err, len(f.objects))
	}
}

// An upload of segments whose last answer is lost, or is an error, leaves the
// object whole, or nothing.
func TestTheManifestDecides(t *testing.T) {
	isManifest := func(r *http.Request) bool { return r.URL.Query().Has("multipart-manifest") }
	for name, c := range map[string]struct {
		prepare func(f *swiftFake)
		made    bool
		want    string
	}{
		"the answer is lost": {func(f *swiftFake) {
			lost := 0
			f.after = func(_ http.ResponseWriter, r *http.Request) bool {
				if lost++; isManifest(r) && lost < 1000 {
					lost = 1000
					panic(http.ErrAbortHandler)
				}
				return false
			}
		}, true, ""},
		"another writer was faster": {func(f *swiftFake) {
			f.before = func(_ http.ResponseWriter, r *http.Request) bool {
				if isManifest(r) {
					f.objects["x/"+largeKey] = swiftObject{content: []byte("other"), header: http.Header{}}
				}
				return false
			}
		}, false, ""},
		"it is refused": {func(f *swiftFake) {
			f.before = func(w http.ResponseWriter, r *http.Request) bool {
				if isManifest(r) {
					http.Error(w, "Errors:", http.StatusBadRequest)
				}
				return isManifest(r)
			}
		}, false, "400"},
		"the server has none": {func(f *swiftFake) { f.noSLO = true }, false, "static large objects"},
		"a segment is refused": {func(f *swiftFake) {
			f.before = func(w http.ResponseWriter, r *http.Request) bool {
				bad := strings.HasSuffix(r.URL.Path, "/00000002") && r.Method == http.MethodPut
				if bad {
					w.WriteHeader(http.StatusRequestEntityTooLarge)
				}
				return bad
			}
		}, false, "part 2"},
	} {
		t.Run(name, func(t *testing.T) {
			f := startSwift(t)
			c.prepare(f)
			s := f.open(t, "swift://container/x")
			made, err := s.Upload(t.Context(), largeKey, storetest.Content(20<<20))
			if made != c.made || (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%t, %v, want %t, %q", made, err, c.made, c.want)
			}
			want := 0
			if c.made {
				want = 3
			}
			if keys := f.segments(); len(keys) != want {
				t.Errorf("the segments %q stay", keys)
			}
			f.set(func() { f.before, f.after = nil, nil })
			r, err := s.Open(t.Context(), largeKey)
			switch {
			case errors.Is(err, store.ErrAbsent) && !c.made:
				return
			case err != nil:
				t.Fatal(err)
			}
			n, err := io.Copy(io.Discard, r)
			if whole := n == 20<<20; err != nil || whole != c.made {
				t.Errorf("read %d bytes, %v", n, err)
			}
		})
	}
}

// Swift lets two writers at the same time both believe that they made an object.
// It is looked again, so that one of them knows better.
func TestTwoWritersAtOnce(t *testing.T) {
	f := startSwift(t)
	ctx := t.Context()
	key := "control/incarnations/1"
	f.after = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, key) {
			o := f.objects["x/"+key]
			o.content, o.header = []byte("later"), http.Header{"X-Object-Meta-Writer": {"another"}}
			f.objects["x/"+key] = o
		}
		return false
	}
	s := f.open(t, "swift://container/x")
	if made, err := s.Create(ctx, key, []byte("mine")); made || err != nil {
		t.Errorf("%t, %v", made, err)
	}
	// What is later than the write stays, and the server says so.
	f.set(func() {
		f.after = nil
		f.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "x/b") {
				f.objects["x/b"] = swiftObject{content: []byte("later"), header: http.Header{}}
				w.WriteHeader(http.StatusAccepted)
				return true
			}
			return false
		}
	})
	if made, err := s.Create(ctx, "b", []byte("mine")); made || err != nil {
		t.Errorf("%t, %v", made, err)
	}
}

// A server that ignores conditions holds no control objects.
func TestSwiftWithoutConditions(t *testing.T) {
	f := startSwift(t)
	f.blind = true
	s := f.open(t, "swift://container/x")
	if made, err := s.Create(t.Context(), "control/a", nil); made || !errors.Is(err, store.ErrDenied) ||
		!strings.Contains(err.Error(), "If-None-Match") {
		t.Errorf("%t, %v", made, err)
	}
	s = f.open(t, "swift://container/x?conditional_writes=off")
	if made, err := s.Create(t.Context(), "a", nil); !made || err != nil {
		t.Errorf("%t, %v", made, err)
	}
}

func TestSwiftRefuses(t *testing.T) {
	f := startSwift(t)
	s := f.open(t, "swift://container/x")
	ctx := t.Context()
	if _, err := s.Get(ctx, "a"); !errors.Is(err, store.ErrAbsent) {
		t.Errorf("a missing object: %v", err)
	}
	f.set(func() {
		f.before = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusForbidden); return true }
	})
	check := func(s *store.Store, want error, text string) {
		t.Helper()
		_, pollErr := s.Poll(ctx)
		_, getErr := s.Get(ctx, "a")
		_, createErr := s.Create(ctx, "b", nil)
		_, uploadErr := s.Upload(ctx, "c", storetest.Content(9<<20))
		for what, err := range map[string]error{
			"poll": pollErr, "get": getErr, "create": createErr, "upload": uploadErr, "put": s.Put(ctx, "a", nil),
		} {
			if !errors.Is(err, want) || errors.Is(err, store.ErrAbsent) || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, want %v, %q", what, err, want, text)
			}
		}
	}
	check(s, store.ErrDenied, "403")
	f.set(func() { f.before, f.gone = nil, true })
	// A new store does not know that the container was there.
	check(f.open(t, "swift://container/x"), store.ErrUnreachable, "there is no container container")
	f.set(func() { f.gone = false })
	check(f.open(t, "swift://container/x?region=elsewhere"), store.ErrUnreachable, `region "elsewhere"`)
	t.Setenv("OS_AUTH_URL", f.url+"/identity/v3")
	t.Setenv("OS_USERNAME", keystonetest.User)
	t.Setenv("OS_PASSWORD", "wrong")
	check(f.open(t, "swift://container/x"), store.ErrDenied, "log in to OpenStack")
}

// What passes by itself is asked for again; tokens are renewed.
func TestSwiftIsAskedAgain(t *testing.T) {
	f := startSwift(t)
	s := f.open(t, "swift://container/x")
	ctx := t.Context()
	statuses := []int{http.StatusServiceUnavailable, http.StatusTooManyRequests, 498, http.StatusInternalServerError}
	f.before = func(w http.ResponseWriter, _ *http.Request) bool {
		if len(statuses) == 0 {
			return false
		}
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(statuses[0])
		statuses = statuses[1:]
		return true
	}
	if err := s.Put(ctx, "a", []byte("content")); err != nil {
		t.Error(err)
	}
	f.keystone.Expire()
	if err := s.Put(ctx, "a", []byte("other")); err != nil || f.keystone.Given() != 2 {
		t.Errorf("%v, %d tokens", err, f.keystone.Given())
	}
	if b, err := s.Get(ctx, "a"); err != nil || string(b) != "other" {
		t.Errorf("%q, %v", b, err)
	}
	// What is damaged on its way is not stored.
	f.set(func() {
		f.before = func(_ http.ResponseWriter, r *http.Request) bool {
			r.Header.Set("Etag", sumOf([]byte("what was sent")))
			return false
		}
	})
	if err := s.Put(ctx, "b", []byte("what came")); err == nil || !strings.Contains(err.Error(), "422") {
		t.Errorf("%v", err)
	}
}

// What Keystone or a load balancer does not find is not the object.
func TestSwiftIsNotEverybody(t *testing.T) {
	f := startSwift(t)
	s := f.open(t, "swift://container/x")
	if err := s.Put(t.Context(), "a", []byte("content")); err != nil {
		t.Fatal(err)
	}
	absent := func(of string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Get(ctx, "a"); err == nil || errors.Is(err, store.ErrAbsent) {
			t.Errorf("%s: %v", of, err)
		}
	}
	f.set(func() {
		f.before = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Del("X-Trans-Id")
			http.NotFound(w, nil)
			return true
		}
	})
	absent("a load balancer")
	f.set(func() { f.before = nil })
	f.keystone.Lose(true)
	f.keystone.Expire()
	absent("Keystone")
	f.keystone.Lose(false)
	if b, err := s.Get(t.Context(), "a"); err != nil || string(b) != "content" {
		t.Errorf("%q, %v", b, err)
	}
}

// A server whose clock is behind keeps an object that another one has stored.
func TestSwiftOfServersWhoseClocksDiffer(t *testing.T) {
	f := startSwift(t)
	s := f.open(t, "swift://container/x")
	kept := 0
	f.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && kept > 0 {
			kept--
			w.WriteHeader(http.StatusAccepted)
			return true
		}
		return false
	}
	f.set(func() { kept = 1 })
	if err := s.Put(t.Context(), "a", []byte("content")); err != nil {
		t.Error(err)
	}
	if b, err := s.Get(t.Context(), "a"); err != nil || string(b) != "content" {
		t.Errorf("%q, %v", b, err)
	}
	f.set(func() { kept = latenessTries })
	if err := s.Put(t.Context(), "a", []byte("other")); !errors.Is(err, store.ErrUnreachable) ||
		!strings.Contains(err.Error(), "its clocks differ") {
		t.Errorf("%v", err)
	}
}
