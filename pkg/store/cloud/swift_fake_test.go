package cloud

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/internal/keystone/keystonetest"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// A swiftFake answers as the documentation of Swift says, as far as a store asks,
// for one container.
type swiftFake struct {
	t        *testing.T
	url      string
	keystone *keystonetest.Server

	mu      sync.Mutex
	objects map[string]swiftObject
	clock   time.Time
	// gone says that there is no container, noSLO that the server has no large
	// objects, blind that it does not check conditions.
	gone, noSLO, blind bool
	// before and after may answer a request in place of the server, before and after
	// it has done its work.
	before, after func(w http.ResponseWriter, r *http.Request) bool
}

type swiftObject struct {
	content  []byte
	etag     string
	large    bool
	header   http.Header
	modified time.Time
}

// tick is the smallest time that Swift distinguishes.
const tick = 10 * time.Microsecond

func startSwift(t *testing.T) *swiftFake {
	t.Helper()
	f := &swiftFake{t: t, objects: map[string]swiftObject{}}
	f.keystone = &keystonetest.Server{T: t, Services: map[string]string{"object-store": "/v1/AUTH_project-1"}}
	mux := http.NewServeMux()
	mux.Handle("/identity/", f.keystone)
	mux.Handle("/", f.keystone.Guarded(f))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	f.url = server.URL
	clean(t)
	path := filepath.Join(t.TempDir(), "cloud.config")
	if err := os.WriteFile(path, []byte(keystonetest.File(server.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OPENSTACK_CREDENTIAL_FILE", path)
	return f
}

func (f *swiftFake) open(t *testing.T, location string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), location)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (f *swiftFake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("X-Trans-Id", "tx0")
	key, ok := strings.CutPrefix(r.URL.Path, "/v1/AUTH_project-1/container/")
	if f.before != nil && f.before(w, r) {
		return
	}
	if f.after != nil {
		answer := httptest.NewRecorder()
		defer func() {
			if f.after(w, r) {
				return
			}
			for name, values := range answer.Header() {
				w.Header()[name] = values
			}
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes())
		}()
		f.serve(answer, r, key, ok, body)
		return
	}
	f.serve(w, r, key, ok, body)
}

func (f *swiftFake) serve(w http.ResponseWriter, r *http.Request, key string, isObject bool, body []byte) {
	switch {
	case f.gone:
		w.WriteHeader(http.StatusNotFound)
	case !isObject && r.URL.Path == "/v1/AUTH_project-1/container" && r.Method == http.MethodHead:
		w.WriteHeader(http.StatusNoContent)
	case !isObject && r.URL.Path == "/v1/AUTH_project-1/container" && r.Method == http.MethodGet:
		f.list(w, r)
	case !isObject:
		f.t.Errorf("a request that is not expected: %s %s", r.Method, r.URL)
	case r.Method == http.MethodPut:
		f.put(w, r, key, body)
	default:
		f.one(w, r, key)
	}
}

func sumOf(b []byte) string {
	sum := md5.Sum(b)
	return hex.EncodeToString(sum[:])
}

func (f *swiftFake) put(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	o := swiftObject{content: body, etag: sumOf(body), header: http.Header{}}
	_, there := f.objects[key]
	switch want := r.Header.Get("Etag"); {
	case there && r.Header.Get("If-None-Match") == "*" && !f.blind:
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	case r.URL.Query().Get("multipart-manifest") == "put" && !f.noSLO:
		var problem string
		if o, problem = f.assemble(body); problem != "" {
			http.Error(w, problem, http.StatusBadRequest)
			return
		}
	case want != "" && want != o.etag:
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	for name, values := range r.Header {
		if strings.HasPrefix(name, "X-Object-Meta-") || name == "Content-Type" {
			o.header[name] = values
		}
	}
	// Two objects never have the same time.
	if now := time.Now().UTC().Truncate(tick); now.After(f.clock) {
		f.clock = now
	} else {
		f.clock = f.clock.Add(tick)
	}
	o.modified = f.clock
	f.objects[key] = o
	w.Header().Set("Etag", o.etag)
	w.WriteHeader(http.StatusCreated)
}

// assemble makes a large object.
func (f *swiftFake) assemble(manifest []byte) (swiftObject, string) {
	var parts []struct {
		Path, ETag string
		Size       int `json:"size_bytes"`
	}
	if err := json.Unmarshal(manifest, &parts); err != nil || len(parts) == 0 || len(parts) > 1000 {
		return swiftObject{}, fmt.Sprint("a manifest with ", len(parts), " segments: ", err)
	}
	o := swiftObject{large: true, header: http.Header{}}
	var sums []byte
	for _, p := range parts {
		key, _ := strings.CutPrefix(p.Path, "/container/")
		s, ok := f.objects[key]
		if !ok || s.etag != p.ETag || len(s.content) != p.Size {
			return swiftObject{}, "Errors:\n" + p.Path + ", 404 Not Found"
		}
		o.content, sums = append(o.content, s.content...), append(sums, s.etag...)
	}
	o.etag = sumOf(sums)
	return o, ""
}

func (f *swiftFake) one(w http.ResponseWriter, r *http.Request, key string) {
	o, there := f.objects[key]
	switch {
	case !there:
		http.Error(w, "The resource could not be found.", http.StatusNotFound)
		return
	case r.Method == http.MethodDelete:
		delete(f.objects, key)
		w.WriteHeader(http.StatusNoContent)
		return
	case r.Header.Get("X-Newest") != "true":
		f.t.Errorf("%s %s may be answered with an old copy", r.Method, key)
	}
	for name, values := range o.header {
		w.Header()[name] = values
	}
	w.Header().Set("Etag", o.etag)
	if o.large {
		w.Header().Set("Etag", `"`+o.etag+`"`)
		w.Header().Set("X-Static-Large-Object", "True")
	}
	w.Header().Set("X-Timestamp", fmt.Sprintf("%d.%05d", o.modified.Unix(), o.modified.Nanosecond()/10_000))
	// Last-Modified has full seconds.
	http.ServeContent(w, r, "", o.modified, bytes.NewReader(o.content))
}

func (f *swiftFake) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil || q.Get("format") != "json" || limit > 10_000 {
		f.t.Errorf("a listing with %s", r.URL.RawQuery)
	}
	names := []string{}
	for key := range f.objects {
		if strings.HasPrefix(key, q.Get("prefix")) && key > q.Get("marker") {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	list := []any{}
	for _, name := range names[:min(len(names), limit)] {
		o := f.objects[name]
		list = append(list, map[string]any{
			"name": name, "bytes": len(o.content), "hash": o.etag, "content_type": "application/octet-stream",
			"last_modified": o.modified.Format("2006-01-02T15:04:05.000000"),
		})
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(list)
}
