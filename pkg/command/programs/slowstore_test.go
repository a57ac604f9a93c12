package programs

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/etcdadm/etcdadm/pkg/store/cloud"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
)

// s3 has the store s3://bucket/dir at that endpoint.
func s3(t *testing.T, endpoint string) {
	t.Helper()
	for name, value := range map[string]string{
		"S3_ENDPOINT": endpoint, "S3_ACCESS_KEY_ID": "key", "S3_SECRET_ACCESS_KEY": "secret", "AWS_MAX_ATTEMPTS": "",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
	} {
		t.Setenv(name, value)
	}
}

// Who waits for a store that does not answer reads for which one, and for how long already.
func TestASilentStoreIsNamedWhileItIsWaitedFor(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	endpoint := "http://" + silent.Addr().String()
	s3(t, endpoint)
	note := "note: the store s3://bucket/dir (the S3 server " + endpoint + ") has not answered for 3s; --timeout is 6s\n"
	insecure := []string{"--insecure", "--etcd-insecure", "--backup-store=s3://bucket/dir", "--timeout=6s"}
	var all sync.WaitGroup
	for name, args := range map[string][]string{
		"observe":   append([]string{"observe"}, insecure...),
		"plan":      append([]string{"plan"}, insecure...),
		"operation": append([]string{"quarantine", "lift", "--node=a"}, insecure...),
		"seed":      {"seed", "s3://bucket/dir", "nodes=3", "--timeout=6s"},
	} {
		all.Go(func() {
			_, reported, code := run(t, args...)
			if strings.Count(reported, note) != 1 || code != 6 {
				t.Errorf("%s: code %d, not one time %q in\n%s", name, code, note, reported)
			}
			if name != "seed" && !strings.Contains(reported, ": store s3://bucket/dir: ") {
				t.Errorf("%s: the error does not name the store:\n%s", name, reported)
			}
		})
	}
	all.Wait()
}

// Waiting helps nobody where the bucket is missing, or the credentials are wrong.
func TestAStoreThatRefusesIsAskedOnce(t *testing.T) {
	for code, status := range map[string]int{
		"NoSuchBucket": http.StatusNotFound, "InvalidAccessKeyId": http.StatusForbidden,
		"SignatureDoesNotMatch": http.StatusForbidden, "AccessDenied": http.StatusForbidden,
	} {
		var asked atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.WriteHeader(status)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", code)
		}))
		s3(t, server.URL)
		_, reported, exit := run(t, "plan", "--insecure", "--etcd-insecure", "--backup-store=s3://bucket/dir", "--timeout=5m")
		server.Close()
		if exit != 6 || !regexp.MustCompile("(?m)^error: .*"+code).MatchString(reported) {
			t.Errorf("%s: code %d: %s", code, exit, reported)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("%s: asked %d times", code, n)
		}
	}
}

// Where the spec is missing it may be that the store is another one than was meant.
func TestTheStoreWithoutASpecIsNamed(t *testing.T) {
	dir := published(t, testport.Address(t))
	if err := os.Remove(filepath.Join(dir, "control", "etcd-cluster-spec")); err != nil {
		t.Fatal(err)
	}
	out, reported, _ := run(t, "plan", "--insecure", "--etcd-insecure", "--backup-store=file://"+dir)
	if !strings.Contains(out, "hold spec-missing: the control store file://"+dir+" has no spec\n") {
		t.Errorf("%s%s", out, reported)
	}
}
