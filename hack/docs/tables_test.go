package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

func TestExitCodesPageHasEveryCode(t *testing.T) {
	content, err := exitCodes()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cli.Codes() {
		if want := fmt.Sprintf("\n| %d | `%s` | %s |\n", c.Number, c.Kind, c.Text); !strings.Contains(string(content), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	odd := renderExitCodes([]cli.Code{{Number: 9, Kind: "odd", Text: "this | that"}})
	if !strings.Contains(string(odd), `| this \| that |`) {
		t.Errorf("a bar in a text makes a column:\n%s", odd)
	}
}

func TestHoldsPageHasEveryRule(t *testing.T) {
	content, err := holds()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range plan.Reasons() {
		_, rest, found := strings.Cut(string(content), fmt.Sprintf("\n## %s\n", r.Reason))
		if !found {
			t.Errorf("%s has no section", r.Reason)
			continue
		}
		section, _, _ := strings.Cut(rest, "\n## ")
		for _, want := range []string{r.Means, "**What to do:** " + r.Do} {
			if !strings.Contains(section, want) {
				t.Errorf("the section of %s lacks %q", r.Reason, want)
			}
		}
		if link := fmt.Sprintf("\n| [`%s`](#%s) | ", r.Reason, r.Reason); !strings.Contains(string(content), link) {
			t.Errorf("the list lacks %q", link)
		}
	}
	odd := renderHolds([]plan.ReasonDoc{{Reason: "odd", Means: "this | that", Do: "x."}})
	if !strings.Contains(string(odd), `| this \| that. |`) {
		t.Errorf("a bar in a text makes a column:\n%s", odd)
	}
}
