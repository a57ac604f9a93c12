package hygiene

import (
	"bytes"
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed glossary.txt
var glossary string

// A Term is a word that the project does not use, and what it uses instead.
type Term struct {
	Word, Use string
	pattern   *regexp.Regexp
	literals  []string // the word, with a capital letter and without
}

// Glossary returns the terms of glossary.txt.
func Glossary() []Term {
	var terms []Term
	for line := range strings.Lines(glossary) {
		word, use, ok := strings.Cut(strings.TrimSpace(line), "  ") // a phrase has single spaces
		if !ok || strings.HasPrefix(word, "#") {
			continue
		}
		// A word by itself or one that begins an identifier; then one within an
		// identifier, after a small letter, a digit or an underscore.
		rest, ending := word[1:], `(e?s|ed|ers?|ing)?([A-Z0-9_]|\b)`
		upper, lower := strings.ToUpper(word[:1]), word[:1]
		pattern := fmt.Sprintf(`(?:\b[%s%s]|[a-z0-9_]%s|_%s)%s%s`, lower, upper, upper, lower, rest, ending)
		terms = append(terms, Term{
			Word: word, Use: strings.TrimSpace(use),
			pattern: regexp.MustCompile(pattern), literals: []string{lower + rest, upper + rest},
		})
	}
	return terms
}

// In reports where content has the word: the offsets of its first bytes.
func (t Term) In(content []byte) []int {
	var at []int
	for _, m := range find(content, t.pattern, t.literals) {
		at = append(at, m[0])
	}
	return at
}

// CheckGlossary returns the places below root that use a word of the glossary.
func CheckGlossary(root string) ([]string, error) {
	terms := Glossary()
	var wrong []string
	err := Text(root, func(name string, content []byte) error {
		if !codeFiles.MatchString(name) || name == "hack/hygiene/glossary.txt" || name == "hack/hygiene/glossary_test.go" {
			return nil
		}
		for _, t := range terms {
			for _, at := range t.In(content) {
				line := 1 + bytes.Count(content[:at], []byte("\n"))
				wrong = append(wrong, fmt.Sprintf("%s:%d: %q: write %s", name, line, t.Word, t.Use))
			}
		}
		return nil
	})
	return wrong, err
}
