package backups

import (
	"archive/tar"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/keyspace"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/snapshottest"
)

func TestDump(t *testing.T) {
	l := newStoreDir(t)
	l.add(first, kubernetes().Snapshot(t))
	file := kubernetes().File(t)
	golden(t, "dump.txt", l.must("dump", first))
	golden(t, "dump.jsonl", l.must("dump", first, "-o", "jsonl"))
	golden(t, "dump-keys.txt", l.must("dump", file, "--keys-only"))
	golden(t, "summary.txt", l.must("dump", file, "--summary"))
	golden(t, "summary.json", l.must("dump", file, "--summary", "-o", "json", "--prefix=/registry/pods/"))
	for _, args := range [][]string{
		{"--latest"}, {"--data-dir=" + l.dir + "/" + first}, {"--data-dir=file://" + l.dir + "/" + first}, {file}, {
			filepath.Join(l.dir, first),
		},
	} {
		if out := l.must(append([]string{"dump", "--prefix=plain"}, args...)...); out != "plain => text\n" {
			t.Errorf("%v: %q", args, out)
		}
	}
	if out := l.must("dump", file, "--prefix=/registry/pods/default", "--keys-only",
		"--revision=6"); out != "/registry/pods/default/web-1\n/registry/pods/default/web-2\n" {
		t.Error(out)
	}
	l.fails(1, "its history goes from 1 to 17", "dump", file, "--revision=99")
	broken := snapshottest.Write(t, kubernetes().Snapshot(t)[:8192])
	l.fails(1, "damaged", "dump", broken)
}

// What comes out of a backup must not steer somebody's terminal.
func TestDumpToATerminal(t *testing.T) {
	for keysOnly, want := range map[bool]string{false: "a\uFFFD[2Jb => \uFFFD x\uFFFD\n", true: "/a\uFFFD[2Jb\n"} {
		var b strings.Builder
		d := &dump{keysOnly: keysOnly, out: cli.AddOutput(&cobra.Command{}, cli.Table)}
		err := d.writer(&b, true)(keyspace.Key{Key: "/a\x1b[2Jb"}, []byte("\x07\nx\xff"))
		if err != nil || b.String() != want {
			t.Errorf("%q, %v, want %q", b.String(), err, want)
		}
	}
}

// What was dumped as JSON lines is all that there is, whatever the bytes.
func TestDumpOfAnyBytes(t *testing.T) {
	d := snapshottest.New("3.5")
	want := map[string]string{"a\nb": "\x00\xff", "\xff\xfe": "<&>", "é": "\u2028", "empty": ""}
	for k, v := range want {
		d.Put(k, v, 0)
	}
	l := newStoreDir(t)
	for line := range strings.Lines(l.must("dump", d.File(t), "-o", "jsonl")) {
		var got struct{ Key, Value, KeyBase64, ValueBase64 string }
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		key, value := got.Key+decoded(t, got.KeyBase64), got.Value+decoded(t, got.ValueBase64)
		if v, ok := want[key]; !ok || v != value {
			t.Errorf("%q is %q, want %q, %t", key, value, v, ok)
		}
		delete(want, key)
	}
	if len(want) > 0 {
		t.Errorf("not there: %q", want)
	}
}

func decoded(t *testing.T, s string) string {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// entries returns the content of a tar.gz by name, directories with "DIR".
func entries(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := all[strings.TrimSuffix(h.Name, "/")]; twice {
			t.Errorf("%s is there twice", h.Name)
		}
		content, mode := string(b), int64(0o644)
		if h.Typeflag == tar.TypeDir {
			content, mode = "DIR", 0o755
		}
		if h.Mode != mode {
			t.Errorf("the mode of %s is %o", h.Name, h.Mode)
		}
		all[strings.TrimSuffix(h.Name, "/")] = content
	}
}

func TestArchive(t *testing.T) {
	l := newStoreDir(t)
	path := filepath.Join(t.TempDir(), "out.tar.gz")
	r := l.run("dump", kubernetes().File(t), "--out="+path, "--prefix=/registry/pods/")
	if r.code != 0 || r.out != "" || r.errors != "wrote 2 keys to "+path+"\n" {
		t.Errorf("%+v", r)
	}
	want := map[string]string{
		"registry": "DIR", "registry/pods": "DIR", "registry/pods/default": "DIR", "registry/pods/kube-system": "DIR",
		"registry/pods/default/web-1": "k8s\x00\x0a\xff pod", "registry/pods/kube-system/dns": "k8s\x00\x0a\xff pod",
	}
	if got := entries(t, path); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("there are %q", got)
	}
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
	l.fails(1, "no such file", "dump", kubernetes().File(t), "--out=/nonexistent/x.tar.gz")
	// A directory in its place: nothing is left beside it.
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "d", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	l.fails(1, "write", "dump", kubernetes().File(t), "--out="+filepath.Join(dir, "d"))
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("there are %v", list)
	}
}

// hostile are keys that would do harm as names of files.
var hostile = []string{
	"../../etc/passwd", "/../x", "/a/../../x", "/./x", "/", "//", "//x", "/a//b", "/a/", "/a", "a", "/a/b", "a/b", "a/c",
	"/dir/f", "dir",
	"/b\x00c", "/back\\slash", "/c:/x", "/new\nline", "/per%cent", "/per%25cent", "/%-", "/%+", "/%", "/.", "/..", "..",
	".", "/\xff\xfe",
	"/" + strings.Repeat("l", 255), "/" + strings.Repeat("l", 1000), "/" + strings.Repeat("l", 999) + "m", "/é",
	"/%2E%2E/x", "%+/a", "/\x1b[2J",
}

func TestHostileKeysInAnArchive(t *testing.T) {
	d := snapshottest.New("3.6")
	for _, k := range hostile {
		d.Put(k, "value of "+k, 0)
	}
	l := newStoreDir(t)
	path := filepath.Join(t.TempDir(), "out.tar.gz")
	if r := l.run("dump", d.File(t), "--out="+path); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	all := entries(t, path)
	values := map[string]string{}
	for name, content := range all {
		if !filepath.IsLocal(name) || strings.ContainsAny(name, "\\:\x00\n\x1b") {
			t.Errorf("the name %q", name)
		}
		for part := range strings.SplitSeq(name, "/") {
			if part == "" || part == "." || part == ".." || len(part) > 255 {
				t.Errorf("the name %q has the part %q", name, part)
			}
		}
		if content == "DIR" {
			continue
		}
		values[content] = name
		// It lies in a directory that is one.
		if dir := filepath.Dir(name); dir != "." && all[dir] != "DIR" {
			t.Errorf("%q lies in what is %q", name, all[dir])
		}
	}
	for _, k := range hostile {
		if _, ok := values["value of "+k]; !ok {
			t.Errorf("%q is not there", k)
		}
	}
	// It can be unpacked.
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, content := range all {
		if content == "DIR" {
			err = root.MkdirAll(name, 0o700)
		} else if err = root.MkdirAll(filepath.Dir(name), 0o700); err == nil {
			err = root.WriteFile(name, []byte(content), 0o600)
		}
		if err != nil {
			t.Errorf("unpack %q: %v", name, err)
		}
	}
}

func FuzzFileName(f *testing.F) {
	for _, k := range hostile {
		f.Add(k, "a")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == b || a == "" || b == "" {
			return
		}
		d := snapshottest.New("3.6")
		d.Put(a, "", 0)
		d.Put(b, "", 0)
		s, err := keyspace.Open(t.Context(), d.File(t), keyspace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		x, y := fileName(a, s), fileName(b, s)
		if !filepath.IsLocal(x) || filepath.Clean(x) != x {
			t.Errorf("%q has the file %q", a, x)
		}
		if x == y || strings.HasPrefix(x, y+"/") || strings.HasPrefix(y, x+"/") {
			t.Errorf("%q and %q have the files %q and %q", a, b, x, y)
		}
	})
}

func TestPlaces(t *testing.T) {
	r := registry{prefixes: []string{"/registry/", "/openshift.io/"}}
	for key, want := range map[string]place{
		"/registry/pods/ns/name":                               {"pods", "ns"},
		"/registry/minions/n":                                  {"nodes", ""},
		"/registry/services/specs/ns/n":                        {"services", "ns"},
		"/registry/services/endpoints/ns/n":                    {"endpoints", "ns"},
		"/registry/namespaces/ns":                              {"namespaces", ""},
		"/registry/cert-manager.io/certificates/ns/n":          {"certificates.cert-manager.io", "ns"},
		"/registry/apiextensions.k8s.io/customresources/x.y.z": {"customresources.apiextensions.k8s.io", ""},
		"/registry/masterleases/10.0.0.1":                      {"masterleases", ""},
		"/registry/ranges/serviceips":                          {"ranges", ""},
		"/registry/health":                                     {"health", ""},
		"/registry/":                                           {"[registry/]", ""},
		"/openshift.io/routes/ns/n":                            {"routes", "ns"},
		"/coreos.com/network/subnets/10.1":                     {"[coreos.com/network]", ""},
		"compact_rev_key":                                      {"[compact_rev_key]", ""},
		"a/b":                                                  {"[a]", ""},
		"":                                                     {"[]", ""},
	} {
		if key == "/registry/" {
			want = place{"[registry]", ""}
		}
		if got := r.place(key); got != want {
			t.Errorf("%s is %+v, want %+v", key, got, want)
		}
	}
}

// API servers may have another prefix, and there may be several.
func TestPrefixesAreFound(t *testing.T) {
	d := snapshottest.New("3.6")
	d.Put("/my/k8s/namespaces/default", "", 0)
	d.Put("/my/k8s/namespaces/kube-system", "", 0)
	d.Put("/my/k8s/pods/default/p", "", 0)
	d.Put("/second/namespaces/kube-system", "", 0)
	l := newStoreDir(t)
	out := l.must("dump", d.File(t), "--summary", "-o", "json")
	var got digest
	if err := json.Unmarshal([]byte(out), &got); err != nil || fmt.Sprint(got.Prefixes) != "[/my/k8s/ /second/]" ||
		got.Keys != 4 {
		t.Errorf("%+v, %v", got, err)
	}
	if !strings.Contains(out, `"resource": "pods"`) {
		t.Error(out)
	}
}
