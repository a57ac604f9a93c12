package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

func TestPagesOnDiskAreWhatTheCodeSays(t *testing.T) {
	if err := compare(filepath.Join("..", ".."), pages); err != nil {
		t.Error(err)
	}
}

func TestOperationsPageHasEveryOperationAndFlag(t *testing.T) {
	content, err := operations()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range plan.Kinds() {
		_, rest, found := strings.Cut(string(content), "\n## etcdadm "+k.Path+"\n")
		if !found {
			t.Errorf("%s has no section", k.Path)
			continue
		}
		section, _, _ := strings.Cut(rest, "\n## ")
		want := []string{k.Short, "* Needs: " + k.Needs + "\n", "* Done: " + k.Done + "\n"}
		for _, f := range k.Flags() {
			want = append(want, "| `--"+f.Name+"` | "+f.Doc+" |\n")
		}
		for _, w := range want {
			if !strings.Contains(section, w) {
				t.Errorf("section of %s lacks %q:\n%s", k.Path, w, section)
			}
		}
		if got := strings.Contains(section, "**Destructive.**"); got != k.Destructive {
			t.Errorf("%s is marked destructive: %v, want %v", k.Path, got, k.Destructive)
		}
		link := "| [`" + k.Path + "`](#etcdadm-" + strings.ReplaceAll(k.Path, " ", "-") + ") |"
		if !strings.Contains(string(content), link) {
			t.Errorf("the list lacks %s", link)
		}
	}
}

func TestTextCannotBreakATable(t *testing.T) {
	content, err := renderOperations([]plan.Kind{
		{Path: "member start", Short: "this | that", New: func() plan.Operation { return &plan.MemberStop{} }},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), `| this \| that |`) {
		t.Errorf("a bar in a text makes a column:\n%s", content)
	}
}

func TestCheckNamesEveryPageThatIsOutOfDate(t *testing.T) {
	root := t.TempDir()
	text := "one"
	render := func() ([]byte, error) { return []byte(text), nil }
	two := []page{{"docs/a.md", "a", render}, {"docs/b.md", "b", render}}
	if err := compare(root, two); err == nil || !strings.Contains(err.Error(), "docs/a.md does not exist") ||
		!strings.Contains(err.Error(), "docs/b.md does not exist") {
		t.Errorf("before anything is written: %v", err)
	}
	if err := write(root, two); err != nil {
		t.Fatal(err)
	}
	if err := compare(root, two); err != nil {
		t.Errorf("just written: %v", err)
	}
	text = "two"
	if err := compare(root, two[1:]); err == nil || !strings.Contains(err.Error(), "docs/b.md is out of date") {
		t.Errorf("after a change of the code: %v", err)
	}
	have, err := os.ReadFile(filepath.Join(root, "docs", "b.md"))
	if err != nil || !strings.HasSuffix(string(have), "\n\none") {
		t.Errorf("checking has written: %q, %v", have, err)
	}
}

func TestPageThatDoesNotRenderIsNotWritten(t *testing.T) {
	root, broken := t.TempDir(), errors.New("broken")
	pages := []page{{"a.md", "a", func() ([]byte, error) { return []byte("half"), broken }}}
	for name, do := range map[string]func(string, []page) error{"write": write, "compare": compare} {
		if err := do(root, pages); !errors.Is(err, broken) || !strings.Contains(err.Error(), "a.md") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "a.md")); err == nil {
		t.Error("the page was written")
	}
}

func TestPlaceThatCannotBeWritten(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "docs"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	pages := []page{{"docs/a.md", "a", func() ([]byte, error) { return nil, nil }}}
	for name, do := range map[string]func(string, []page) error{"write": write, "compare": compare} {
		if err := do(root, pages); err == nil || !strings.Contains(err.Error(), "docs/a.md") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}
