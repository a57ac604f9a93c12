package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// archives are the release archives that tests have asked for, by version.
var archives sync.Map

// archive returns the path of a release archive of etcd, as the project packs
// it.
func archive(t *testing.T, version string) string {
	t.Helper()
	dir := etcdDir(t, version)
	once, _ := archives.LoadOrStore(version, sync.OnceValues(func() (string, error) {
		var binaries []entry
		for _, name := range []string{"etcd", "etcdctl", "etcdutl"} {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return "", err
			}
			binaries = append(binaries, entry{fmt.Sprintf("etcd-v%s-linux-%s/%s", version, runtime.GOARCH, name), b})
		}
		path := filepath.Join(programs.dir, "etcd-v"+version+".tar.gz")
		return path, os.WriteFile(path, pack(t, binaries...), 0o644)
	}))
	path, err := once.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// lean returns the path of an archive with etcd and etcdctl alone, below prefix:
// EKS Distro packs with the prefix "./".
func lean(t *testing.T, version, prefix string) string {
	t.Helper()
	var binaries []entry
	for _, name := range []string{"etcd", "etcdctl"} {
		b, err := os.ReadFile(filepath.Join(etcdDir(t, version), name))
		if err != nil {
			t.Fatal(err)
		}
		binaries = append(binaries, entry{prefix + name, b})
	}
	path := filepath.Join(t.TempDir(), "etcd.tar.gz")
	if err := os.WriteFile(path, pack(t, binaries...), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func digest(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// serve serves files by their paths, in the host's network, and returns the URL
// and the paths that were asked for.
func (h *host) serve(files map[string]http.HandlerFunc) (url string, asked func() []string) {
	h.t.Helper()
	listen := net.Listen
	if h.space != nil {
		listen = func(_, address string) (net.Listener, error) { return h.space.listen(address) }
	}
	l, err := listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	var mu sync.Mutex
	var paths []string
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		paths = append(paths, r.Method+" "+r.URL.Path)
		mu.Unlock()
		if answer := files[r.URL.Path]; answer != nil {
			answer(w, r)
			return
		}
		http.NotFound(w, r)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	h.t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return "http://" + l.Addr().String(), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), paths...)
	}
}

func fileAnswer(path string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, path) }
}

func textAnswer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
}

// seed puts a release archive into the host's cache, as image builders do.
func (h *host) seed(version, path string) {
	h.t.Helper()
	to := h.path("cache", "etcd", "v"+version, fmt.Sprintf("etcd-v%s-linux-%s.tar.gz", version, runtime.GOARCH))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Link(path, to); err != nil { // both are in the directory for temporary files
		h.t.Fatal(err)
	}
}
