package notices

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// linked is a package of a module at version v1.0.0.
func linked(module, dir, top string) (p Linked) {
	p.Dir = dir
	p.ImportPath = module + filepath.ToSlash(strings.TrimPrefix(dir, top))
	p.Module = &struct {
		Path, Version, Dir string
		Main               bool
		Replace            *struct{ Path, Version string }
	}{Path: module, Version: "v1.0.0", Dir: top}
	return p
}

// A package within a module may have a license of its own, and a module may not lack one.
func TestNoticesWithinAModule(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	in := func(module, dir string) Linked {
		return linked("example.com/"+module, filepath.Join(root, module, dir), filepath.Join(root, module))
	}
	write("one/LICENSE", "terms A\r\n")
	write("one/license.go", "package one")
	write("one/deep/er/COPYING.txt", "terms B\n")
	write("two/LICENSE.md", "terms A")
	write("none/README.md", "terms C")
	got, err := Text([]Linked{in("one", ""), in("one", "deep/er"), in("two", "")})
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("-", 80) + "\n"
	want := line + "example.com/one v1.0.0\nexample.com/two v1.0.0\n" + line + "\nterms A\n" +
		"\n" + line + "example.com/one v1.0.0 deep/er\n" + line + "\nterms B\n"
	if !strings.Contains(string(got), "\n"+want) {
		t.Errorf("%s", got)
	}
	if !strings.Contains(string(got), "\n"+line+"Go and its standard library\n"+line+"\nCopyright 2009 The Go Authors.") {
		t.Errorf("the license of Go is missing: %s", got)
	}
	if got, err = Text([]Linked{in("one", ""), in("none", "")}); err == nil ||
		!strings.Contains(err.Error(), "example.com/none v1.0.0") {
		t.Errorf("a module without a license gives %s, %v", got, err)
	}
}

// Of a vendored module the go command does not report where it is.
func TestVendored(t *testing.T) {
	p := linked("example.com/one", "/src/vendor/example.com/one/deep/er", "/src/vendor/example.com/one")
	p.Module.Dir = ""
	if got := p.rooted().Module.Dir; got != "/src/vendor/example.com/one" {
		t.Errorf("the module is in %s", got)
	}
}
