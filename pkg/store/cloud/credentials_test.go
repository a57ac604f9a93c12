package cloud

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
)

// Without credentials the error says so, and where they come from: the server was not asked.
func TestS3WithoutCredentials(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	roles := httptest.NewServer(http.NotFoundHandler())
	defer roles.Close()
	for name, metadata := range map[string]string{
		"no cloud":                  "",
		"a machine without a role":  roles.URL,
		"nobody answers for a role": "http://" + testport.Address(t),
	} {
		t.Run(name, func(t *testing.T) {
			clean(t)
			for _, v := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_WEB_IDENTITY_TOKEN_FILE"} {
				t.Setenv(v, "")
			}
			if metadata != "" {
				t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
				t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata)
			}
			t.Setenv("AWS_ENDPOINT_URL_S3", server.URL)
			s, err := store.Open(t.Context(), "s3://bucket/dir")
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Poll(t.Context())
			hasHint(t, err, "AWS_ACCESS_KEY_ID")
			if !errors.Is(err, store.ErrUnreachable) || !strings.Contains(err.Error(), "no credentials for S3: ") ||
				strings.Contains(err.Error(), "no answer from the S3 server") ||
				strings.Contains(err.Error(), store.ErrUnreachable.Error()) {
				t.Errorf("%v", err)
			}
			if n := asked.Load(); n != 0 {
				t.Errorf("the server was asked %d times", n)
			}
		})
	}
}

func hasHint(t *testing.T, err error, word string) {
	t.Helper()
	var hint interface{ Hint() string }
	if !errors.As(err, &hint) || !strings.Contains(hint.Hint(), word) {
		t.Errorf("%v has no hint with %s", err, word)
	}
}

func TestGoogleAndAzureWithoutCredentials(t *testing.T) {
	clean(t)
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", t.TempDir()+"/none")
	s, err := store.Open(t.Context(), "gs://bucket/dir")
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Poll(t.Context())
	hasHint(t, err, "GOOGLE_APPLICATION_CREDENTIALS")
	if !errors.Is(err, store.ErrUnreachable) || !strings.Contains(err.Error(), "no credentials for Google Cloud Storage: ") {
		t.Errorf("%v", err)
	}
	err = explainAzure("c", fmt.Errorf("list: %s", "DefaultAzureCredential: failed to acquire a token."))
	hasHint(t, err, "AZURE_STORAGE_KEY")
	if !errors.Is(err, store.ErrUnreachable) || !strings.Contains(err.Error(), "no credentials for Azure: ") {
		t.Errorf("%v", err)
	}
}
