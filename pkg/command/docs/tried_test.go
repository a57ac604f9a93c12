package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEachSectionSaysWhoRunsIt asks of a new section with command lines that a test runs them, or that
// somebody says here why not.
func TestEachSectionSaysWhoRunsIt(t *testing.T) {
	pages, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testSources(t)
	tried := triedSections(t)
	there := map[string]bool{}
	for _, page := range append(pages, "../../../README.md") {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(page, "../../../")
		for _, heading := range sectionsWithLines(string(content)) {
			key := name + " " + heading
			there[key] = true
			by, ok := tried[key]
			switch {
			case !ok:
				t.Errorf("%s: has command lines, and testdata/tried.txt does not say who runs them", key)
			case strings.HasPrefix(by, "parsed: "):
			default:
				if err := reads(tests, by, name, heading); err != nil {
					t.Errorf("%s: %v", key, err)
				}
			}
		}
	}
	for key := range tried {
		if !there[key] {
			t.Errorf("%s: there is no such section with command lines", key)
		}
	}
}

// triedSections reads which test runs the lines of a section, or why none does.
func triedSections(t *testing.T) map[string]string {
	t.Helper()
	content, err := os.ReadFile("testdata/tried.txt")
	if err != nil {
		t.Fatal(err)
	}
	tried, section := map[string]string{}, ""
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSuffix(line, "\n")
		switch by, ok := strings.CutPrefix(line, "\t"); {
		case ok:
			tried[section] = by
		case !strings.HasPrefix(line, "# "):
			section = line
		}
	}
	return tried
}

// sectionsWithLines returns the headings of a page below which a block has command lines.
func sectionsWithLines(page string) (found []string) {
	heading, fenced := "", false
	var text strings.Builder
	end := func() {
		if len(commandLines(text.String())) > 0 {
			found = append(found, heading)
		}
		text.Reset()
	}
	for line := range strings.Lines(page) {
		switch fence := strings.HasPrefix(strings.TrimSpace(line), "```"); {
		case fence:
			fenced = !fenced
			text.WriteString(line)
		case fenced:
			text.WriteString(line)
		case strings.HasPrefix(line, "#"):
			end()
			heading = strings.TrimSpace(line)
		}
	}
	end()
	return found
}
