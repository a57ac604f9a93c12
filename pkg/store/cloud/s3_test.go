package cloud

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/store/storetest"
)

func TestRegionOfABucket(t *testing.T) {
	for name, c := range map[string]struct {
		configured string
		status     int
		answer     string
		want       string
	}{
		"as configured":                  {"eu-west-1", 200, "eu-west-1", "eu-west-1"},
		"another region than the node's": {"eu-west-1", 301, "us-west-2", "us-west-2"},
		"nothing configured":             {"", 301, "ap-south-1", "ap-south-1"},
		"denied, and reported":           {"", 403, "eu-central-1", "eu-central-1"},
		"not reported":                   {"eu-west-1", 403, "", "eu-west-1"},
		"no such bucket":                 {"", 404, "", "us-east-1"},
		"out of order":                   {"eu-west-1", 500, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			clean(t)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if c.answer != "" {
					w.Header().Set("X-Amz-Bucket-Region", c.answer)
				}
				w.WriteHeader(c.status)
			}))
			defer server.Close()
			cfg := aws.Config{
				Region: c.configured, BaseEndpoint: aws.String(server.URL),
				Retryer: func() aws.Retryer { return retryer(1, func(error) {}) },
			}
			got, err := regionOf(t.Context(), cfg, "bucket")
			if got != c.want || (err != nil) != (c.want == "") {
				t.Errorf("region is %q, %v, want %q", got, err, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), "?region=") {
				t.Errorf("the error does not say what to do: %v", err)
			}
		})
	}
}

// A partServer takes uploads in parts of any size, and keeps what they were.
type partServer struct {
	mu      sync.Mutex
	parts   map[int][]byte
	whole   []byte
	aborted bool
	atOnce  atomic.Int64
	most    atomic.Int64
	headers []http.Header
	// fail answers a request with status 400.
	fail func(*http.Request) bool
}

func (s *partServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.most.Store(max(s.most.Load(), s.atOnce.Add(1)))
	defer s.atOnce.Add(-1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.headers = append(s.headers, r.Header)
	q := r.URL.Query()
	switch {
	case s.fail != nil && s.fail(r):
		w.WriteHeader(http.StatusBadRequest)
	case r.Method == http.MethodPost && q.Has("uploads"):
		fmt.Fprint(w, `<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>`)
	case r.Method == http.MethodPost:
		for _, n := range slices.Sorted(maps.Keys(s.parts)) {
			s.whole = append(s.whole, s.parts[n]...)
		}
		fmt.Fprint(w, `<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>`)
	case r.Method == http.MethodDelete:
		s.aborted = true
		w.WriteHeader(http.StatusNoContent)
	case q.Has("partNumber"):
		n, _ := strconv.Atoi(q.Get("partNumber"))
		s.parts[n] = body
		w.Header().Set("ETag", q.Get("partNumber"))
	default:
		s.whole = body
	}
}

// sizes returns the sizes of the parts.
func (s *partServer) sizes() []int {
	var all []int
	for n := 1; len(s.parts[n]) > 0; n++ {
		all = append(all, len(s.parts[n]))
	}
	return all
}

// uploaderOf returns an uploader to a partServer, as a location opens it.
func uploaderOf(t *testing.T, s *partServer, options string) *uploader {
	t.Helper()
	clean(t)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Setenv("S3_ENDPOINT", server.URL)
	t.Setenv("S3_ACCESS_KEY_ID", "a")
	t.Setenv("S3_SECRET_ACCESS_KEY", "b")
	u, err := url.Parse("s3://bucket" + options)
	if err != nil {
		t.Fatal(err)
	}
	c, err := parseS3(u)
	if err != nil {
		t.Fatal(err)
	}
	up, err := c.uploader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	up.cut = cut{small: 100, large: 400, first: 3, atOnce: 2, most: 5}
	return up
}

// Parts grow when there are many, and are never more in memory than allowed.
func TestPartsGrow(t *testing.T) {
	for size, want := range map[int64][]int{
		99:   nil,
		100:  {100},
		101:  {100, 1},
		300:  {100, 100, 100},
		301:  {100, 100, 100, 1},
		700:  {100, 100, 100, 400},
		1100: {100, 100, 100, 400, 400},
	} {
		s := &partServer{parts: map[int][]byte{}}
		u := uploaderOf(t, s, "")
		err := u.write(t.Context(), "key", storetest.Content(size), store.WriteOptions{Size: -1})
		if err != nil || !slices.Equal(s.sizes(), want) || s.most.Load() > 2 || s.aborted {
			t.Errorf("%d bytes: parts of %v, %d at once, %v, want %v", size, s.sizes(), s.most.Load(), err, want)
		}
		var sent bytes.Buffer
		if _, err := io.Copy(&sent, storetest.Content(size)); err != nil ||
			sha256.Sum256(sent.Bytes()) != sha256.Sum256(s.whole) {
			t.Errorf("%d bytes: stored are %d, %v", size, len(s.whole), err)
		}
	}
	s := &partServer{parts: map[int][]byte{}}
	err := uploaderOf(t, s, "").write(t.Context(), "key", storetest.Content(1101), store.WriteOptions{Size: -1})
	if err == nil || !strings.Contains(err.Error(), "5 parts") || !s.aborted || s.whole != nil {
		t.Errorf("more than fits: %v, aborted %t", err, s.aborted)
	}
}

// Whatever fails, the parts are removed and the first cause is reported.
func TestUploadThatFails(t *testing.T) {
	for name, fail := range map[string]func(*http.Request) bool{
		"part 1":   func(r *http.Request) bool { return r.URL.Query().Get("partNumber") == "1" },
		"part 4":   func(r *http.Request) bool { return r.URL.Query().Get("partNumber") == "4" },
		"complete": func(r *http.Request) bool { return r.Method == http.MethodPost && !r.URL.Query().Has("uploads") },
	} {
		s := &partServer{parts: map[int][]byte{}, fail: fail}
		err := uploaderOf(t, s, "").write(t.Context(), "key", storetest.Content(1000), store.WriteOptions{Size: -1})
		if err == nil || !strings.Contains(err.Error(), "400") || !s.aborted || s.whole != nil || s.atOnce.Load() != 0 {
			t.Errorf("%s: %v, aborted %t", name, err, s.aborted)
		}
	}
	s := &partServer{parts: map[int][]byte{}, fail: func(r *http.Request) bool {
		return r.Method == http.MethodDelete || r.URL.Query().Get("partNumber") == "2"
	}}
	err := uploaderOf(t, s, "").write(t.Context(), "key", storetest.Content(1000), store.WriteOptions{Size: -1})
	if err == nil || !strings.Contains(err.Error(), "part 2") || !strings.Contains(err.Error(), "lifecycle rule") {
		t.Errorf("parts that cannot be removed: %v", err)
	}
	cause := errors.New("etcd is gone")
	s = &partServer{parts: map[int][]byte{}}
	err = uploaderOf(t, s, "").write(t.Context(), "key", io.MultiReader(storetest.Content(450), brokenReader{cause}),
		store.WriteOptions{Size: -1})
	if !errors.Is(err, cause) || !s.aborted || s.whole != nil {
		t.Errorf("a reader that fails: %v, aborted %t", err, s.aborted)
	}
}

type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }

// What the location asks for is in the requests that make objects.
func TestHeadersOfObjects(t *testing.T) {
	for _, size := range []int64{10, 250} {
		s := &partServer{parts: map[int][]byte{}}
		u := uploaderOf(t, s, "?ssetype=aws:kms&kmskeyid=k&acl=private&request_checksum_calculation=when_supported")
		err := u.write(t.Context(), "key", storetest.Content(size), store.WriteOptions{
			Size: -1, OnlyAbsent: true, Metadata: map[string]string{"writer": "me"},
		})
		if err != nil {
			t.Fatal(err)
		}
		first, last := s.headers[0], s.headers[len(s.headers)-1]
		for name, want := range map[string]string{
			"X-Amz-Server-Side-Encryption": "aws:kms", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id": "k",
			"X-Amz-Acl": "private", "X-Amz-Meta-Writer": "me",
		} {
			if got := first.Get(name); got != want {
				t.Errorf("%d bytes: %s is %q, want %q", size, name, got, want)
			}
		}
		if last.Get("If-None-Match") != "*" {
			t.Errorf("%d bytes: the request that makes the object has no condition", size)
		}
	}
}
