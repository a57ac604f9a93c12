package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/hack/internal/testmodule"
)

const (
	quorum = `package p

func Quorum(n int) int {
	return n/2 + 1
}

func Spare(n int) int {
	return n - Quorum(n)
}
`
	quorumTest = `package p

import "testing"

func TestQuorum(t *testing.T) {
	if Quorum(4) != 3 {
		t.Error("half of four is a majority")
	}
}

func TestFails(t *testing.T) { t.Error("it is down") }
`
)

func TestVerdicts(t *testing.T) {
	testmodule.Chdir(t, map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26\n", "p/p.go": quorum, "p/p_test.go": quorumTest,
		"list.txt": `# a comment

half-is-a-majority p/p.go ./p TestQuorum
# with its reason
- n/2 + 1
+ (n + 1) / 2

all-can-be-spared p/p.go ./p TestQuorum
- func Spare(n int) int {
- 	return n - Quorum(n)
+ func Spare(n int) int {
+ 	return n

nowhere p/p.go ./p TestQuorum
- n/3

twice p/p.go ./p TestQuorum
- return n
+ return 1

never-ends p/q.go ./p TestQuorum
- return n
+ return 1

no-code p/p.go ./p TestQuorum
- n - Quorum(n)
`,
		"broken.txt":  "m p/p.go ./p TestFails\n- n/2\n+ n\n",
		"without.txt": "m p/p.go ./p TestNone\n- n/2\n+ n\n",
	})
	var out strings.Builder
	good, err := tryAll(t.Context(), "go", "", []string{"list.txt"}, &out)
	if good || err != nil {
		t.Errorf("%t, %v", good, err)
	}
	lines := strings.Split(out.String(), "\n")
	want := []string{
		"killed           half-is-a-majority: TestQuorum (", "SURVIVED         all-can-be-spared: no test of ./p fails (",
		"DOES NOT APPLY   nowhere: what it changes occurs 0 times in p/p.go (",
		"DOES NOT APPLY   twice: what it changes occurs 2 times in p/p.go (",
		"DOES NOT APPLY   never-ends: open p/q.go: no such file",
		"DOES NOT COMPILE no-code: # example.com/m/p",
	}
	for i, w := range want {
		if i >= len(lines) || !strings.HasPrefix(lines[i], w) {
			t.Fatalf("line %d is not %q:\n%s", i+1, w, out.String())
		}
	}
	if !strings.Contains(out.String(), "\n-- 1 of 6 mutants killed, in ") {
		t.Error(out.String())
	}
	if good, err = tryAll(t.Context(), "go", "^half", []string{"list.txt"}, &out); !good || err != nil {
		t.Errorf("one that is killed: %t, %v\n%s", good, err, out.String())
	}
	for list, want := range map[string]string{
		"broken.txt": "fails without a mutant: TestFails", "without.txt": "has no test TestNone", "none.txt": "no such file",
	} {
		if good, err := tryAll(t.Context(), "go", "", []string{list}, &out); good || err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %t, %v", list, good, err)
		}
	}
	left, err := os.ReadFile("p/p.go")
	if err != nil || string(left) != quorum {
		t.Errorf("the tree is changed: %v\n%s", err, left)
	}
}

func TestListsThatAreWrong(t *testing.T) {
	for list, want := range map[string]string{
		"m p.go ./p\n":                                     "m changes nothing",
		"m p.go ./p\n- a\n+ a\n":                           "m changes nothing",
		"m p.go\n- a\n":                                    `what is "m p.go"?`,
		"m p.go ./p TestA TestB\n- a\n":                    `what is "m p.go ./p TestA TestB"?`,
		"- a\n+ b\n":                                       `what is "- a"?`,
		"m p.go ./p\n- a\n+ b\n- c\n":                      `what is "- c"?`,
		"m p.go ./p\n- a\n\tb\n":                           `what is "\tb"?`,
		"m p.go ./p\n- a\n+ b\nn p.go ./p\n- c\n+ d\n":     `what is "n p.go ./p"?`,
		"m p.go ./p\n- a\n+ b\n\nm q.go ./p\n- c\n+ d\n":   "two mutants m",
		"# only a comment\n\n":                             "no mutant to try",
		"other p.go ./p\n- a\n+ b\n\nthird p.go ./p\n- a ": "no mutant to try",
	} {
		testmodule.Chdir(t, map[string]string{"list.txt": list})
		if got, err := chosen("m", []string{"list.txt"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %s", list, got, err, want)
		}
	}
	if _, err := chosen("(", nil); err == nil {
		t.Error("what is no regexp chooses")
	}
}

// The lists follow the code: each mutant changes one place of it, and leaves Go. Whether it is
// killed takes longer to find out.
func TestListsFollowTheCode(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	list, err := chosen("", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		text, err := m.apply()
		if err == nil {
			_, err = parser.ParseFile(token.NewFileSet(), m.file, text, parser.SkipObjectResolution)
		}
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if _, err := os.Stat(m.tests); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}
