package machine

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// forbidden is how a bucket answers for what it does not have.
func forbidden(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }

// EKS Distro's archives hold etcd and etcdctl, under versions with and without its
// suffix. They come from the URL of the archive, from a base URL, or from the cache
// of the image, and the bucket forbids what is not there.
func withoutEtcdutl(t *testing.T) {
	for _, c := range []struct {
		name, release, prefix string
		url                   func(base, release string) string
	}{
		{"the URL of the archive", v35, "./", func(base, release string) string { return base + eksName(release) }},
		{"a base URL", v35 + "-eks-1-35-1", "./", func(base, _ string) string { return base }},
		{"in a directory", v36, "etcd-v" + v36 + "-linux-" + runtime.GOARCH + "/", func(base, _ string) string {
			return base
		}},
		{"at the top", v36 + "-eks-1-36-1", "", func(base, _ string) string { return base }},
		{"the cache of the image", v35, "./", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			version, _, _ := strings.Cut(c.release, "-")
			path := lean(t, version, c.prefix)
			h := newMachine(t, "a", version)
			h.fakeSystemd()
			newOldCA(t).install(h)
			flags := []string{"init", "--init-system", "systemd", "--version", c.release, "--install-dir", "/opt/bin/",
				"--cipher-suites", ciphers, "--bind-address=127.0.0.1"}
			if c.url == nil {
				h.seed(c.release, path)
			} else {
				name := eksName(c.release)
				url, _ := h.serve(map[string]http.HandlerFunc{
					name: fileAnswer(path), name + ".sha256": textAnswer(digest(t, path) + "  etcd.tar.gz\n"),
					"/v" + c.release + "/SHA256SUMS": forbidden,
					fmt.Sprintf("/v%s/etcd-v%s-linux-%s.tar.gz", c.release, c.release, runtime.GOARCH): forbidden,
				})
				flags = append(flags, "--release-url", c.url(url, c.release))
			}
			h.ok(flags...)
			if got := h.serves(); got != version {
				t.Errorf("etcd %s runs", got)
			}
			if exists(h.path("bin", "etcdutl")) {
				t.Error("where does etcdutl come from?")
			}
			if out := h.ok(flags...); !strings.Contains(out, "Nothing to do") {
				t.Errorf("the second time: %s", out)
			}
		})
	}
}

// eksName is where EKS Distro has an archive below its base URL.
func eksName(release string) string {
	return fmt.Sprintf("/v%s/etcd-linux-%s-v%s.tar.gz", release, runtime.GOARCH, release)
}

// What restores a snapshot is missed when a snapshot is to be restored: etcdctl of
// 3.5 can do it, that of 3.6 cannot.
func snapshotWithoutEtcdutl(t *testing.T) {
	a := newMachine(t, "a", v35)
	plain := []string{"--init-system=process", "--bind-address=127.0.0.1"}
	a.ok(append([]string{"init", "--binaries-dir", a.binaries, "--version", v35}, plain...)...)
	a.put("k", "v")
	saved := a.path("snapshot.db")
	a.ok(append([]string{"snapshot", "save", saved}, "--endpoints=https://127.0.0.1:2379")...)
	text := a.read(saved)
	for _, version := range []string{v35, v36} {
		t.Run(version, func(t *testing.T) {
			h := newMachine(t, "b", version)
			h.seed(version, lean(t, version, "./"))
			h.write(h.path("snapshot.db"), text, 0o600)
			args := append([]string{"init", "--snapshot", h.path("snapshot.db"), "--version", version}, plain...)
			if version == v35 {
				h.ok(args...)
				wantKeys(map[string]string{"k": "v"}, h)
				return
			}
			h.fails(1, []string{"no tool to restore a snapshot for etcd " + version,
				"hint: put etcdutl of etcd " + version + " into /opt/bin"}, args...)
			// When it is there, the same command goes on.
			h.write(h.path("bin", "etcdutl"), a.read(etcdDir(t, version)+"/etcdutl"), 0o755)
			h.ok(args...)
			wantKeys(map[string]string{"k": "v"}, h)
		})
	}
}

// A server that many machines ask at once says so for a while. The command is run
// once.
func overloadedServer(t *testing.T) {
	h := newMachine(t, "a", v36)
	path := archive(t, v36)
	var mu sync.Mutex
	left := 12 // more than the tries of one download
	overloaded := func(answer http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			left--
			refuse := left >= 0
			mu.Unlock()
			if refuse {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			answer(w, r)
		}
	}
	url, _ := h.serve(map[string]http.HandlerFunc{
		"/etcd.tar.gz":        overloaded(fileAnswer(path)),
		"/etcd.tar.gz.sha256": overloaded(textAnswer(digest(t, path) + "\n")),
	})
	args := []string{"init", "--init-system=process", "--bind-address=127.0.0.1", "--version", v36, "--release-url",
		url + "/etcd.tar.gz"}
	if r := h.run(args...); r.code != 0 || !strings.Contains(r.stderr, "waiting: ") {
		t.Errorf("%s", r)
	}
	if got := h.serves(); got != v36 {
		t.Errorf("etcd %s runs", got)
	}
}
