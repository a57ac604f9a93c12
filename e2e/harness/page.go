package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Blocks returns the fenced blocks below a heading of a page, up to the next one, without the
// indentation of the fence. The page is named from the top of the source tree, which is given.
func Blocks(t testing.TB, top, page, heading string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, page))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut("\n"+string(text), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", page, heading)
	}
	var block strings.Builder
	indent, fenced := "", false
	for line := range strings.Lines(rest) {
		switch trimmed := strings.TrimLeft(line, " "); {
		case strings.HasPrefix(trimmed, "```") && fenced:
			list, fenced = append(list, block.String()), false
			block.Reset()
		case strings.HasPrefix(trimmed, "```"):
			indent, fenced = line[:len(line)-len(trimmed)], true
		case fenced:
			block.WriteString(strings.TrimPrefix(line, indent))
		case strings.HasPrefix(line, "#"):
			return list
		}
	}
	return list
}

// Block returns one of the blocks below a heading, which has as many as are given.
func Block(t testing.TB, top, page, heading string, i, of int) string {
	t.Helper()
	list := Blocks(t, top, page, heading)
	if len(list) != of {
		t.Fatalf("%s has %d blocks below %q instead of %d", page, len(list), heading, of)
	}
	return list[i]
}
