package daemon

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// releaseOf is an archive of programs that print a version, and nothing else.
func releaseOf(t *testing.T, version string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for tool, word := range map[string]string{"etcd": "Version", "etcdctl": "version", "etcdutl": "version"} {
		body := fmt.Appendf(nil, "#!/bin/sh\necho '%s %s: %s'\n", tool, word, version)
		if err := w.WriteHeader(&tar.Header{Name: "x/" + tool, Mode: 0o755, Size: int64(len(body))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A daemon believes its operator's digests alone, where there are any, then those of etcd's
// own releases, and then the source. The file is read for each release.
func TestWhoseDigestsADaemonBelieves(t *testing.T) {
	const known, unknown = "3.5.12", "3.6.99"
	sums, archives := map[string]string{}, map[string][]byte{}
	for _, v := range []string{known, unknown} {
		name := fmt.Sprintf("etcd-v%s-linux-%s.tar.gz", v, runtime.GOARCH)
		body := releaseOf(t, v)
		sums[v] = fmt.Sprintf("%x  %s\n", sha256.Sum256(body), name)
		archives["/v"+v+"/"+name], archives["/v"+v+"/SHA256SUMS"] = body, []byte(sums[v])
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, ok := archives[r.URL.Path]; ok {
			_, _ = w.Write(body)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "digests")
	for _, c := range []struct {
		name, version, file string // file is what is in it; none for no flag
		words               []string
	}{
		{"the source's, of a release that nobody knows", unknown, "none", nil},
		{"another one than etcd's own", known, "none", []string{"pins.txt", "--etcd-release-digests"}},
		{"the operator's, of a build of one's own", known, sums[known], nil},
		{"the operator's, of another release", unknown, sums[known], []string{"none in " + file, "add its digest"}},
		{"the operator's, of another archive", unknown, strings.Repeat("0", 64) + sums[unknown][64:],
			[]string{file + " says 000"}},
		{"what is no list", unknown, "none at all", []string{"--etcd-release-digests " + file, "line 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &Daemon{log: slog.New(slog.DiscardHandler), c: Config{DataDir: t.TempDir(), Release: s.URL}}
			if c.file != "none" {
				d.c.ReleaseDigests = file
				if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := d.fetchRelease(t.Context(), etcdversion.Must(c.version))
			installed, _ := filepath.Glob(filepath.Join(d.c.releases(), "etcd-v"+c.version, "etcd"))
			if (err == nil) != (c.words == nil) || (err == nil) != (len(installed) == 1) {
				t.Errorf("it ended with %v, and has %q", err, installed)
			}
			for _, w := range c.words {
				if err != nil && !strings.Contains(err.Error(), w) {
					t.Errorf("the error does not say %q: %v", w, err)
				}
			}
		})
	}
}
