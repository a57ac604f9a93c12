package cloud

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/store"
)

// What a cloud answers, or a request was made with, may hold a secret: no error
// of any driver shows it, and none is without the rest.
func TestNoErrorShowsASecret(t *testing.T) {
	const answer = "GET http://x/?X-Amz-Signature=SECRET&X-Amz-Credential=SECRET%2F2026&X-Goog-Signature=SECRET&sig=SECRET " +
		"http://name:SECRET@proxy/ AccountKey=SECRET; Authorization: Bearer SECRET, X-Auth-Token: SECRET " +
		`{"password": "SECRET", "secret":"SECRET"} and the rest`
	clean(t)
	t.Setenv("AWS_MAX_ATTEMPTS", "2")
	asks := map[string]func(*testing.T){}
	for name, c := range map[string]struct {
		location string
		env      func(host string) map[string]string
	}{
		"azure": {"azblob://container/x", func(host string) map[string]string {
			return map[string]string{
				"AZURE_STORAGE_ACCOUNT": "account", "AZURE_STORAGE_SAS_TOKEN": "sv=2024&sp=rl&sig=SECRET%3D",
				"AZURE_STORAGE_PROTOCOL": "http", "AZURE_STORAGE_DOMAIN": host, "AZURE_STORAGE_IS_LOCAL_EMULATOR": "true",
			}
		}},
		"s3": {"s3://bucket/x", func(host string) map[string]string {
			return map[string]string{"S3_ENDPOINT": "http://" + host, "S3_ACCESS_KEY_ID": "id", "S3_SECRET_ACCESS_KEY": "SECRET"}
		}},
		"gcs": {"gs://bucket/x", func(host string) map[string]string {
			return map[string]string{"STORAGE_EMULATOR_HOST": host}
		}},
		"swift": {"swift://container/x", func(host string) map[string]string {
			return map[string]string{
				"OS_AUTH_URL": "http://" + host + "/v3", "OS_USERNAME": "u", "OS_PASSWORD": "SECRET", "OS_PROJECT_ID": "p",
			}
		}},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte("<Error><Code>AccessDenied</Code><Message>" + strings.ReplaceAll(answer, "&", "&amp;") +
				"</Message></Error>"))
		}))
		defer server.Close()
		for k, v := range c.env(strings.TrimPrefix(server.URL, "http://")) {
			t.Setenv(k, v)
		}
		s, err := store.Open(t.Context(), c.location)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close(t.Context()) }()
		asks[name] = func(t *testing.T) { askInVain(t, name, s, server.Close) }
	}
	// All at once, because each waits between its tries. Subtests would have to be
	// parallel, which excludes variables of the environment.
	var asking sync.WaitGroup
	for _, ask := range asks {
		asking.Go(func() { ask(t) })
	}
	asking.Wait()
}

// askInVain asks a store that denies, then one that is gone.
func askInVain(t *testing.T, name string, s *store.Store, leave func()) {
	_, getErr := s.Get(t.Context(), "control/etcd-cluster-spec")
	_, pollErr := s.Poll(t.Context())
	_, openErr := s.Open(t.Context(), "b/data")
	leave() // now errors are those of the connection
	ctx := t.Context()
	if name == "gcs" { // its client tries until the time is over, and then says what failed last
		short, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		ctx = short
	}
	_, goneErr := s.Get(ctx, "control/etcd-cluster-spec")
	for what, err := range map[string]error{"get": getErr, "poll": pollErr, "open": openErr, "gone": goneErr} {
		if err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %s: %v", name, what, err)
		}
	}
	if goneErr != nil && !strings.Contains(goneErr.Error(), "connection refused") {
		t.Errorf("%s: gone: %v, want an error of the connection", name, goneErr)
	}
	if name == "azure" && !strings.Contains(fmt.Sprint(goneErr, getErr), "REDACTED") {
		t.Errorf("the token is not in the errors at all: %v, %v", getErr, goneErr)
	}
}
