package hygiene

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// treeRoot is the root of the tree.
var treeRoot = filepath.Join("..", "..")

func page(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(treeRoot, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestLinesAreWrapped(t *testing.T) {
	wrong, err := CheckColumns(treeRoot)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range wrong {
		t.Error(w)
	}
}

func TestLongLinesOfGoAreFound(t *testing.T) {
	args, long := strings.Repeat("argument, ", 12), strings.Repeat("string ", 20)
	for line, want := range map[string]int{
		"x := f(" + args + "1)":                   1,
		"// " + args:                              1,
		"x := f(1)":                               0,
		"x := \"" + long + "\"":                   0,
		"x := f(`" + long + "\n" + long + "`)":    0,
		"x := f(" + args + "\"" + long + "\")":    1,
		"f() //nolint:errcheck // " + args:        0,
		"x := f(" + args + "1) //nolint:errcheck": 1,
	} {
		if got := longGoLines([]byte("package p\n" + line + "\n")); len(got) != want {
			t.Errorf("%s: found %q, want %d", line, got, want)
		}
	}
}

func TestLongProseIsFound(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("word ", 30)
	for name, content := range map[string]string{
		"a.md":            "# " + long + "\n\n" + long + "\n```\n" + long + "\n```\n| " + long + " |\n",
		"x/testdata/b.md": long, "b.txt": long,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wrong, err := CheckColumns(dir)
	if err != nil || len(wrong) != 1 || !strings.HasPrefix(wrong[0], "a.md:3: ") {
		t.Errorf("found %q, %v", wrong, err)
	}
}

// names returns what a file declares: functions, methods, types, variables.
func names(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(treeRoot, file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return nil
	}
	var list []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch d := n.(type) {
		case *ast.FuncDecl:
			list = append(list, d.Name.Name)
			return false
		case *ast.TypeSpec:
			list = append(list, d.Name.Name)
		case *ast.ValueSpec:
			for _, name := range d.Names {
				list = append(list, name.Name)
			}
		}
		return true
	})
	return list
}

// declares returns what a package declares, with the fields of its types.
func declares(t *testing.T, dir string) (list []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(treeRoot, dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		name, err := filepath.Rel(treeRoot, file)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, names(t, name)...)
		ast.Inspect(parsed, func(n ast.Node) bool {
			if s, ok := n.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					for _, name := range f.Names {
						list = append(list, name.Name)
					}
				}
			}
			return true
		})
	}
	return list
}

var quoted = regexp.MustCompile("`([^`]+)`")

// The table is how a reader finds the first things that one asks for.
func TestReadmeNamesWhatIsInTheCode(t *testing.T) {
	_, table, ok := strings.Cut(page(t, "README.md"), "## Where it is in the code\n")
	if !ok {
		t.Fatal("README.md does not say where things are in the code")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	link := regexp.MustCompile("^ \\[`([^`]+)`\\]\\(([^)]+)\\) $")
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 5 || !strings.Contains(cells[2], "`") {
			continue
		}
		rows++
		file := link.FindStringSubmatch(cells[2])
		if file == nil || file[1] != file[2] {
			t.Errorf("%s is not a link to the file that it names", cells[2])
			continue
		}
		if strings.TrimSpace(cells[1]) == "" {
			t.Errorf("a row of %s has no question", file[1])
		}
		declared := names(t, file[1])
		for _, name := range quoted.FindAllStringSubmatch(cells[3], -1) {
			if !slices.Contains(declared, name[1]) {
				t.Errorf("%s has no %s", file[1], name[1])
			}
		}
	}
	if rows < 10 {
		t.Errorf("the table has %d rows", rows)
	}
}

// Packages that the pages name are there.
func TestPagesNameWhatIsThere(t *testing.T) {
	path := regexp.MustCompile("`((?:pkg|hack|e2e|images|manifests|docs)/[A-Za-z0-9_./-]+)`")
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/design.md"} {
		for _, m := range path.FindAllStringSubmatch(page(t, name), -1) {
			if _, err := os.Stat(filepath.Join(treeRoot, m[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	room := regexp.MustCompile("(?m)^\\| ((?:`[a-z]+`(?:, )?)+) \\|")
	_, rooms, _ := strings.Cut(page(t, "docs/design.md"), "## The rooms\n")
	rooms, _, _ = strings.Cut(rooms, "\n## ")
	var listed []string
	for _, m := range room.FindAllStringSubmatch(rooms, -1) {
		for _, n := range quoted.FindAllStringSubmatch(m[1], -1) {
			listed = append(listed, n[1])
		}
	}
	entries, err := os.ReadDir(filepath.Join(treeRoot, "pkg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !slices.Contains(listed, e.Name()) {
			t.Errorf("docs/design.md does not list the room pkg/%s", e.Name())
		}
	}
	for _, n := range listed {
		if !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == n }) {
			t.Errorf("docs/design.md lists the room pkg/%s, which is not there", n)
		}
	}
}

// Names of Go that the pages about the code have are there: a package with what it declares, a
// method or a field behind it, and the fields of an observation.
func TestPagesNameWhatIsDeclared(t *testing.T) {
	dirs := map[string]string{"obs": "pkg/cluster"}
	for _, p := range packages(t) {
		dirs[p.Name] = p.Path()
	}
	reference := regexp.MustCompile("`([a-z]+)\\.([A-Z]\\w*)(?:\\.([A-Z]\\w*))?`")
	found := 0
	for _, name := range []string{"CONTRIBUTING.md", "docs/design.md"} {
		for _, m := range reference.FindAllStringSubmatch(page(t, name), -1) {
			found++
			if dirs[m[1]] == "" {
				t.Errorf("%s: there is no package %s", name, m[1])
				continue
			}
			declared := declares(t, dirs[m[1]])
			for _, n := range m[2:] {
				if n != "" && !slices.Contains(declared, n) {
					t.Errorf("%s: %s has no %s", name, dirs[m[1]], n)
				}
			}
		}
	}
	if found < 8 {
		t.Errorf("the pages have %d names", found)
	}
}

// A decision has a date, a choice and a reason, and is in the list.
func TestDecisionRecordsAreWhole(t *testing.T) {
	form := regexp.MustCompile(`^# \d{4}\. \S.*\n\nDate: \d{4}-\d\d-\d\d\n\nChoice: \S[^\x00]*\n\nReason: \S`)
	list := page(t, "docs/decisions/README.md")
	files, err := filepath.Glob(filepath.Join(treeRoot, "docs/decisions/[0-9]*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no decisions: %v", err)
	}
	numbers := map[string]bool{}
	for _, f := range files {
		name := filepath.Base(f)
		if !form.MatchString(page(t, "docs/decisions/"+name)) {
			t.Errorf("%s has no date, choice and reason", name)
		}
		if !strings.Contains(list, "("+name+")") {
			t.Errorf("%s is not in docs/decisions/README.md", name)
		}
		if numbers[name[:4]] {
			t.Errorf("there are two decisions %s", name[:4])
		}
		numbers[name[:4]] = true
	}
}

// anchors returns where links into a page may lead: its headings, as GitHub names them.
func anchors(content string) map[string]bool {
	fence := regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	title := regexp.MustCompile(`(?m)^#+ (.*)$`)
	address := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	other := regexp.MustCompile(`[^\pL\pN_ -]`)
	known := map[string]bool{}
	for _, m := range title.FindAllStringSubmatch(fence.ReplaceAllString(content, ""), -1) {
		text := strings.ToLower(strings.TrimSpace(address.ReplaceAllString(m[1], "$1")))
		name := strings.ReplaceAll(other.ReplaceAllString(text, ""), " ", "-")
		again := name
		for n := 1; known[again]; n++ {
			again = fmt.Sprintf("%s-%d", name, n)
		}
		known[again] = true
	}
	return known
}

func TestAnchorsAreThoseOfHeadings(t *testing.T) {
	got := anchors("# A `b`, c\n\n```\n# no\n```\n\n## [x](y.md) z\n\n## [x](y.md) z\n")
	for name, want := range map[string]bool{"a-b-c": true, "x-z": true, "x-z-1": true, "no": false, "x-z-2": false} {
		if got[name] != want {
			t.Errorf("%s: %v, want %v", name, got[name], want)
		}
	}
}

// Links between pages lead somewhere: to a file, and to a heading in it.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]*)(#[^)]*)?\)`)
	err := Text(treeRoot, func(name string, content []byte) error {
		if !strings.HasSuffix(name, ".md") {
			return nil
		}
		for _, m := range link.FindAllStringSubmatch(string(content), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file := name
			if m[1] != "" {
				file = filepath.Join(filepath.Dir(name), m[1])
			}
			if _, err := os.Stat(filepath.Join(treeRoot, file)); err != nil {
				t.Errorf("%s: link to %s: %v", name, m[1], err)
				continue
			}
			if heading := strings.TrimPrefix(m[2], "#"); heading != "" && strings.HasSuffix(file, ".md") &&
				!anchors(page(t, file))[heading] {
				t.Errorf("%s: link to %s: there is no heading %s", name, file, m[2])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
