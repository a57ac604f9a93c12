package etcdrelease

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// childVariable makes the test binary a program that installs or downloads.
const childVariable = "ETCDADM_RELEASE_TEST_CHILD"

// An errand is what such a program does.
type errand struct {
	Version  etcdversion.Version
	Sources  machine.Binaries
	CacheDir string
	// Dir to install in; empty to download.
	Dir string
	// Pins replace pins.txt.
	Pins string
}

func TestMain(m *testing.M) {
	text := os.Getenv(childVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	var e errand
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	o := Options{Version: e.Version, Sources: e.Sources, CacheDir: e.CacheDir, pins: e.Pins}
	var err error
	if e.Dir != "" {
		_, err = Install(ctx, o, e.Dir)
	} else {
		_, _, err = Download(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child returns a program that installs into dir, or downloads if there is
// none, with further variables.
func child(t *testing.T, o Options, dir string, env ...string) *exec.Cmd {
	t.Helper()
	b, err := json.Marshal(errand{o.Version, o.Sources, o.CacheDir, dir, o.pins})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(soon(t), self)
	cmd.Env = append(os.Environ(), append(env, childVariable+"="+string(b), "GORACE=atexit_sleep_ms=0")...)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// The default client asks the proxy of the environment. Go reads it once in a
// process, and never uses it for the loopback interface.
func TestProxyOfTheEnvironment(t *testing.T) {
	s := newSite(t, version)
	asked := make(chan string, 10)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.String()
		s.serve(w, r)
	}))
	defer proxy.Close()
	o := s.from(t, version)
	o.Sources.ReleaseURL = "http://releases.invalid"
	o.Sources.AllowHTTP, o.Sources.SHA256 = true, digest(s.get(where))
	out, err := child(t, o, "", "HTTP_PROXY="+proxy.URL, "http_proxy=", "NO_PROXY=", "no_proxy=").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := <-asked; got != "http://releases.invalid"+where {
		t.Errorf("the proxy was asked for %q", got)
	}
	if _, ok := Cached(o); !ok {
		t.Error("the cache is empty")
	}
}

// A process that ends in the middle of a download frees the lock and leaves a
// part, from which the next goes on.
func TestKilledDownloadGoesOn(t *testing.T) {
	for _, how := range []unix.Signal{unix.SIGKILL, unix.SIGTERM} {
		t.Run(how.String(), func(t *testing.T) {
			s := newSite(t, version)
			half := make(chan struct{})
			var blocked atomic.Bool
			s.answer(func(w http.ResponseWriter, r *http.Request, _ int) bool {
				if r.URL.Path != where || blocked.Swap(true) {
					return false
				}
				b := s.get(where)
				w.Header().Set("Etag", `"`+digest(b)[:8]+`"`)
				w.Header().Set("Content-Length", fmt.Sprint(len(b)))
				w.Write(b[:len(b)/2])
				w.(http.Flusher).Flush()
				close(half)
				<-r.Context().Done()
				return true
			})
			o := s.from(t, version)
			cmd := child(t, o, "")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			<-half
			waitForSize(t, o.cachePath()+".part", int64(len(s.get(where))/2))
			if err := cmd.Process.Signal(how); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Fatal("it says that it is done")
			}
			if _, ok := Cached(o); ok {
				t.Error("a half archive counts as cached")
			}
			s.requests()
			mustDownload(t, o, s.get(where))
			if got := s.archiveRequests(); len(got) != 1 || !strings.Contains(got[0], "bytes=") {
				t.Errorf("requests: %q", got)
			}
		})
	}
}

func waitForSize(t *testing.T, path string, size int64) {
	t.Helper()
	testwait.For(t, "a file to grow", func(context.Context) error {
		st, err := os.Stat(path)
		if err == nil && st.Size() < size {
			err = fmt.Errorf("%s has %d bytes, not %d", path, st.Size(), size)
		}
		return err
	})
}
