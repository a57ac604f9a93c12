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
	// Unless are the terms within which the word may stand.
	Unless   []string
	pattern  *regexp.Regexp
	literals []string // the word, with a capital letter and without
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
		use, unless, _ := strings.Cut(use, "unless ")
		terms = append(terms, Term{
			Word: word, Use: strings.TrimSpace(use), Unless: strings.FieldsFunc(unless, func(r rune) bool { return r == ',' }),
			pattern: regexp.MustCompile(pattern), literals: []string{lower + rest, upper + rest},
		})
	}
	return terms
}

// In reports where content has the word: the offsets of its first bytes.
func (t Term) In(content []byte) []int {
	var at []int
	for _, m := range find(content, t.pattern, t.literals) {
		if !t.within(content, m) {
			at = append(at, m[0])
		}
	}
	return at
}

// within reports whether a match of the word is part of a term that may be used.
func (t Term) within(content []byte, match [2]int) bool {
	for _, term := range t.Unless {
		term = strings.TrimSpace(term)
		from, to := max(0, match[0]-len(term)), min(len(content), match[1]+len(term))
		if strings.Contains(strings.ToLower(string(content[from:to])), strings.ToLower(term)) {
			return true
		}
	}
	return false
}

// proseFiles are what people read or write, beside codeFiles: templates of pages, the status page, unit files and
// manifests.
var proseFiles = regexp.MustCompile(`\.(proto|tmpl|html|js|css|ya?ml|json|service|slice|conf)$`)

// CheckGlossary returns the places below root that use a word of the glossary.
func CheckGlossary(root string) ([]string, error) {
	terms := Glossary()
	var wrong []string
	err := Text(root, func(name string, content []byte) error {
		of := codeFiles.MatchString(name) || proseFiles.MatchString(name)
		if !of || name == "hack/hygiene/glossary.txt" || name == "hack/hygiene/glossary_test.go" {
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
