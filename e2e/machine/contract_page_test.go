package machine

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Each line of the page's contract has a test, and each caller is named.
func TestTheContractOfThePageIsTested(t *testing.T) {
	tested := map[string]bool{}
	for _, c := range calls() {
		if c.caller == "" {
			t.Errorf("nobody calls %s", c.name)
		}
		for _, line := range c.lines {
			tested[line] = true
		}
	}
	for _, row := range table(t, "| who | does | and gets |") {
		if !tested[row[0]] {
			t.Errorf("no test has the calls of %q", row[0])
		}
		delete(tested, row[0])
	}
	for line := range tested {
		t.Errorf("the page has no line of %q", line)
	}
}

// How long a command waits is what the page says.
func TestTheWaitsOfThePageAreTheDefaults(t *testing.T) {
	t.Parallel()
	h := newHost(t, "a", v36)
	help := h.ok("join", "--help-all")
	flag, found := regexp.MustCompile("^`(--[a-z-]+)`$"), 0
	next := regexp.MustCompile(`(?m)^ +(-[a-z], )?--`) // the text of a flag takes several lines
	for _, row := range table(t, "| waits for | at most | flag |") {
		name := flag.FindStringSubmatch(strings.Split(row[2], ";")[0])
		if name == nil || !strings.HasSuffix(name[1], "-timeout") {
			continue
		}
		found++
		limit, _, _ := strings.Cut(row[1], ",")
		want, err := time.ParseDuration(limit)
		_, text, _ := strings.Cut(help, name[1]+" ")
		text = strings.Join(strings.Fields(next.Split(text, 2)[0]), " ")
		if err != nil || !strings.Contains(text, "(default "+want.String()+")") {
			t.Errorf("%s is not %s by default: %v", name[1], limit, err)
		}
	}
	if found != 5 {
		t.Errorf("%d flags are checked, and the page has 5", found)
	}
}

// table returns the rows of a table of the page of the contract.
func table(t *testing.T, head string) (rows [][]string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "cluster-api.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "\n"+head+"\n| --- | --- | --- |\n")
	if !ok {
		t.Fatalf("the page has no table %s", head)
	}
	for line := range strings.Lines(rest) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if !strings.HasPrefix(line, "|") || len(cells) < 2 {
			break
		}
		rows = append(rows, append(cells, ""))
	}
	return rows
}
