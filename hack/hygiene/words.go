package hygiene

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// A Word is something that must not be written down in the tree.
type Word struct {
	pattern *regexp.Regexp
	// code limits the search to Go files, scripts and documents.
	code   bool
	reason string
}

// words lists what must not be written down. The patterns are put together
// from pieces so that this file does not match them.
var words = []Word{
	{
		pattern: regexp.MustCompile(strings.Join([]string{
			"proxy" + `\.golang\.org`, "sum" + `\.golang\.org`, "deb" + `\.debian\.org`, "registry" + `\.npmjs\.org`,
		}, "|")),
		reason: "which registry is used is for the machine's settings to say",
	},
	{
		pattern: regexp.MustCompile(`(?m)(^|[^\w./-])(/ho` + `me|/Us` + `ers|/wo` + `rk)/\w`),
		reason:  "a path of somebody's machine means nothing on another",
	},
	{
		pattern: regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`),
		code:    true,
		reason:  "what is left undone belongs into an issue",
	},
}

// codeFiles are the files for which Word.code stands.
var codeFiles = regexp.MustCompile(`\.(go|md|sh|txt|txtar)$|^Makefile$|^\.ci/|^hack/[^/.]+$`)

// CheckWords returns the places below root that have a forbidden word.
func CheckWords(root string) ([]string, error) {
	var wrong []string
	err := Text(root, func(name string, content []byte) error {
		for _, w := range words {
			if w.code && !codeFiles.MatchString(name) {
				continue
			}
			for _, at := range w.pattern.FindAllIndex(content, -1) {
				line := 1 + bytes.Count(content[:at[0]], []byte("\n"))
				wrong = append(wrong, fmt.Sprintf("%s:%d: %s: %s", name, line, content[at[0]:at[1]], w.reason))
			}
		}
		return nil
	})
	return wrong, err
}
