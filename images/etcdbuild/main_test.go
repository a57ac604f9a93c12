package etcdbuild

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// main runs the command line in the fixture.
func (f *fixture) main(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	code = Main(t.Context(), append([]string{"-modules", f.Modules, "-cache", f.Cache}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func TestCommandBuildsAndPrintsOnlyTheDirectory(t *testing.T) {
	f := newFixture(t)
	want := filepath.Join(f.Cache, "etcd", "1.2.3-"+f.keyOf(t)) + "\n"
	for _, args := range [][]string{{"etcd", "1.2.3"}, {"etcd", "all"}} {
		code, stdout, stderr := f.main(t, args...)
		if code != 0 || stdout != want {
			t.Errorf("%v: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

func TestCommandLines(t *testing.T) {
	f := newFixture(t)
	f.write(t, "1.2.10/go.mod", "")
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"versions"}, 0, "1.2.3\n1.2.10\n", ""},
		{[]string{"path"}, 0, f.Bin() + "\n", ""},
		{[]string{"-help"}, 0, "", "images [flags] etcd VERSION..."},
		{nil, 2, "", "unknown command line"},
		{[]string{"etcd"}, 2, "", "unknown command line"},
		{[]string{"-nonesuch"}, 2, "", "not defined: -nonesuch"},
		{[]string{"etcd", "9.9.9"}, 1, "", "known versions (1.2.3, 1.2.10); to add one, add a folder " + f.Modules},
		{[]string{"etcd", "1.2.3", "9.9.9"}, 1, "", `"9.9.9" is not one`},
		{[]string{"etcd", "1.2.10"}, 1, "", "build etcd 1.2.10:"},
	} {
		code, stdout, stderr := f.main(t, c.args...)
		if code != c.code || stdout != c.stdout || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%v: code %d, stdout %q, stderr %q", c.args, code, stdout, stderr)
		}
	}
	if got := f.entries(t, "etcd"); len(got) != 0 {
		t.Errorf("built although one of the names is unknown: %v", got)
	}
}

func TestUnknownVersionIsATypedError(t *testing.T) {
	f := newFixture(t)
	_, err := f.Build(t.Context(), "../1.2.3")
	var unknown *UnknownVersionError
	if !errors.As(err, &unknown) || !slices.Equal(unknown.Known, []string{"1.2.3"}) {
		t.Errorf("error is %#v", err)
	}
	if _, err := f.Key(t.Context(), "9.9.9"); !errors.As(err, &unknown) {
		t.Errorf("error of Key is %v", err)
	}
}

func TestEmptyModulesFolderIsAnError(t *testing.T) {
	b := &Builder{Modules: t.TempDir()}
	if known, err := b.Versions(); err == nil {
		t.Errorf("versions are %v", known)
	}
}

func TestVersionsAreOrderedByNumber(t *testing.T) {
	got := []string{"3.10.0", "3.5.35", "3.5.9", "2.3.8", "3.8.0-alpha.0", "3.8.0"}
	slices.SortFunc(got, compareVersions)
	want := []string{"2.3.8", "3.5.9", "3.5.35", "3.8.0", "3.8.0-alpha.0", "3.10.0"}
	if !slices.Equal(got, want) {
		t.Errorf("order is %v", got)
	}
}

func TestModulesAreFoundFromWithinTheTree(t *testing.T) {
	tree := t.TempDir()
	want := filepath.Join(tree, "images", "etcd")
	deep := filepath.Join(tree, "pkg", "plan")
	for _, d := range []string{want, deep} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range []string{tree, deep, want} {
		if got, err := FindModules(from); err != nil || got != want {
			t.Errorf("from %s: %s, %v", from, got, err)
		}
	}
	if got, err := FindModules(t.TempDir()); err == nil {
		t.Errorf("found %s outside of a tree", got)
	}
}

func TestCacheRootFollowsTheEnvironment(t *testing.T) {
	t.Setenv("ETCDADM_CACHE", "/somewhere")
	if got, err := CacheRoot(); err != nil || got != "/somewhere" {
		t.Errorf("root is %s, %v", got, err)
	}
	t.Setenv("ETCDADM_CACHE", "")
	t.Setenv("XDG_CACHE_HOME", "/var/cache/me")
	if got, err := CacheRoot(); err != nil || got != "/var/cache/me/etcdadm" {
		t.Errorf("root is %s, %v", got, err)
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	if got, err := CacheRoot(); err == nil || !strings.Contains(err.Error(), "ETCDADM_CACHE") {
		t.Errorf("root is %s, %v", got, err)
	}
}

// The folder's name is what people ask for, so it must be what they get.
func TestEveryFolderPinsTheVersionOfItsName(t *testing.T) {
	b := &Builder{Modules: filepath.Join("..", "etcd")}
	known, err := b.Versions()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range known {
		folder := filepath.Join(b.Modules, v)
		if pinned := pinnedServer(t, folder); pinned != "v"+v && pinned != "v"+v+"+incompatible" && pinned != pseudo[v] {
			t.Errorf("folder %s has server %q", v, pinned)
		}
		tools, err := new(Builder).readTools(t.Context(), folder)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range tools {
			names = append(names, tool.binary)
		}
		slices.Sort(names)
		if want := binariesOf(v); !slices.Equal(names, want) {
			t.Errorf("folder %s has %v, want %v", v, names, want)
		}
	}
}

// pseudo are the versions of etcd 3.4's module, which says nothing of its releases.
var pseudo = map[string]string{
	"3.4.3":  "v0.5.0-alpha.5.0.20191023171146-3cf2f69b5738",
	"3.4.13": "v0.5.0-alpha.5.0.20200824191128-ae9734ed278b",
	"3.4.25": "v0.5.0-alpha.5.0.20230414071934-94593e63d45c",
}

// binariesOf are those that there are of a version: the etcdutl of 3.6.11 and of 3.6.12 is
// not to be had.
func binariesOf(version string) []string {
	if compareVersions(version, "3.5.0") < 0 || version == "3.6.11" || version == "3.6.12" {
		return []string{"etcd", "etcdctl"}
	}
	return []string{"etcd", "etcdctl", "etcdutl"}
}

// pinnedServer is the version of the module that has the server.
func pinnedServer(t *testing.T, folder string) string {
	t.Helper()
	out, err := new(Builder).runGo(t.Context(), folder, "mod", "edit", "-json")
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	servers := []string{"go.etcd.io/etcd/server/v3", "go.etcd.io/etcd", "github.com/coreos/etcd"}
	for _, r := range mod.Require {
		if slices.Contains(servers, r.Path) {
			return r.Version
		}
	}
	return ""
}

// Building etcd takes half a minute, so this looks only at what is there: the versions of
// "make test" must be.
func TestBuiltEtcdIsTheVersionItSays(t *testing.T) {
	root, err := CacheRoot()
	if err != nil {
		t.Fatal(err)
	}
	b := &Builder{Modules: filepath.Join("..", "etcd"), Cache: root, Progress: t.Output()}
	known, err := b.Versions()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range known {
		key, err := b.Key(t.Context(), v)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(root, "etcd", v+"-"+key)
		_, err = os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) && !slices.Contains(sets["test"], v) {
			continue
		}
		t.Run(v, func(t *testing.T) {
			if err != nil {
				t.Skipf("etcd %s is not in the cache; go run ./images etcd %s puts it there", v, v)
			}
			for _, binary := range binariesOf(v) {
				args := []string{"version"}
				if binary == "etcd" || strings.HasPrefix(v, "2.") {
					args = []string{"--version"}
				} else if compareVersions(v, "3.4.0") < 0 {
					t.Setenv("ETCDCTL_API", "3")
				}
				if got := output(t, filepath.Join(dir, binary), args...); !strings.Contains(got, "ersion: "+v+"\n") &&
					!strings.Contains(got, "ersion "+v+"\n") {
					t.Errorf("%s says %s", binary, got)
				}
			}
		})
	}
}

func TestSetsNameKnownVersions(t *testing.T) {
	b := &Builder{Modules: filepath.Join("..", "etcd")}
	for name := range sets {
		versions, err := b.resolve([]string{name})
		if err != nil || len(versions) < 2 || !slices.IsSortedFunc(versions, compareVersions) {
			t.Errorf("set %s has %v, %v", name, versions, err)
		}
	}
	for _, v := range sets["test"] {
		if !slices.Contains(sets["e2e"], v) {
			t.Errorf("%s is of make test, not of make e2e", v)
		}
	}
}
