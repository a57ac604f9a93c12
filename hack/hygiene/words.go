package hygiene

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// A Word is something that must not be written down in the tree.
type Word struct {
	// literals are what the pattern matches, without what must be around it.
	literals []string
	pattern  *regexp.Regexp
	// code limits the search to Go files, scripts and documents.
	code   bool
	reason string
}

// word returns the Word for any of the literals between before and after.
func word(before string, literals []string, after, reason string) Word {
	var quoted []string
	for _, l := range literals {
		quoted = append(quoted, regexp.QuoteMeta(l))
	}
	pattern := regexp.MustCompile(before + "(" + strings.Join(quoted, "|") + ")" + after)
	return Word{literals: literals, pattern: pattern, reason: reason}
}

// words lists what must not be written down. The literals are put together
// from pieces so that this file does not match them.
func words() []Word {
	undone := word(`\b`, []string{"TO" + "DO", "FIX" + "ME", "XX" + "X"}, `\b`,
		"what is left undone belongs into an issue")
	undone.code = true
	return []Word{
		word("", []string{
			"proxy" + ".golang.org", "sum" + ".golang.org", "deb" + ".debian.org", "registry" + ".npmjs.org",
		}, "", "which registry is used is for the machine's settings to say"),
		word(`(^|[^\w./-])`, []string{"/ho" + "me", "/Us" + "ers", "/wo" + "rk"}, `/\w`,
			"a path of somebody's machine means nothing on another"),
		undone,
	}
}

// codeFiles are the files for which Word.code stands.
var codeFiles = regexp.MustCompile(`\.(go|md|sh|txt|txtar)$|^Makefile$|^\.ci/|^hack/[^/.]+$`)

// CheckWords returns the places below root that have a forbidden word.
func CheckWords(root string) ([]string, error) {
	var wrong []string
	all := words()
	err := Text(root, func(name string, content []byte) error {
		for _, w := range all {
			if w.code && !codeFiles.MatchString(name) {
				continue
			}
			for _, at := range find(content, w.pattern, w.literals) {
				line := 1 + bytes.Count(content[:at[0]], []byte("\n"))
				wrong = append(wrong, fmt.Sprintf("%s:%d: %s: %s", name, line, content[at[0]:at[1]], w.reason))
			}
		}
		return nil
	})
	return wrong, err
}
