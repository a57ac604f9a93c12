package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/etcdadm/etcdadm/pkg/cli"
)

// name is of a version that etcd does not publish: what a test serves is not etcd's own.
const name = "etcd-v3.6.99-linux-" + runtime.GOARCH + ".tar.gz"

// archive is a release of nothing that runs.
func archive(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, tool := range []string{"etcd", "etcdctl", "etcdutl"} {
		if err := w.WriteHeader(&tar.Header{Name: tool, Mode: 0o755, Size: 4}); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, "none")
	}
	w.Close()
	z.Close()
	return b.Bytes()
}

// A site has one release, and counts how often it was asked.
func site(t *testing.T, body []byte) (url string, asked *atomic.Int32) {
	t.Helper()
	asked = &atomic.Int32{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch r.URL.Path {
		case "/v3.6.99/" + name:
			w.Write(body)
		case "/v3.6.99/SHA256SUMS":
			fmt.Fprintf(w, "%x  %s\n", sha256.Sum256(body), name)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

// etcdadm runs a command line below a root with the flags that etcdadm has.
func etcdadm(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	root := &cobra.Command{Use: "etcdadm"}
	root.PersistentFlags().StringP("log-level", "l", "info", "")
	cli.AddOutput(root, cli.Table, cli.JSON, cli.YAML)
	root.AddCommand(New())
	var out, err bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&err)
	code = cli.Run(t.Context(), root, args)
	return code, out.String(), err.String()
}

// want runs a command line that must end with code, and print these words and
// nothing else where there are none.
func want(t *testing.T, code int, stdout, stderr []string, args ...string) {
	t.Helper()
	got, out, err := etcdadm(t, args...)
	if got != code {
		t.Fatalf("%q ended with %d, want %d: %s", args, got, code, err)
	}
	for _, c := range []struct {
		text  string
		words []string
	}{{out, stdout}, {err, stderr}} {
		if len(c.words) == 0 && c.text != "" {
			t.Errorf("%q printed %q", args, c.text)
		}
		for _, w := range c.words {
			if !strings.Contains(c.text, w) {
				t.Errorf("%q did not print %q but %q", args, w, c.text)
			}
		}
	}
}

func TestDownload(t *testing.T) {
	body := archive(t)
	url, asked := site(t, body)
	cache := t.TempDir()
	path := filepath.Join(cache, "etcd", "v3.6.99", name)
	sum := fmt.Sprintf("%x", sha256.Sum256(body))
	line := []string{"download", "--version=v3.6.99", "--release-url=" + url, "--cache-dir=" + cache}
	from := []string{"downloading " + url + "/v3.6.99/" + name + "\n"}
	want(t, 0, []string{"downloaded etcd 3.6.99 to " + path, sum}, from, line...)
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, body) {
		t.Fatalf("the cache has %d bytes, %v", len(b), err)
	}
	asked.Store(0)
	want(t, 0, []string{"nothing to do: etcd 3.6.99 is at " + path, sum}, nil, line...)
	if asked.Load() != 0 {
		t.Error("it asked for what is there")
	}
}

// Who may be answered by anybody in between is warned, also where the cache has the
// archive, and not where this machine answers.
func TestDownloadWarnsOfPlainHTTP(t *testing.T) {
	body := archive(t)
	url, _ := site(t, body)
	cache, sum := t.TempDir(), fmt.Sprintf("%x", sha256.Sum256(body))
	line := []string{"download", "--version=v3.6.99", "--cache-dir=" + cache, "--binaries-sha256=" + sum, "--allow-http"}
	want(t, 0, []string{"downloaded etcd 3.6.99"}, nil, append(line, "--release-url="+url, "--log-level=error")...)
	warned := []string{"warning: etcd is downloaded over plain http: only the digest proves what it is\n"}
	plain := append(line, "--release-url=http://mirror.example.com/etcd")
	want(t, 0, []string{"nothing to do: etcd 3.6.99"}, warned, plain...)
	want(t, 0, []string{"nothing to do: etcd 3.6.99"}, warned, append(plain, "--log-level=error")...)
	want(t, 0, []string{"nothing to do: etcd 3.6.99"}, nil, append(line, "--release-url=https://mirror.example.com/etcd")...)
}

// A mirror with another archive than etcd's own, whatever it says of it, is distinguished from etcd,
// and how to take a build that one trusts.
func TestDownloadOfAnotherArchiveThanEtcds(t *testing.T) {
	const known = "etcd-v3.5.12-linux-" + runtime.GOARCH + ".tar.gz"
	body := archive(t)
	sum := fmt.Sprintf("%x", sha256.Sum256(body))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v3.5.12/" + known:
			w.Write(body)
		case "/v3.5.12/SHA256SUMS":
			fmt.Fprintf(w, "%s  %s\n", sum, known)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	line := []string{"download", "--version=3.5.12", "--release-url=" + s.URL, "--cache-dir=" + t.TempDir()}
	want(t, 1, nil, []string{"error: download etcd 3.5.12", sum, "pins.txt", "hint: ", "do not use it",
		"--binaries-sha256"}, line...)
	from := []string{"downloading " + s.URL + "/v3.5.12/" + known + "\n"}
	want(t, 0, []string{"downloaded etcd 3.5.12", sum}, from, append(line, "--binaries-sha256="+sum)...)
}

func TestDownloadPrintsForPrograms(t *testing.T) {
	body := archive(t)
	url, _ := site(t, body)
	cache := t.TempDir()
	line := []string{"download", "-l", "debug", "--version=3.6.99", "--release-url", url, "--cache-dir", cache, "-o"}
	expect := Result{Fetched: true, Path: filepath.Join(cache, "etcd", "v3.6.99", name),
		SHA256: fmt.Sprintf("%x", sha256.Sum256(body)), Bytes: int64(len(body))}
	for _, c := range []struct {
		format string
		read   func([]byte, any) error
	}{
		{"json", json.Unmarshal},
		{"yaml", func(b []byte, v any) error { return yaml.UnmarshalStrict(b, v) }},
	} {
		code, out, stderr := etcdadm(t, append(line, c.format)...)
		var all struct {
			APIVersion, Kind string
			Result
		}
		if err := c.read([]byte(out), &all); code != 0 || err != nil || stderr != "" || all.Kind != "Release" {
			t.Fatalf("it ended with %d, %v: %s%s", code, err, out, stderr)
		}
		got := all.Result
		expect.Version = got.Version
		if got != expect || got.Version.String() != "3.6.99" {
			t.Errorf("got %+v, want %+v", got, expect)
		}
		expect.Fetched = false // the next time
	}
}

func TestDownloadHasNothingToDo(t *testing.T) {
	dir := t.TempDir()
	for _, flag := range []string{"--binaries-dir", "--binaries-archive", "--binaries-image"} {
		want(t, 0, []string{"nothing to do: etcd 3.6.99 comes from " + dir}, nil,
			"download", "--version=3.6.99", flag, dir, "--release-url=http://127.0.0.1:1", "--cache-dir", dir)
	}
	want(t, 0, []string{`"source": "` + dir + `"`, `"fetched": false`}, nil, "download", "--binaries-dir", dir, "-o=json")
}

func TestDownloadFails(t *testing.T) {
	url, _ := site(t, archive(t))
	cache := t.TempDir()
	for name, c := range map[string]struct {
		code  int
		words []string
		args  []string
	}{
		"no such release": {1, []string{
			"error: download etcd 3.6.17: no archive of etcd 3.6.17", url + "/v3.6.17/", "404",
			"hint: check --version and --release-url",
		},
			[]string{"--version=3.6.17", "--release-url=" + url}},
		"wrong checksum": {1, []string{
			"error: ", "--binaries-sha256 says " + strings.Repeat("0", 64), "hint: do not use this archive",
		},
			[]string{"--version=3.6.99", "--release-url=" + url, "--binaries-sha256=" + strings.Repeat("0", 64)}},
		"image of a registry": {2, []string{"images are not kept", "hint: ", "docker save"},
			[]string{"--binaries-image=registry.example/etcd@sha256:" + strings.Repeat("0", 64)}},
		"bad version": {2, []string{"--version", "hint: "}, []string{"--version=latest"}},
		"argument":    {2, []string{"hint: etcdadm download --help"}, []string{"3.6.99"}},
	} {
		t.Run(name, func(t *testing.T) {
			want(t, c.code, nil, c.words, append([]string{"download", "--cache-dir", cache}, c.args...)...)
		})
	}
	code, out, stderr := etcdadm(t, "download", "--cache-dir", cache, "--version=3.6.17", "--release-url", url, "-o",
		"json")
	var failure struct{ Kind, Message, Hint string }
	if err := json.Unmarshal([]byte(stderr), &failure); err != nil || code != 1 || out != "" || failure.Kind != "failed" ||
		failure.Hint == "" {
		t.Errorf("for programs it ends with %d, %v: %s%s", code, err, out, stderr)
	}
}
