package programs

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cli"
	_ "github.com/etcdadm/etcdadm/pkg/store/cloud"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
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

// A person who waits for a store that does not answer reads for which one, and for how long already.
func TestAStoreThatDoesNotAnswerIsNamedWhileItIsWaitedFor(t *testing.T) {
	untimed := withoutTimeout(t)
	unreachable, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer unreachable.Close()
	endpoint := "http://" + unreachable.Addr().String()
	s3(t, endpoint)
	note := "note: the store s3://bucket/dir (the S3 server " + endpoint + ") has not answered for 1s"
	insecure := []string{"--insecure", "--etcd-insecure", "--backup-store=s3://bucket/dir", "--timeout=6s"}
	var all sync.WaitGroup
	for name, args := range map[string][]string{
		"observe":   append([]string{"observe"}, insecure...),
		"plan":      append([]string{"plan"}, insecure...),
		"operation": append([]string{"quarantine", "lift", "--node=a"}, insecure...),
		"seed":      {"seed", "s3://bucket/dir", "nodes=3", "--timeout=6s"},
	} {
		all.Go(func() {
			_, complaint, code := run(t, args...)
			if strings.Count(complaint, note+"; --timeout is 6s\n") != 1 || code != 6 {
				t.Errorf("%s: code %d, not one time %q in\n%s", name, code, note, complaint)
			}
			if name != "seed" && !strings.Contains(complaint, ": store s3://bucket/dir: ") {
				t.Errorf("%s: the error does not name the store:\n%s", name, complaint)
			}
		})
	}
	for name, args := range untimed {
		all.Go(func() {
			ctx, interrupt := context.WithTimeout(t.Context(), 30*time.Second)
			defer interrupt()
			said := &reader{want: note + "\n", found: interrupt}
			root := Etcdadm()
			root.SetOut(said)
			root.SetErr(said)
			code := cli.Run(ctx, root, args)
			if text := said.text.String(); strings.Count(text, said.want) != 1 {
				t.Errorf("%s: code %d, not one time %q in\n%s", name, code, said.want, text)
			}
		})
	}
	all.Wait()
}

// Of a store that refuses connections that is said at once, and only once.
func TestAStoreThatRefusesConnectionsSaysSoAtOnce(t *testing.T) {
	at := testport.Address(t)
	s3(t, "http://"+at)
	note := "note: the store s3://bucket/dir (the S3 server http://" + at + ") cannot be used at present, and is asked " +
		"again: " + at + ": connection refused; --timeout is 1m0s\n"
	ctx, interrupt := context.WithTimeout(t.Context(), time.Minute)
	defer interrupt()
	said := &reader{want: note}
	began := time.Now()
	said.found = func() {
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("it was said after %s", took)
		}
		interrupt()
	}
	root := Etcdadm()
	root.SetOut(said)
	root.SetErr(said)
	code := cli.Run(ctx, root, []string{"plan", "--insecure", "--etcd-insecure", "--backup-store=s3://bucket/dir"})
	if text := said.text.String(); strings.Count(text, note) != 1 {
		t.Errorf("code %d, not one time %q in\n%s", code, note, text)
	}
}

// withoutTimeout returns command lines that wait for the store until they are interrupted.
func withoutTimeout(t *testing.T) map[string][]string {
	t.Helper()
	dir := t.TempDir()
	old := etcdtest.New(t, "a")
	old.Flags = nil
	old.Start(t, etcdtest.Binaries(t, "2.3.8"))
	old.V2(t, http.MethodPut, "/registry/a", url.Values{"value": {"x"}})
	old.Stop(t)
	bin := etcdtest.Binaries(t, "3.6.16")
	etcd := etcdtest.Serve(t, bin)
	// A member that does not run.
	if err := os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700); err != nil {
		t.Fatal(err)
	}
	port := func() string {
		_, p, err := net.SplitHostPort(testport.Address(t))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	return map[string][]string{
		"save": {"snapshot", "save", "s3://bucket/dir", "--endpoints=" + etcd.Endpoints()[0]},
		"restore": {
			"snapshot", "restore", "s3://bucket/dir/2026-11-20T10:39:37Z-000001", "--data-dir=" + dir + "/new",
			"--initial-advertise-peer-urls=http://127.0.0.1:1", "--version=3.6.16", "--etcd-dir=" + bin.Dir,
		},
		"migrate": {
			"migrate", "--data-dir=" + old.DataDir, "--backup-store=s3://bucket/dir", "--etcd-version=2.3.8",
		},
		"handover": {
			"handover", "to-manager", "--backup-store=s3://bucket/dir", "--data-dir=" + dir, "--name=a",
			"--bind-address=127.0.0.1", "--client-port=" + port(), "--peer-port=" + port(), "--init-system=process",
			"--certs-dir=" + dir + "/pki", "--environment-dir=" + dir + "/env", "--install-dir=" + dir + "/bin",
			"--cache-dir=" + dir + "/cache", "--manager-data-dir=" + dir + "/manager", "--dry-run",
		},
	}
}

// A reader is where a command writes. It calls found once what it wants is there.
type reader struct {
	want  string
	found func()

	mu   sync.Mutex
	text strings.Builder
}

func (r *reader) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text.Write(p)
	if strings.Contains(r.text.String(), r.want) {
		r.found()
	}
	return len(p), nil
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
