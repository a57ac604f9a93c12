package hygiene

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
)

// The budgets of the tree.
const (
	// MaxFileLines is for source files; tests have no budget.
	MaxFileLines = 400
	// MaxFuncLines is for functions outside tests, from func to the closing brace.
	MaxFuncLines = 60
	// MinTestRatio is test lines per source line. What only tests use counts as neither.
	MinTestRatio = 1.0
	// MaxMainLines is for the file of a program's main function.
	MaxMainLines = 40
	// MaxMakeLines is for the Makefile.
	MaxMakeLines = 40
)

// A Size is the size of something with a name.
type Size struct {
	Name  string
	Lines int
}

func (s Size) String() string { return fmt.Sprintf("%s (%d)", s.Name, s.Lines) }

// Sizes is what the budgets are about. Generated files do not count.
type Sizes struct {
	// Files, Funcs and Mains are of source files, without tests.
	Files, Funcs, Mains []Size
	// TestLines are the lines of all test files.
	TestLines int
	// Makefile is the length of the Makefile, 0 if there is none.
	Makefile int
}

// Measure returns the sizes of the tree below root.
func Measure(root string) (Sizes, error) {
	var s Sizes
	err := Text(root, func(name string, content []byte) error {
		return s.add(name, content)
	})
	return s, err
}

// add counts one file.
func (s *Sizes) add(name string, content []byte) error {
	lines := bytes.Count(content, []byte("\n"))
	switch {
	case name == "Makefile":
		s.Makefile = lines
		return nil
	case !strings.HasSuffix(name, ".go") || strings.Contains("/"+name, "/testdata/"):
		return nil
	case strings.HasSuffix(name, "_test.go"):
		s.TestLines += lines
		return nil
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("measure %s: %w", name, err)
	}
	if ast.IsGenerated(file) {
		return nil
	}
	s.Files = append(s.Files, Size{name, lines})
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		length := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1
		s.Funcs = append(s.Funcs, Size{name + ": " + f.Name.Name, length})
		if file.Name.Name == "main" && f.Name.Name == "main" && f.Recv == nil {
			s.Mains = append(s.Mains, Size{name, lines})
		}
	}
	return nil
}

// SourceLines returns the lines of all source files but those that only tests use.
func (s Sizes) SourceLines() int {
	n := 0
	for _, f := range s.Files {
		if !support(f.Name) {
			n += f.Lines
		}
	}
	return n
}

// support says whether only tests use a file: harnesses, fakes and the simulator. That no program
// does, CheckImports makes sure. Such files are not what is tested, so that as source they would ask
// for tests of the tests; and they check nothing by themselves, so that as tests they would stand in
// for missing ones.
func support(file string) bool {
	dir := path.Dir(file)
	return within(dir, "e2e") || forTests(dir)
}

// over returns those that are longer than limit, the longest first.
func over(sizes []Size, limit int) []Size {
	var long []Size
	for _, s := range sizes {
		if s.Lines > limit {
			long = append(long, s)
		}
	}
	slices.SortFunc(long, func(a, b Size) int { return b.Lines - a.Lines })
	return long
}

// CheckBudgets returns the budgets that are exceeded.
func CheckBudgets(s Sizes) []string {
	var wrong []string
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if long := over(s.Files, MaxFileLines); len(long) > 0 {
		fail("source files of more than %d lines: %v", MaxFileLines, long)
	}
	if long := over(s.Funcs, MaxFuncLines); len(long) > 0 {
		fail("functions of more than %d lines: %v", MaxFuncLines, long)
	}
	if source := s.SourceLines(); float64(s.TestLines) < MinTestRatio*float64(source) {
		fail("%d test lines for %d source lines are fewer than %.1f per line", s.TestLines, source, MinTestRatio)
	}
	for _, m := range over(s.Mains, MaxMainLines) {
		// A demonstration or a tool of the tests is not one of the products.
		if !strings.HasPrefix(m.Name, "e2e/") {
			fail("%s has a main function and %d lines, the budget is %d", m.Name, m.Lines, MaxMainLines)
		}
	}
	if s.Makefile > MaxMakeLines {
		fail("the Makefile has %d lines, the budget is %d", s.Makefile, MaxMakeLines)
	}
	return wrong
}
