package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// testPackages have the tests that run lines of pages.
var testPackages = []string{"e2e", "e2e/images", "e2e/machine", "e2e/systemd"}

// A testPackage has the functions and constants of one package by name: methods too, whatever their type.
type testPackage struct {
	decls map[string][]ast.Node
}

// testSources reads the packages whose tests run lines of pages, by path.
func testSources(t *testing.T) map[string]testPackage {
	t.Helper()
	all := map[string]testPackage{}
	for _, dir := range testPackages {
		names, err := filepath.Glob(filepath.Join("../../..", dir, "*.go"))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(names), err)
		}
		p := testPackage{map[string][]ast.Node{}}
		for _, name := range names {
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.add(name, string(source)); err != nil {
				t.Fatal(err)
			}
		}
		all[dir] = p
	}
	return all
}

// add adds what a file declares.
func (p testPackage) add(name, source string) error {
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			p.decls[d.Name.Name] = append(p.decls[d.Name.Name], d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					for _, n := range v.Names {
						p.decls[n.Name] = append(p.decls[n.Name], v)
					}
				}
			}
		}
	}
	return nil
}

// reads returns an error unless one of the packages has the test, and it or a function that it calls names
// both the page and the heading.
func reads(packages map[string]testPackage, test, page, heading string) error {
	for _, p := range packages {
		for _, d := range p.decls[test] {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				if p.reaches(test, page, heading, map[string]bool{}) {
					return nil
				}
				return fmt.Errorf("%s reads other pages or sections, as it names no such one", test)
			}
		}
	}
	return fmt.Errorf("there is no %s in %s", test, strings.Join(testPackages, ", "))
}

// reaches reports whether a function that name leads to names page and heading, both.
func (p testPackage) reaches(name, page, heading string, seen map[string]bool) bool {
	if seen[name] {
		return false
	}
	seen[name] = true
	for _, d := range p.decls[name] {
		texts, names := p.uses(d)
		if texts[page] && texts[heading] {
			return true
		}
		for next := range names {
			if p.reaches(next, page, heading, seen) {
				return true
			}
		}
	}
	return false
}

// uses returns the texts that a declaration has, those of constants and variables included, and the
// names that it uses.
func (p testPackage) uses(d ast.Node) (texts, names map[string]bool) {
	texts, names = map[string]bool{}, map[string]bool{}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			names[n.Name] = true
			for _, v := range p.decls[n.Name] {
				if v, ok := v.(*ast.ValueSpec); ok && v != d {
					values, _ := p.uses(v)
					for text := range values {
						texts[text] = true
					}
				}
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil {
				texts[text] = true
			}
		}
		return true
	})
	return texts, names
}

// A test that is not there, or runs another section of the page, or another page, does not count: nor
// does it that another test of its file names the section.
func TestATestThatDoesNotReadTheSectionIsReported(t *testing.T) {
	p := testPackage{map[string][]ast.Node{}}
	err := p.add("x_test.go", `package x
const page = "docs/a.md"
func TestOne(t *testing.T) { help(t) }
func TestOther(t *testing.T) { u.begin().lines(t) }
func (u user) lines(t *testing.T) { block(t, page, "## Other") }
func help(t *testing.T) { help(t); block(t, page, "## One") }`)
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]testPackage{"x": p}
	for _, tc := range []struct {
		test, page, heading string
		want                bool
	}{
		{"TestOne", "docs/a.md", "## One", true},
		{"TestOther", "docs/a.md", "## Other", true},
		{"TestOne", "docs/a.md", "## Other", false},
		{"TestOther", "docs/a.md", "## One", false},
		{"TestOne", "docs/b.md", "## One", false},
		{"TestNone", "docs/a.md", "## One", false},
		{"lines", "docs/a.md", "## Other", false},
	} {
		if err := reads(packages, tc.test, tc.page, tc.heading); (err == nil) != tc.want {
			t.Errorf("%s, %s %s: %v", tc.test, tc.page, tc.heading, err)
		}
	}
}
