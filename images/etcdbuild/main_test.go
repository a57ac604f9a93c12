package etcdbuild

import (
	"encoding/json"
	"errors"
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
		got := map[string]string{}
		for _, r := range mod.Require {
			got[r.Path] = r.Version
		}
		if server := got["go.etcd.io/etcd/server/v3"]; server != "v"+v {
			t.Errorf("folder %s has server %q", v, server)
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
		if !slices.Equal(names, []string{"etcd", "etcdctl", "etcdutl"}) {
			t.Errorf("folder %s has %v", v, names)
		}
	}
}

// Building etcd takes half a minute, so this looks only at what is there.
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
		t.Run(v, func(t *testing.T) {
			key, err := b.Key(t.Context(), v)
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(root, "etcd", v+"-"+key)
			if _, err := os.Stat(dir); err != nil {
				t.Skipf("etcd %s is not in the cache; go run ./images etcd %s puts it there", v, v)
			}
			for binary, args := range map[string][]string{
				"etcd": {"--version"}, "etcdctl": {"version"}, "etcdutl": {"version"},
			} {
				if got := output(t, filepath.Join(dir, binary), args...); !strings.Contains(got, "ersion: "+v+"\n") {
					t.Errorf("%s says %s", binary, got)
				}
			}
		})
	}
}
