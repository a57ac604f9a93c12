package hygiene

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root returns the root of the tree.
func root(t *testing.T) string {
	t.Helper()
	dir, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// packages lists the tree's packages.
func packages(t *testing.T) []Package {
	t.Helper()
	all, err := Packages(t.Context(), root(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("the tree has no package, so the tests of this package say nothing")
	}
	return all
}

// report fails the test for everything that is wrong.
func report(t *testing.T, wrong []string) {
	t.Helper()
	for _, w := range wrong {
		t.Error(w)
	}
}

func TestImportsFollowTheLayers(t *testing.T) {
	all := packages(t)
	report(t, CheckImports(all))
	if missing := Missing(all); len(missing) > 0 {
		t.Logf("in the tables of this package, but not in the tree: %s", strings.Join(missing, ", "))
	}
}

func TestEveryPackageHasAComment(t *testing.T) {
	report(t, CheckComments(packages(t)))
}

func TestTheTreeKeepsItsBudgets(t *testing.T) {
	s, err := Measure(root(t))
	if err != nil {
		t.Fatal(err)
	}
	source := s.SourceLines()
	t.Logf("%d source lines in %d files, %d functions, %d test lines (%.2f per source line)",
		source, len(s.Files), len(s.Funcs), s.TestLines,
		float64(s.TestLines)/float64(max(source, 1)))
	report(t, CheckBudgets(s))
}

func TestNothingForbiddenIsWrittenDown(t *testing.T) {
	wrong, err := CheckWords(root(t))
	if err != nil {
		t.Fatal(err)
	}
	report(t, wrong)
}

func TestLicenseIsApache2(t *testing.T) {
	license, err := os.ReadFile(filepath.Join(root(t), "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(license)), " ")
	for _, want := range []string{
		"Apache License Version 2.0, January 2004", "9. Accepting Warranty or Additional Liability",
		"END OF TERMS AND CONDITIONS",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("LICENSE lacks %q", want)
		}
	}
}

// A test with the build tag e2e runs only where the Makefile names its package.
func TestLongTestsAreRun(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(makefile), "\nLONG ")
	line, _, _ := strings.Cut(rest, "\n")
	named, found := strings.Fields(line), false
	err = Text(root(t), func(name string, content []byte) error {
		if !strings.HasSuffix(name, "_test.go") || !strings.HasPrefix(string(content), "//go:build e2e\n") ||
			strings.HasPrefix(name, "e2e/") {
			return nil
		}
		found = true
		if !slices.Contains(named, "./"+filepath.Dir(name)) {
			t.Errorf("%s: LONG in the Makefile does not name ./%s", name, filepath.Dir(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		t.Error("no package outside e2e has such tests, so this test says nothing")
	}
}
