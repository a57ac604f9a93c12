package cloud

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"mime"
	mimeparts "mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/api/storage/v1"

	"github.com/etcdadm/etcdadm/pkg/store"
)

// A fakeGCS is the part of Google Cloud Storage that the driver uses, for one bucket.
type fakeGCS struct {
	mu      sync.Mutex
	objects map[string][]byte
	upload  []byte
	named   storage.Object
	// disturb answers a request instead, if it says so.
	disturb func(w http.ResponseWriter, r *http.Request) bool
	// asked are the requests, and auth what the last one was authorized with.
	asked []string
	auth  string
}

func (f *fakeGCS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, r.Method+" "+r.URL.Path)
	f.auth = r.Header.Get("Authorization")
	if f.disturb != nil && f.disturb(w, r) {
		return
	}
	switch name, query := "", r.URL.Query(); {
	case r.URL.Path == "/upload/storage/v1/b/bucket/o" || r.URL.Path == "/session":
		f.insert(w, r)
	case r.URL.Path == "/storage/v1/b/bucket/o":
		var all storage.Objects
		for n := range f.objects {
			if strings.HasPrefix(n, query.Get("prefix")) {
				all.Items = append(all.Items, f.about(n))
			}
		}
		answer(w, http.StatusOK, &all)
	case under(r, "/storage/v1/b/bucket/o/", &name) || under(r, "/bucket/", &name):
		content, there := f.objects[name]
		switch {
		case !there:
			refuse(w, http.StatusNotFound, "No such object: bucket/"+name)
		case r.Method == http.MethodDelete:
			delete(f.objects, name)
			w.WriteHeader(http.StatusNoContent)
		case strings.HasPrefix(r.URL.Path, "/bucket/"):
			w.Header().Set("X-Goog-Hash", "crc32c="+crcOf(content)+",md5=x")
			http.ServeContent(w, r, "x", time.Unix(1e9, 0), bytes.NewReader(content))
		default:
			answer(w, http.StatusOK, f.about(name))
		}
	default:
		refuse(w, http.StatusNotFound, "The specified bucket does not exist.")
	}
}

// insert takes an upload, in one request or in chunks.
func (f *fakeGCS) insert(w http.ResponseWriter, r *http.Request) {
	_, parameters, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case r.URL.Path == "/session":
		chunk, err := io.ReadAll(r.Body)
		var from, to int
		_, scanErr := fmt.Sscanf(r.Header.Get("Content-Range"), "bytes %d-%d/", &from, &to)
		if err != nil || scanErr != nil || from != len(f.upload) {
			refuse(w, http.StatusBadRequest, fmt.Sprint("not the next chunk: ", r.Header, err, scanErr))
			return
		}
		if f.upload = append(f.upload, chunk...); strings.HasSuffix(r.Header.Get("Content-Range"), "/*") {
			w.Header().Set("X-Http-Status-Code-Override", "308")
			return
		}
		if r.Header.Get("X-Goog-Hash") != "crc32c="+crcOf(f.upload) {
			refuse(w, http.StatusBadRequest, "the checksum is another one")
			return
		}
	case r.URL.Query().Get("uploadType") == "resumable":
		if f.upload = nil; !f.begin(w, r, r.Body) {
			return
		}
		w.Header().Set("Location", "http://"+r.Host+"/session")
		return
	default:
		parts := mimeparts.NewReader(r.Body, parameters["boundary"])
		if head, _ := parts.NextPart(); !f.begin(w, r, head) {
			return
		}
		body, _ := parts.NextPart()
		f.upload, _ = io.ReadAll(body)
	}
	f.objects[f.named.Name] = append([]byte{}, f.upload...)
	answer(w, http.StatusOK, f.about(f.named.Name))
}

// begin reads what an upload is to be, and reports whether its condition holds.
func (f *fakeGCS) begin(w http.ResponseWriter, r *http.Request, head io.Reader) bool {
	var named storage.Object
	_ = json.NewDecoder(head).Decode(&named)
	if _, there := f.objects[named.Name]; there && r.URL.Query().Get("ifGenerationMatch") == "0" {
		refuse(w, http.StatusPreconditionFailed, "At least one of the pre-conditions you specified did not hold.")
		return false
	}
	f.named = named
	return true
}

func (f *fakeGCS) about(name string) *storage.Object {
	return &storage.Object{
		Name: name, Size: uint64(len(f.objects[name])), Updated: "2001-09-09T01:46:40.123Z", Metadata: f.named.Metadata,
	}
}

func under(r *http.Request, prefix string, name *string) bool {
	rest, ok := strings.CutPrefix(r.URL.Path, prefix)
	*name = rest
	return ok
}

func crcOf(content []byte) string {
	sum := crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli))
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

func answer(w http.ResponseWriter, status int, of any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(of)
}

func refuse(w http.ResponseWriter, status int, message string) {
	answer(w, status, map[string]any{"error": map[string]any{"code": status, "message": message}})
}

// startGCS starts a server, and opens a store in its bucket.
func startGCS(t *testing.T) (*fakeGCS, *store.Store) {
	t.Helper()
	clean(t)
	f := &fakeGCS{objects: map[string][]byte{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	t.Setenv(gcsEmulator, strings.TrimPrefix(server.URL, "http://"))
	return f, openStore(t, "gs://bucket/x")
}

func openStore(t *testing.T, location string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), location)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(t.Context()) })
	return s
}
