package e2e

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// A mirror serves release archives of etcd over TLS, with their SHA256SUMS. They are builds
// of one's own, under etcd's version numbers: daemons are given their digests in a file.
type mirror struct {
	url, ca, dir, digests string

	mu    sync.Mutex
	asked []string
}

// newMirror has the archives of these versions.
func newMirror(t *testing.T, dirs string, versions ...string) *mirror {
	t.Helper()
	m := &mirror{dir: t.TempDir(), digests: filepath.Join(t.TempDir(), "digests")}
	for _, v := range versions {
		if err := m.pack(dirs, v); err != nil {
			t.Fatal(err)
		}
		m.sign(t, v)
	}
	files := http.FileServer(http.Dir(m.dir))
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.asked = append(m.asked, path.Base(r.URL.Path))
		m.mu.Unlock()
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	m.url, m.ca = s.URL, filepath.Join(t.TempDir(), "ca.crt")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}
	if err := os.WriteFile(m.ca, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

// archive is where the archive of a version is.
func (m *mirror) archive(version string) string {
	return filepath.Join(m.dir, "v"+version, fmt.Sprintf("etcd-v%s-linux-%s.tar.gz", version, runtime.GOARCH))
}

// pack makes it of the binaries that were built.
func (m *mirror) pack(dirs, version string) (err error) {
	file := m.archive(version)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	for _, program := range []string{"etcd", "etcdctl", "etcdutl"} {
		binary, err := harness.EtcdBinary(dirs, version, program)
		if err != nil && program == "etcdutl" {
			continue // there is none of each patch
		} else if err != nil {
			return err
		}
		b, err := os.ReadFile(binary)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(filepath.Base(file), ".tar.gz") + "/" + program
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(b))}); err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), z.Close())
}

// sign publishes the digest of an archive as it is, and gives it to the daemons.
func (m *mirror) sign(t *testing.T, version string) {
	t.Helper()
	f, err := os.Open(m.archive(version))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		t.Fatal(err)
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	line := digest + "  " + filepath.Base(m.archive(version)) + "\n"
	sums := filepath.Join(filepath.Dir(m.archive(version)), "SHA256SUMS")
	if err := os.WriteFile(sums, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	m.trust(t, version, digest)
}

// trust gives the daemons the digest of an archive: the first of a version is what counts.
func (m *mirror) trust(t *testing.T, version, digest string) {
	t.Helper()
	before, err := os.ReadFile(m.digests)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	text := digest + "  " + filepath.Base(m.archive(version)) + "\n" + string(before)
	if err := os.WriteFile(m.digests, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fetched is how often archives of a version were asked for.
func (m *mirror) fetched(version string) (count int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range m.asked {
		if name == filepath.Base(m.archive(version)) {
			count++
		}
	}
	return count
}

// withMirror are the options of daemons that have one version of etcd, and fetch the others.
func withMirror(t *testing.T, m *mirror, has string) harness.Options {
	t.Helper()
	o := options(t, append(slices.Clone(quick), "--etcd-release="+m.url, "--etcd-release-digests="+m.digests)...)
	o.EtcdDirs = only(t, o.EtcdDirs, has)
	o.Env = []string{"SSL_CERT_FILE=" + m.ca}
	return o
}

// A daemon fetches the version that the spec asks for, and what it runs is found without
// the mirror, too.
func TestADaemonFetchesWhatItLacks(t *testing.T) {
	t.Parallel()
	m := newMirror(t, options(t).EtcdDirs, v36)
	c := harness.New(t.Context(), t, withMirror(t, m, v35))
	c.Bootstrap(1, v35, "a")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	c.SetSpec(1, v36)
	runs(t, c, v36)
	answers(t, c, v36)
	w.WaitMore(harness.Soon, 10)
	n := c.Node("a")
	n.Stop()
	c.Flags = quick
	n.Start()
	c.WaitVoters(harness.Soon, 1)
	answers(t, c, v36)
	w.WaitMore(harness.Soon, 10)
}
