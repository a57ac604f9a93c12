package etcdrelease

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// A hostile or strange archive is refused with a reason, and nothing of it is
// left, inside or outside.
func TestUnpackRefuses(t *testing.T) {
	good := binaries("etcd-v3.6.16/", version)
	with := func(more ...file) []file { return append(more, good...) }
	for _, c := range []struct {
		name  string
		files []file
		word  string
	}{
		{"name that leads up", with(file{name: "../etcd", body: []byte("x")}), `"../etcd", which is outside`},
		{"name that leads up in its middle", with(file{name: "etcd-v3.6.16/../../x", body: []byte("x")}), "outside"},
		{"absolute name", with(file{name: "/etc/cron.d/etcd", body: []byte("x")}), "outside"},
		{"directory that leads up", with(file{name: "../", kind: tar.TypeDir}), "outside"},
		{"symbolic link", with(file{name: "x/etcd", kind: tar.TypeSymlink, link: "/etc/shadow"}), "link or device"},
		{"hard link", with(file{name: "etcd", kind: tar.TypeLink, link: "/etc/shadow"}), "link or device"},
		{"device", with(file{name: "etcd", kind: tar.TypeChar}), "link or device"},
		{"pipe", with(file{name: "etcd", kind: tar.TypeFifo}), "link or device"},
		{"two of one name", with(file{name: "etcd", body: []byte("x")}), `etcd twice: "etcd" and "etcd-v3.6.16/etcd"`},
		{"without etcd", good[1:], "no file etcd in it"},
		{"without etcdctl", good[:1], "no file etcdctl in it"},
		{"too deep", binaries("a/b/", version), "no file etcd in it"},
		{"nothing", nil, "no file etcd in it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			parent := t.TempDir()
			dir := filepath.Join(parent, "bin")
			o := local(t, version)
			o.Sources.Archive = filepath.Join(t.TempDir(), "hostile.tar.gz")
			write(t, o.Sources.Archive, packed(t, tarOf(t, c.files...)))
			_, err := Install(soon(t), o, dir)
			wantError(t, err, c.word, "hostile.tar.gz")
			if got := listed(t, dir); len(got) != 0 {
				t.Errorf("left behind: %q", got)
			}
			if got := listed(t, parent); len(got) != 1 {
				t.Errorf("left outside: %q", got)
			}
		})
	}
}

// Links in documentation are nobody's business: nothing is made of them.
func TestUnpackTakes(t *testing.T) {
	for name, files := range map[string][]file{
		"binaries at the top":     binaries("", version),
		"names that begin with .": append([]file{{name: "./", kind: tar.TypeDir}}, binaries("./etcd-v3.6.16/", version)...),
		"directory named etcd":    append([]file{{name: "etcd/", kind: tar.TypeDir}}, binaries("etcd/", version)...),
		"a link among the documentation": append([]file{
			{name: "x/Documentation/README", kind: tar.TypeSymlink, link: "/etc/shadow"},
		},
			binaries("x/", version)...),
		"files that may not be run": func() []file {
			files := binaries("x/", version)
			for i := range files {
				files[i].mode = 0o600
			}
			return files
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			o := local(t, version)
			o.Sources.Archive = filepath.Join(t.TempDir(), "etcd.tar.gz")
			write(t, o.Sources.Archive, packed(t, tarOf(t, files...)))
			mustInstall(t, o, t.TempDir())
		})
	}
}

func TestUnpackHasLimits(t *testing.T) {
	var head bytes.Buffer
	w := tar.NewWriter(&head)
	if err := w.WriteHeader(&tar.Header{Name: "etcd", Size: maxFile + 1, Mode: 0o755, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	err := unpack(t.Context(), &head, t.TempDir(), pickRelease())
	wantError(t, err, "more than any etcd")

	bomb := &limited{ctx: t.Context(), r: endless{}, left: 1 << 20}
	n, err := drain(bomb)
	if err == nil || n > 1<<20 {
		t.Errorf("read %d bytes, %v", n, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := drain(&limited{ctx: ctx, r: endless{}, left: 1 << 20}); err == nil || err.Error() != "enough" {
		t.Errorf("after the context has ended: %v", err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func drain(r interface{ Read([]byte) (int, error) }) (n int, err error) {
	b := make([]byte, 4096)
	for err == nil {
		var m int
		m, err = r.Read(b)
		n += m
	}
	return n, err
}

func TestUnpackWhenTheUserInterrupts(t *testing.T) {
	o := local(t, version)
	seed(t, o, release(t, version))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	_, err := Install(ctx, o, dir)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if strings.Contains(err.Error(), "fetch") {
		t.Errorf("it went on: %v", err)
	}
	if got := listed(t, dir); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}

func TestDigestIn(t *testing.T) {
	a, b := digest([]byte("a")), digest([]byte("b"))
	sums := a + "  etcd-v3.6.16-linux-amd64.tar.gz\n" + b + " *./x/etcd-v3.6.16-linux-arm64.tar.gz\r\n"
	for _, c := range []struct {
		text, name string
		single     bool
		want       string
	}{
		{sums, "etcd-v3.6.16-linux-amd64.tar.gz", false, a},
		{sums, "etcd-v3.6.16-linux-arm64.tar.gz", false, b},
		{sums, "etcd-v3.6.1-linux-amd64.tar.gz", false, ""},
		{sums, "linux-amd64.tar.gz", true, ""},
		{strings.ToUpper(a) + "\n", "x", true, a},
		{a + "\n", "x", false, ""},
		{a + "  other", "x", true, a},
		{a[1:] + "  x", "x", true, ""},
		{"g" + a[1:] + "  x", "x", true, ""},
		{"<html>", "x", true, ""},
		{"", "x", true, ""},
	} {
		if got := digestIn(c.text, c.name, c.single); got != c.want {
			t.Errorf("%q in %q: %q, want %q", c.name, c.text, got, c.want)
		}
	}
}

func TestShownHidesSecrets(t *testing.T) {
	got := shown("https://user:secret@host/x.gz?X-Amz-Signature=secret")
	if got != "https://user:xxxxx@host/x.gz" {
		t.Errorf("got %q", got)
	}
	if got := shown(":"); strings.Contains(got, ":") {
		t.Errorf("got %q", got)
	}
}

func TestForTakesWhatAConfigurationSays(t *testing.T) {
	o, err := Options{Version: For(defaults()).Version}.complete()
	if err != nil {
		t.Fatal(err)
	}
	want := For(defaults())
	want.pace = o.pace
	if o.Sources != want.Sources || o.CacheDir != want.CacheDir || o.ConnectTimeout != want.ConnectTimeout {
		t.Errorf("the defaults are %+v, of the configuration %+v", o, want)
	}
	if !strings.HasPrefix(want.cachePath(),
		"/var/cache/etcdadm/etcd/v"+want.Version.String()+"/etcd-v"+want.Version.String()+"-linux-") {
		t.Errorf("the cache is at %s", want.cachePath())
	}
}
