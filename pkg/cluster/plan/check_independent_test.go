package plan

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// shared are the functions that both the rules and Check may call: they find something,
// print something or compare two things of the same kind, and decide nothing.
var shared = []string{
	"join", "minorOf", "MomentOf", "names", "newestRecord", "overlap", "recordedToken", "Target", "text", "unsafe",
	"Validate",
}

// TestCheckDecidesApart: what a rule decides by, the Check that guards it does not, and
// the other way round. A mistake in one of them would be made by both.
func TestCheckDecidesApart(t *testing.T) {
	rules, check := calls(t, "rule_", "step_", "ways_", "view.go"), calls(t, "check")
	declared := functions(t)
	for name := range rules {
		if check[name] && declared[name] && !slices.Contains(shared, name) {
			t.Errorf("%s decides for a rule and for the Check", name)
		}
	}
	for _, name := range shared {
		if !declared[name] {
			t.Errorf("there is no %s any more", name)
		}
	}
	if rules["checker"] || check["newView"] {
		t.Error("a rule asks Check, or Check the rules' view")
	}
}

// calls returns what is called, or made, by name in the files whose names begin so.
func calls(t *testing.T, prefixes ...string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, f := range parsed(t) {
		begins := func(p string) bool { return strings.HasPrefix(f.name, p) }
		if !slices.ContainsFunc(prefixes, begins) {
			continue
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok {
					found[id.Name] = true
				}
				for _, arg := range n.Args { // a function that is handed on
					if id, ok := arg.(*ast.Ident); ok {
						found[id.Name] = true
					}
				}
			case *ast.CompositeLit:
				if id, ok := n.Type.(*ast.Ident); ok {
					found[id.Name] = true
				}
			}
			return true
		})
	}
	if len(found) < 10 {
		t.Fatalf("the files %q call %d functions", prefixes, len(found))
	}
	return found
}

// functions returns the functions of the package that are no methods.
func functions(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, f := range parsed(t) {
		for _, d := range f.file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				found[fn.Name.Name] = true
			}
		}
	}
	return found
}

type sourceFile struct {
	name string
	file *ast.File
}

func parsed(t *testing.T) (list []sourceFile) {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, sourceFile{e.Name(), file})
	}
	return list
}
