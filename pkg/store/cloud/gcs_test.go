package cloud

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gocloud.dev/gcerrors"
	"golang.org/x/oauth2"

	"github.com/etcdadm/etcdadm/pkg/store"
)

// requestsOf are the kinds of requests that a store makes of a bucket.
func requestsOf(ctx context.Context, s *store.Store) map[string]func() error {
	return map[string]func() error{
		"get":    func() error { _, err := s.Get(ctx, "a"); return err },
		"exists": func() error { _, err := s.Exists(ctx, "a"); return err },
		"poll":   func() error { _, err := s.Poll(ctx); return err },
		"put":    func() error { return s.Put(ctx, "a", []byte("content")) },
		"create": func() error { _, err := s.Create(ctx, "a", []byte("content")); return err },
		"delete": func() error { return s.Delete(ctx, "a") },
		"upload": func() error { _, err := s.Upload(ctx, "a", bytes.NewReader(make([]byte, 9<<20))); return err },
	}
}

// Wrong credentials are denied, and what is in no bucket is not absent.
func TestGCSRefuses(t *testing.T) {
	f, s := startGCS(t)
	for status, want := range map[int]error{
		http.StatusUnauthorized: store.ErrDenied, http.StatusForbidden: store.ErrDenied,
		http.StatusNotFound: store.ErrUnreachable, http.StatusBadRequest: store.ErrUnreachable,
	} {
		f.disturb = func(w http.ResponseWriter, _ *http.Request) bool {
			refuse(w, status, "The specified bucket does not exist.")
			return true
		}
		for what, request := range requestsOf(t.Context(), s) {
			if err := request(); !errors.Is(err, want) || errors.Is(err, store.ErrAbsent) {
				t.Errorf("%s, answered with %d: %v, want %v", what, status, err, want)
			}
		}
	}
}

// What there is not is absent, and what there is is not written again.
func TestGCSConditions(t *testing.T) {
	f, s := startGCS(t)
	ctx := t.Context()
	if _, err := s.Get(ctx, "a"); !errors.Is(err, store.ErrAbsent) {
		t.Errorf("get of nothing: %v", err)
	}
	if there, err := s.Exists(ctx, "a"); there || err != nil {
		t.Errorf("nothing exists: %t, %v", there, err)
	}
	for i, want := range []bool{true, false} {
		if made, err := s.Create(ctx, "a", []byte{byte('0' + i)}); made != want || err != nil {
			t.Errorf("creation %d: %t, %v", i, made, err)
		}
	}
	for i, want := range []bool{true, false} {
		if made, err := s.Upload(ctx, "b", bytes.NewReader(make([]byte, 9<<20+i))); made != want || err != nil {
			t.Errorf("upload %d: %t, %v", i, made, err)
		}
	}
	if string(f.objects["x/a"]) != "0" || len(f.objects["x/b"]) != 9<<20 {
		t.Errorf("they were written again: %q, %d bytes", f.objects["x/a"], len(f.objects["x/b"]))
	}
	// The answer to a creation is lost, and the next one says that the key is taken.
	lost := true
	f.disturb = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || !lost {
			return false
		}
		lost = false
		f.insert(httptest.NewRecorder(), r)
		w.WriteHeader(http.StatusBadGateway)
		return true
	}
	if made, err := s.Create(ctx, "c", nil); !made || err != nil || lost {
		t.Errorf("a creation whose answer is lost: %t, %v", made, err)
	}
}

// A server that is busy, or a connection that breaks, is asked again, also in the
// middle of an upload.
func TestGCSIsAskedAgain(t *testing.T) {
	f, s := startGCS(t)
	failures := []func(w http.ResponseWriter){
		func(w http.ResponseWriter) { refuse(w, http.StatusTooManyRequests, "slow down") },
		func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
		func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
	}
	for i, what := range []string{"create", "get", "exists", "poll", "put", "delete", "upload"} {
		left := failures
		if what == "exists" || what == "poll" || what == "delete" { // as get, which takes time
			left = failures[i%3:][:1]
		}
		f.disturb = func(w http.ResponseWriter, r *http.Request) bool {
			// Of an upload the first chunk fails, and not the request before it.
			if len(left) == 0 || what == "upload" && r.URL.Path != "/session" {
				return false
			}
			fail := left[0]
			left = left[1:]
			_, _ = io.Copy(io.Discard, r.Body)
			fail(w)
			return true
		}
		if err := requestsOf(t.Context(), s)[what](); err != nil || len(left) > 0 {
			t.Errorf("%s: %v, and %d failures were not met", what, err, len(left))
		}
	}
	if len(f.objects["x/a"]) != 9<<20 {
		t.Errorf("%d bytes are there", len(f.objects["x/a"]))
	}
}

// A connection that is cut is no end of an object: it is read on from there.
func TestGCSReadsAll(t *testing.T) {
	f, s := startGCS(t)
	want := make([]byte, 300<<10)
	_, _ = rand.Read(want)
	f.objects["x/a"] = want
	var ranges []string
	f.disturb = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/bucket/") {
			return false
		}
		if ranges = append(ranges, r.Header.Get("Range")); len(ranges) > 1 {
			return false
		}
		w.Header().Set("Content-Length", "307200")
		w.Header().Set("Last-Modified", "Sun, 09 Sep 2001 01:46:40 GMT")
		_, _ = w.Write(want[:100<<10])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	r, err := s.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, want) || len(ranges) != 2 || !strings.HasSuffix(ranges[1], "-") {
		t.Errorf("%d bytes, %v, in the parts %q", len(got), err, ranges)
	}
}

// The driver reads parts, which the store does not ask for, keeps the names that
// gocloud.dev gave, and notices content that is not what was stored.
func TestGCSDriver(t *testing.T) {
	f, _ := startGCS(t)
	dial := &gcsConfig{bucket: "bucket", anonymous: true}
	b, err := dial.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.objects["a..__0x2f__b"] = []byte("0123456789")
	part, err := b.Blobs.NewRangeReader(t.Context(), "a../b", 3, 4, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(part)
	if err = errors.Join(err, part.Close()); err != nil || string(got) != "3456" || part.Size() != 10 {
		t.Errorf("%q of %d bytes, %v", got, part.Size(), err)
	}
	if o, err := b.Blobs.List(nil).Next(t.Context()); err != nil || o.Key != "a../b" {
		t.Errorf("listed: %v, %v", o, err)
	}
	if _, err := b.Blobs.Attributes(t.Context(), "c"); gcerrors.Code(err) != gcerrors.NotFound {
		t.Errorf("attributes of nothing: %v", err)
	}
	f.disturb = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("X-Goog-Hash", "crc32c="+crcOf([]byte("content")))
		_, _ = io.WriteString(w, "Content")
		return true
	}
	if got, err := b.Blobs.ReadAll(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "CRC-32C") {
		t.Errorf("other content than was stored: %q, %v", got, err)
	}
}

// A redirect answers the requests to all hosts.
type redirect func(*http.Request) *httptest.ResponseRecorder

func (r redirect) RoundTrip(req *http.Request) (*http.Response, error) { return r(req).Result(), nil }

// Credentials that are exchanged for no token are denied, and the store is not said to be
// unreachable.
func TestGCSGivesNoToken(t *testing.T) {
	clean(t)
	t.Setenv(gcsEmulator, "")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", serviceAccount(t))
	direct := http.DefaultTransport
	t.Cleanup(func() { http.DefaultTransport = direct })
	for _, status := range []int{http.StatusBadRequest, http.StatusUnauthorized} {
		http.DefaultTransport = redirect(func(*http.Request) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			answer(w, status, map[string]any{"error": "invalid_grant", "error_description": "Invalid JWT Signature."})
			return w
		})
		s := openStore(t, "gs://bucket/x")
		for what, request := range requestsOf(t.Context(), s) {
			err := request()
			if !errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrUnreachable) {
				t.Errorf("%s, token answered with %d: %v", what, status, err)
				continue
			}
			for _, want := range []string{"Invalid JWT Signature", "GOOGLE_APPLICATION_CREDENTIALS", "clock"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s, token answered with %d: %v does not say %q", what, status, err, want)
				}
			}
		}
	}
}

// Nor does a token that workload identity federation does not exchange say that the store is away.
func TestGCSExchangesNoToken(t *testing.T) {
	clean(t)
	t.Setenv(gcsEmulator, "")
	dir := t.TempDir()
	subject, file := filepath.Join(dir, "token"), filepath.Join(dir, "credentials")
	refuses := ""
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, refuses) {
			answer(w, http.StatusForbidden, map[string]any{"error": "invalid_grant", "error_description": "not this token"})
			return
		}
		answer(w, http.StatusOK, map[string]any{
			"access_token": "x", "token_type": "Bearer", "expires_in": 3600,
			"issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
		})
	}))
	defer sts.Close()
	text, _ := json.Marshal(map[string]any{
		"type": "external_account", "audience": "//iam.googleapis.com/x", "token_url": sts.URL + "/token",
		"subject_token_type":                "urn:ietf:params:oauth:token-type:jwt",
		"credential_source":                 map[string]any{"file": subject},
		"service_account_impersonation_url": sts.URL + "/impersonate",
	})
	if err := errors.Join(os.WriteFile(subject, []byte("t"), 0o600), os.WriteFile(file, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	for _, refuses = range []string{"/token", "/impersonate"} {
		s := openStore(t, "gs://bucket/x")
		for what, request := range requestsOf(t.Context(), s) {
			err := request()
			if !errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrUnreachable) ||
				!strings.Contains(err.Error(), "not this token") || !strings.Contains(err.Error(), "workload identity pool") {
				t.Errorf("%s, where %s refuses: %v", what, refuses, err)
			}
		}
	}
}

// What may be another answer the next time says nothing about the credentials.
func TestGCSMayGiveATokenTheNextTime(t *testing.T) {
	for status, want := range map[int]bool{
		http.StatusBadRequest: true, http.StatusForbidden: true, http.StatusTooManyRequests: false,
		http.StatusInternalServerError: false, http.StatusServiceUnavailable: false,
	} {
		err := fmt.Errorf("get: %w", &oauth2.RetrieveError{Response: &http.Response{StatusCode: status}})
		if got := noToken(err); got != want {
			t.Errorf("%d: refused is %t", status, got)
		}
		err = fmt.Errorf("get: oauth2/google: status code %d: {}", status)
		if got := noToken(err); got != want {
			t.Errorf("%v: refused is %t", err, got)
		}
	}
}

// serviceAccount writes a key of a service account, and returns its file.
func serviceAccount(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(serviceAccountOf(der))
	file := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// serviceAccountOf is what is in such a file.
func serviceAccountOf(der []byte) map[string]any {
	return map[string]any{
		"type": "service_account", "client_email": "a@b", "token_uri": "https://tokens.example/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	}
}

// Each of Google's default credentials is found, and used where the bucket is.
func TestGCSCredentials(t *testing.T) {
	clean(t)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	subject := filepath.Join(dir, "subject")
	if err := os.WriteFile(subject, []byte("subject token"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &fakeGCS{objects: map[string][]byte{"x/a": []byte("content")}}
	for name, c := range map[string]struct {
		file            map[string]any
		location, hosts string
	}{
		"service account": {serviceAccountOf(der), "gs://bucket/x", "tokens.example storage.googleapis.com"},
		"workload identity federation": {map[string]any{
			"type": "external_account", "audience": "//iam.googleapis.com/x", "token_url": "https://sts.googleapis.com/v1/token",
			"subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "credential_source": map[string]any{"file": subject},
		}, "gs://bucket/x", "sts.googleapis.com storage.googleapis.com"},
		"metadata server": {nil, "gs://bucket/x", "127.0.0.1 storage.googleapis.com"},
		"another cloud":   {nil, "gs://bucket/x?universe_domain=example.org", "127.0.0.1 storage.example.org"},
		"anonymous":       {nil, "gs://bucket/x?anonymous=true", "storage.googleapis.com"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", dir)
			t.Setenv(gcsEmulator, "")
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
			if c.file != nil {
				text, _ := json.Marshal(c.file)
				file := filepath.Join(t.TempDir(), "credentials")
				if err := os.WriteFile(file, text, 0o600); err != nil {
					t.Fatal(err)
				}
				t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
			}
			checkCredentials(t, f, c.location, c.hosts)
		})
	}
}

// checkCredentials reads an object at a location, and compares which hosts are asked.
func checkCredentials(t *testing.T, f *fakeGCS, location, hosts string) {
	var asked []string
	token := func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := strings.Cut(r.Host, ":")
		asked = append(asked, host)
		answer(w, http.StatusOK, map[string]any{
			"access_token": "the-token", "token_type": "Bearer", "expires_in": 3600,
			"issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
		})
	}
	metadata := httptest.NewServer(http.HandlerFunc(token))
	t.Cleanup(metadata.Close)
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(metadata.URL, "http://"))
	direct := http.DefaultTransport
	t.Cleanup(func() { http.DefaultTransport = direct })
	http.DefaultTransport = redirect(func(r *http.Request) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		if r.Host = r.URL.Host; strings.HasPrefix(r.Host, "storage.") {
			asked = append(asked, r.Host)
			f.ServeHTTP(w, r)
		} else {
			token(w, r)
		}
		return w
	})
	content, err := openStore(t, location).Get(t.Context(), "a")
	if err != nil || string(content) != "content" {
		t.Errorf("%q, %v", content, err)
	}
	if got := strings.Join(slices.Compact(asked), " "); got != hosts {
		t.Errorf("asked were %q, want %q", got, hosts)
	}
	if want := "Bearer the-token"; f.auth != want && !strings.Contains(location, "anonymous") {
		t.Errorf("authorized with %q", f.auth)
	}
}
