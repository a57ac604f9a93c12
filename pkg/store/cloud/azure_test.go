package cloud

import (
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/store/storetest"
)

// An azureFake answers as the documentation of Azure's REST API says, as far as
// a store asks. There is no such server that tests could run.
type azureFake struct {
	mu     sync.Mutex
	blobs  map[string]azureObject
	blocks map[string][]byte
	// refuse, if set, is the status and code of all answers.
	refuse     int
	refuseCode string
	// authorization and query are those of the last request.
	authorization string
	query         url.Values
}

type azureObject struct {
	content []byte
	meta    http.Header
	written time.Time
}

func (f *azureFake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key, ok := strings.CutPrefix(r.URL.Path, "/account/container/")
	q := r.URL.Query()
	f.authorization, f.query = r.Header.Get("Authorization"), q
	switch {
	case f.refuse != 0:
		f.fail(w, f.refuse, f.refuseCode)
	case q.Get("comp") == "list" && r.URL.Path == "/account/container":
		f.list(w, q.Get("prefix"), q.Get("marker"))
	case !ok:
		f.fail(w, http.StatusNotFound, "ContainerNotFound")
	case r.Method == http.MethodPut && q.Get("comp") == "block":
		f.blocks[key+q.Get("blockid")] = body
		w.WriteHeader(http.StatusCreated)
	case r.Method == http.MethodPut:
		f.put(w, r, key, body)
	default:
		f.one(w, r, key)
	}
}

func (f *azureFake) fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Ms-Error-Code", code)
	w.WriteHeader(status)
}

func (f *azureFake) put(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	if _, there := f.blobs[key]; there && r.Header.Get("If-None-Match") == "*" {
		f.fail(w, http.StatusConflict, "BlobAlreadyExists")
		return
	}
	if r.URL.Query().Get("comp") == "blocklist" {
		var list struct{ Latest []string }
		if err := xml.Unmarshal(body, &list); err != nil {
			f.fail(w, http.StatusBadRequest, "InvalidXmlDocument")
			return
		}
		body = nil
		for _, id := range list.Latest {
			body = append(body, f.blocks[key+id]...)
		}
	}
	meta := http.Header{}
	for name, values := range r.Header {
		if strings.HasPrefix(name, "X-Ms-Meta-") {
			meta[name] = values
		}
	}
	f.blobs[key] = azureObject{body, meta, time.Now()}
	w.WriteHeader(http.StatusCreated)
}

func (f *azureFake) one(w http.ResponseWriter, r *http.Request, key string) {
	o, there := f.blobs[key]
	switch {
	case !there:
		f.fail(w, http.StatusNotFound, "BlobNotFound")
	case r.Method == http.MethodDelete:
		delete(f.blobs, key)
		w.WriteHeader(http.StatusAccepted)
	default:
		for name, values := range o.meta {
			w.Header()[name] = values
		}
		if from := r.Header.Get("X-Ms-Range"); from != "" {
			r.Header.Set("Range", from)
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, o.written.UnixNano()))
		w.Header().Set("X-Ms-Creation-Time", o.written.UTC().Format(http.TimeFormat))
		http.ServeContent(w, r, "", o.written, strings.NewReader(string(o.content)))
	}
}

func (f *azureFake) list(w http.ResponseWriter, prefix, marker string) {
	var names []string
	for key := range f.blobs {
		if strings.HasPrefix(key, prefix) && key > marker {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	next := ""
	if len(names) > pageOfFake {
		names = names[:pageOfFake]
		next = names[pageOfFake-1]
	}
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprint(w, `<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>`)
	for _, name := range names {
		fmt.Fprintf(w, `<Blob><Name>%s</Name><Properties><Last-Modified>%s</Last-Modified><Content-Length>%d</Content-Length></Properties></Blob>`,
			name, f.blobs[name].written.UTC().Format(http.TimeFormat), len(f.blobs[name].content))
	}
	fmt.Fprintf(w, `</Blobs><NextMarker>%s</NextMarker></EnumerationResults>`, next)
}

const pageOfFake = 100

func startAzure(t *testing.T) (*azureFake, string) {
	t.Helper()
	f := &azureFake{blobs: map[string]azureObject{}, blocks: map[string][]byte{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	clean(t)
	t.Setenv("AZURE_STORAGE_ACCOUNT", "account")
	t.Setenv("AZURE_STORAGE_KEY", base64.StdEncoding.EncodeToString([]byte("key")))
	return f, "?protocol=http&domain=" + strings.TrimPrefix(server.URL, "http://")
}

func TestAzure(t *testing.T) {
	_, options := startAzure(t)
	paths := 0
	storetest.Run(t, func(t *testing.T) func() *store.Store {
		paths++
		location := fmt.Sprintf("azureblob://container/a/path/%d%s", paths, options)
		return func() *store.Store {
			s, err := store.Open(t.Context(), location)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	})
}

// The credentials of the environment are for the account that the location names.
func TestAzureCredentialsForTheAccountOfTheLocation(t *testing.T) {
	f, options := startAzure(t)
	put := func(location string) (authorization, signature string, err error) {
		s, err := store.Open(t.Context(), location)
		if err == nil {
			err = s.Put(t.Context(), "a", []byte("x"))
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.authorization, f.query.Get("sig"), err
	}
	t.Setenv("AZURE_STORAGE_ACCOUNT", "")
	if auth, _, err := put("azureblob://account/container/x" + options); err != nil ||
		!strings.HasPrefix(auth, "SharedKey account:") {
		t.Errorf("with a key: %v, %q", err, auth)
	}
	t.Setenv("AZURE_STORAGE_ACCOUNT", "other")
	if auth, _, err := put("azblob://container/x" + options + "&storage_account=account"); err != nil ||
		!strings.HasPrefix(auth, "SharedKey account:") {
		t.Errorf("with a key, against the environment: %v, %q", err, auth)
	}
	t.Setenv("AZURE_STORAGE_KEY", "no base64")
	if _, _, err := put("azblob://container/x" + options + "&storage_account=account"); err == nil ||
		!strings.Contains(err.Error(), "AZURE_STORAGE_KEY: ") {
		t.Errorf("with half a key: %v", err)
	}

	t.Setenv("AZURE_STORAGE_KEY", "")
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2024&sig=abc")
	t.Setenv("AZURE_STORAGE_PROTOCOL", "http")
	_, server, _ := strings.Cut(options, "domain=")
	t.Setenv("AZURE_STORAGE_DOMAIN", server)
	if _, _, err := put("azblob://container/x?storage_account=account"); err == nil ||
		!strings.Contains(err.Error(), "for the account other of AZURE_STORAGE_ACCOUNT, but the location names account") {
		t.Errorf("a token of another account: %v", err)
	}
	for _, account := range []string{"evil.example/", "evil.example#", "a?b", "u@evil.example", "AB", "ab"} {
		if _, _, err := put("azblob://container/x?storage_account=" + url.QueryEscape(account)); err == nil ||
			!strings.Contains(err.Error(), "is not the name of a storage account") {
			t.Errorf("the account %s: %v", account, err)
		}
	}
	t.Setenv("AZURE_STORAGE_ACCOUNT", "")
	if auth, signature, err := put("azureblob://account/container/x"); err != nil || signature != "abc" || auth != "" {
		t.Errorf("with a token: %v, %q, %q", err, signature, auth)
	}
	if _, _, err := put("azureblob://account/container/x?domain=elsewhere"); err == nil ||
		!strings.Contains(err.Error(), "set AZURE_STORAGE_DOMAIN") {
		t.Errorf("a token that is led elsewhere: %v", err)
	}
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "")
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING",
		"DefaultEndpointsProtocol=https;AccountName=other;AccountKey=a2V5;EndpointSuffix=core.windows.net")
	if _, _, err := put("azblob://container/x?storage_account=account"); err == nil ||
		!strings.Contains(err.Error(), "the connection string is for the account other") {
		t.Errorf("a connection string of another account: %v", err)
	}
}

func TestAzureRefuses(t *testing.T) {
	f, options := startAzure(t)
	s, err := store.Open(t.Context(), "azblob://container/x"+options)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for code, c := range map[string]struct {
		status int
		want   error
	}{
		"AuthenticationFailed":            {http.StatusForbidden, store.ErrDenied},
		"AuthorizationPermissionMismatch": {http.StatusForbidden, store.ErrDenied},
		"BlobImmutableDueToPolicy":        {http.StatusConflict, store.ErrDenied},
		"ContainerNotFound":               {http.StatusNotFound, store.ErrUnreachable},
	} {
		f.mu.Lock()
		f.refuse, f.refuseCode = c.status, code
		f.mu.Unlock()
		_, pollErr := s.Poll(ctx)
		_, getErr := s.Get(ctx, "a")
		_, createErr := s.Create(ctx, "b", nil)
		_, uploadErr := s.Upload(ctx, "c", storetest.Content(9<<20))
		for what, err := range map[string]error{
			"poll": pollErr, "get": getErr, "create": createErr, "upload": uploadErr, "put": s.Put(ctx, "a", nil),
		} {
			if !errors.Is(err, c.want) || errors.Is(err, store.ErrAbsent) {
				t.Errorf("%s with %s: %v", what, code, err)
			}
		}
	}
}
