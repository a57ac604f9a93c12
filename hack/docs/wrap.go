package main

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// columns is the width of prose in pages that are made from the code: what hack/hygiene allows in any.
const columns = 104

var (
	// word is what a line is not broken in: text without spaces, or code with them.
	word = regexp.MustCompile("(?:`[^`]*`|\\S)+")
	// marks are words that begin something other than prose at the start of a line.
	marks = regexp.MustCompile("^(?:[-+*|>]|#+|\\d+[.)]|`{3}.*)$")
	item  = regexp.MustCompile(`^(\s*)(?:[-+*]|\d+[.)])\s+`)
)

// wrap breaks the lines of prose of a page that are too long. Tables, headings, code and comments
// stay as they are, and so do lines that fit.
func wrap(page []byte) []byte {
	var out []string
	code := false
	for line := range strings.SplitSeq(string(page), "\n") {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		code = code != fence
		switch {
		case code, fence, strings.HasPrefix(line, "    "), strings.HasPrefix(line, "|"),
			strings.HasPrefix(line, "#"), strings.HasPrefix(line, "<!--"):
			out = append(out, line)
		default:
			out = append(out, wrapLine(line)...)
		}
	}
	return []byte(strings.Join(out, "\n"))
}

// wrapLine breaks one line. What follows the first line of a list's item is indented like it.
func wrapLine(line string) []string {
	if utf8.RuneCountInString(line) <= columns {
		return []string{line}
	}
	start := item.FindString(line)
	indent := strings.Repeat(" ", len(start))
	var lines []string
	now := start
	empty := true
	for _, w := range word.FindAllString(line[len(start):], -1) {
		switch {
		case empty:
			now += w
		case utf8.RuneCountInString(now)+1+utf8.RuneCountInString(w) <= columns, marks.MatchString(w):
			now += " " + w
		default:
			lines = append(lines, now)
			now = indent + w
		}
		empty = false
	}
	return append(lines, now)
}
