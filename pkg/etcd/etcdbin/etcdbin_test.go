package etcdbin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// install writes a file into a new directory below root.
func install(t *testing.T, root, dir, file, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(root, dir, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFindObservationsInOrder(t *testing.T) {
	v := etcdversion.Must("3.6.16")
	// From last to first: each place wins over all that were filled before it.
	places := []string{
		"opt/3.6.16",
		"opt/etcd-v3.6.16-linux-" + runtime.GOARCH,
		"opt/etcd-v3.6.16/usr/local/bin",
		"opt/etcd-v3.6.16",
		"d2/3.6.16",
		"d2/etcd-v3.6.16-linux-" + runtime.GOARCH,
		"d2/etcd-v3.6.16/usr/local/bin",
		"d2/etcd-v3.6.16",
		"d1/3.6.16",
	}
	root := t.TempDir()
	f := Finder{
		Dirs: []string{filepath.Join(root, "d1"), "", filepath.Join(root, "d2")},
		Opt:  filepath.Join(root, "opt"),
	}
	for _, place := range places {
		etcd := install(t, root, place, "etcd", "", 0o755)
		got, err := f.Find(v)
		if err != nil {
			t.Fatalf("%s: %v", place, err)
		}
		if got.Etcd != etcd || got.Dir != filepath.Dir(etcd) || got.Version != v {
			t.Errorf("got %+v, want %s", got, etcd)
		}
	}
}

func TestFindReturnsTheToolsBesideEtcd(t *testing.T) {
	root := t.TempDir()
	install(t, root, "3.5.35", "etcd", "", 0o755)
	ctl := install(t, root, "3.5.35", "etcdctl", "", 0o755)
	got, err := Finder{Dirs: []string{root}, Opt: root}.Find(etcdversion.Must("3.5.35"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Etcdctl != ctl || got.Etcdutl != "" {
		t.Errorf("etcdctl %q, etcdutl %q; want %q and none", got.Etcdctl, got.Etcdutl, ctl)
	}
}

func TestFindWantsAFileThatMayBeRun(t *testing.T) {
	root := t.TempDir()
	install(t, root, "3.6.1", "etcd", "", 0o644)
	install(t, root, "3.6.2/etcd", "child", "", 0o755)
	if err := os.MkdirAll(filepath.Join(root, "3.6.3"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/nowhere", filepath.Join(root, "3.6.3", "etcd")); err != nil {
		t.Fatal(err)
	}
	f := Finder{Dirs: []string{root}, Opt: filepath.Join(root, "none")}
	for _, v := range []string{"3.6.1", "3.6.2", "3.6.3"} {
		if got, err := f.Find(etcdversion.Must(v)); err == nil {
			t.Errorf("%s: found %+v", v, got)
		}
	}
	if got := f.Versions(); len(got) != 0 {
		t.Errorf("Versions() = %v, want none", got)
	}
}

func TestNotFoundNamesAllPlacesAndANextStep(t *testing.T) {
	// Of a version that no machine has.
	f := Finder{Dirs: []string{"/x"}}
	_, err := f.Find(etcdversion.Must("3.6.987654"))
	nf, ok := errors.AsType[*NotFoundError](err)
	if !ok {
		t.Fatalf("error is %T: %v", err, err)
	}
	for _, place := range []string{
		"/x/etcd-v3.6.987654,", "/x/etcd-v3.6.987654/usr/local/bin", "/x/3.6.987654", "/opt/etcd-v3.6.987654,",
		"/opt/etcd-v3.6.987654/usr/local/bin", "/opt/etcd-v3.6.987654-linux-",
	} {
		if !strings.Contains(err.Error(), place) {
			t.Errorf("%q does not name %s", err, place)
		}
	}
	if strings.Contains(err.Error(), "/tmp") {
		t.Errorf("%q: /tmp is no place for binaries", err)
	}
	if hint := nf.Hint(); !strings.Contains(hint, "/x/etcd-v3.6.987654") || !strings.Contains(hint, "--etcd-dir") {
		t.Errorf("hint is %q", hint)
	}
}

func TestVersionsAreSortedAndWithoutDuplicates(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{
		"d/etcd-v3.6.16", "d/3.5.35", "d/etcd-v3.5.9", "d/etcd-vnext", "d/lost+found", "d/3.6",
		"opt/etcd-v3.6.16", "opt/etcd-v3.7.0/usr/local/bin", "opt/etcd-v3.4.13-linux-" + runtime.GOARCH,
		"opt/etcd-v3.4.3-linux-mips", "opt/etcd-3.6.1",
	} {
		install(t, root, dir, "etcd", "", 0o755)
	}
	install(t, root, "opt", "etcd-v3.6.9", "a file, not a directory", 0o755)
	f := Finder{Dirs: []string{filepath.Join(root, "d"), filepath.Join(root, "missing")}, Opt: filepath.Join(root, "opt")}
	var got []string
	for i, v := range f.Versions() {
		got = append(got, v.String())
		if bin, err := f.Find(v); err != nil || f.All()[i] != bin {
			t.Errorf("%s is %+v of all, %+v (%v) alone", v, f.All()[i], bin, err)
		}
	}
	want := []string{"3.4.13", "3.5.9", "3.5.35", "3.6.16", "3.7.0"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestProbe(t *testing.T) {
	root := t.TempDir()
	script := func(name, body string) string {
		return install(t, root, name, "etcd", "#!/bin/sh\n"+body+"\n", 0o755)
	}
	t.Setenv("ETCD_NAME", "ours")
	tests := []struct {
		name, path, want, fails string
	}{
		{name: "a later patch under an earlier name", want: "3.5.31",
			path: script("etcd-v3.5.7", `echo "etcd Version: 3.5.31"; echo "Git SHA: 0"`)},
		{name: "a pre-release", want: "3.7.0-beta.0", path: script("pre", `echo "etcd Version: 3.7.0-beta.0"`)},
		{name: "our environment is not for it", want: "3.6.0", path: script("env", `echo "etcd Version: 3.6.0$ETCD_NAME"`)},
		{name: "another program", fails: `it printed "hello"`, path: script("other", `echo hello`)},
		{name: "another program that says Version", fails: "not of the form",
			path: script("word", `echo "etcd Version: new"`)},
		{name: "nothing", fails: "it printed", path: script("mute", ``)},
		{name: "it fails", fails: "exit status 3: no such library",
			path: script("broken", `echo no such library >&2; exit 3`)},
		{name: "missing", fails: "no such file", path: filepath.Join(root, "missing")},
		{name: "not for this machine", fails: "exec format error", path: install(t, root, "elf", "etcd", "\x7fELF", 0o755)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Probe(t.Context(), tt.path)
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) || !strings.Contains(err.Error(), tt.path) {
					t.Errorf("version %s, error %v; want an error with %q", got, err, tt.fails)
				}
				return
			}
			if err != nil || got.String() != tt.want {
				t.Errorf("version %s, error %v; want %s", got, err, tt.want)
			}
		})
	}
}

func TestProbeEndsWithItsContext(t *testing.T) {
	path := install(t, t.TempDir(), "slow", "etcd", "#!/bin/sh\nexec sleep 60\n", 0o755)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Probe(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v, want the deadline", err)
	}
}

func TestRealBinariesAreWhatTheirDirectorySays(t *testing.T) {
	list := os.Getenv(DirVariable)
	if list == "" {
		t.Skip(DirVariable + " names no directory with etcd binaries")
	}
	f := Finder{Dirs: filepath.SplitList(list), Opt: t.TempDir()}
	versions := f.Versions()
	if len(versions) == 0 {
		t.Fatalf("no etcd below %s", list)
	}
	for _, v := range versions {
		b, err := f.Find(v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Probe(t.Context(), b.Etcd)
		if err != nil {
			t.Fatal(err)
		}
		if got != v {
			t.Logf("%s is etcd %s", b.Etcd, got)
		}
		if got.Major != v.Major || got.Minor != v.Minor {
			t.Errorf("%s is etcd %s", b.Etcd, got)
		}
	}
}
