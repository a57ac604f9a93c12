package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// docs is where the recording is.
const docs = "../../docs"

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(docs, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The page is made from the recording, and the recording is of the demonstration as it is.
func TestTheRecordingIsOfThisDemonstration(t *testing.T) {
	cast, shown := read(t, castFile), read(t, pageFile)
	want, err := page(cast)
	if err != nil {
		t.Fatal(err)
	}
	if shown != want {
		t.Error("docs/demo.md is not made from docs/demo.cast: make demo RECORD=docs makes both again")
	}
	for _, title := range titles(t) {
		_, rest, found := strings.Cut(shown, "== "+title+"\n")
		if !found {
			t.Errorf("the recording lacks the step %q, or has it elsewhere: make demo RECORD=docs makes it again", title)
			continue
		}
		shown = rest
	}
	if !strings.Contains(shown, "none is lost") {
		t.Error("the recording has no good end")
	}
}

// titles returns the titles of the steps, in the order of the source, but for the one that
// is shown only where the cluster is left running.
func titles(t *testing.T) (list []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "steps.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	of := map[string][]string{}
	var order []string
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			switch {
			case !ok:
			case sel.Sel.Name == "step":
				title, err := strconv.Unquote(call.Args[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				of[fn.Name.Name] = append(of[fn.Name.Name], title)
				if fn.Name.Name == "steps" {
					order = append(order, title)
				}
			case fn.Name.Name == "steps":
				order = append(order, "call "+sel.Sel.Name)
			}
			return true
		})
	}
	for _, o := range order {
		if called, ok := strings.CutPrefix(o, "call "); !ok {
			list = append(list, o)
		} else if called != "howToTalk" {
			list = append(list, of[called]...)
		}
	}
	if len(list) < 5 {
		t.Fatalf("the steps are %q", list)
	}
	return list
}

func TestARecordingPassesOnAndKeepsTimes(t *testing.T) {
	var out bytes.Buffer
	r, err := newRecording(&out, time.Now().Add(-2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Write([]byte("\n== A step\nof it\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Write([]byte(strings.Repeat("long ", 40) + "\n")); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := r.save(dir); err != nil {
		t.Fatal(err)
	}
	shown, err := os.ReadFile(filepath.Join(dir, pageFile))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(shown); !strings.Contains(text, "\n\n  2.0  == A step\n  2.0  of it\n") ||
		!strings.Contains(text, "long l ...\n") {
		t.Errorf("the page is\n%s", text)
	}
	if !strings.HasPrefix(out.String(), "\n== A step\n") {
		t.Errorf("it passed on %q", out.String())
	}
}
