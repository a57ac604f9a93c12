package hygiene

import (
	"fmt"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

func TestPublicPackagesShowPublicOnesOnly(t *testing.T) {
	wrong, err := CheckPublic(treeRoot)
	if err != nil {
		t.Fatal(err)
	}
	report(t, wrong)
}

// The page for those who write Go on top of the packages names them all, and no others.
func TestThePageNamesThePublicPackages(t *testing.T) {
	_, table, _ := strings.Cut(page(t, "docs/etcdadm-go.md"), "| --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var names []string
	for line := range strings.Lines(table) {
		for _, name := range quoted.FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
			names = append(names, name[1])
		}
	}
	var want []string
	for _, name := range public {
		want = append(want, Prefix+"pkg/"+name)
	}
	slices.Sort(want)
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Errorf("the page has %q, want %q", names, want)
	}
}

func TestExposes(t *testing.T) {
	for body, want := range map[string]string{
		"func F() hidden.T { return 0 }":                "[node/hidden]",
		"func F(map[string][]*hidden.T) {}":             "[node/hidden]",
		"func f() hidden.T { return 0 }":                "[]",
		"func F() { var t hidden.T; _ = t }":            "[]",
		"func F() cluster.Spec { return 0 }":            "[]",
		"type S struct { F hidden.T }":                  "[node/hidden]",
		"type S struct { f hidden.T }":                  "[]",
		"type S struct { hidden.T }":                    "[node/hidden]",
		"type s struct { F hidden.T }":                  "[]",
		"type I interface { M(hidden.T) }":              "[node/hidden]",
		"type S int; func (*S) M() hidden.T { return }": "[node/hidden]",
		"type s int; func (*s) M() hidden.T { return }": "[]",
	} {
		source := "package p\nimport (\n\"" + Prefix + "pkg/node/hidden\"\n\"" + Prefix + "pkg/cluster\"\n)\n" + body
		f, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(exposes(f)); got != want {
			t.Errorf("%s shows %s, want %s", body, got, want)
		}
	}
}
