package hygiene

import (
	"fmt"
	"go/scanner"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxProseColumns is the width of prose in pages. Tables, code and headings may
// be wider.
const MaxProseColumns = 104

const (
	// MaxGoColumns is the width of a line of Go, a tab counted as one.
	MaxGoColumns = 120
	// longString are the columns from which a string makes a line an exception: it
	// cannot always be broken. What else is on the line has besideString columns.
	longString   = 40
	besideString = 80
)

// fence begins and ends code in a page.
var fence = regexp.MustCompile("^ *(```|~~~)")

// generated are files of Go that no person formats.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// CheckColumns returns the lines of prose and of Go below root that are too long.
func CheckColumns(root string) ([]string, error) {
	var wrong []string
	err := Text(root, func(name string, content []byte) error {
		if strings.HasSuffix(name, ".go") {
			if find(content, generated, []string{"// Code generated "}) != nil {
				return nil
			}
			for _, l := range longGoLines(content) {
				wrong = append(wrong, name+":"+l)
			}
			return nil
		}
		if !strings.HasSuffix(name, ".md") || strings.Contains(name, "/testdata/") {
			return nil
		}
		code := false
		for i, line := range strings.Split(string(content), "\n") {
			switch text := strings.TrimSpace(line); {
			case fence.MatchString(line):
				code = !code
			case code, strings.HasPrefix(text, "|"), strings.HasPrefix(text, "#"), !strings.Contains(text, " "):
			case len(line) > MaxProseColumns && utf8.RuneCountInString(line) > MaxProseColumns:
				wrong = append(wrong, fmt.Sprintf("%s:%d: %d columns of prose, at most %d",
					name, i+1, utf8.RuneCountInString(line), MaxProseColumns))
			}
		}
		return nil
	})
	return wrong, err
}

// longGoLines returns the lines of a Go file that are too long, by number.
func longGoLines(content []byte) []string {
	lines := strings.Split(string(content), "\n")
	if !slices.ContainsFunc(lines, func(line string) bool { return len(line) > MaxGoColumns }) {
		return nil
	}
	free := make([]int, len(lines)+1)
	file := token.NewFileSet().AddFile("", -1, len(content))
	var s scanner.Scanner
	s.Init(file, content, nil, scanner.ScanComments)
	for pos, tok, text := s.Scan(); tok != token.EOF; pos, tok, text = s.Scan() {
		if tok != token.STRING && !strings.HasPrefix(text, "//nolint") && !strings.HasPrefix(text, "//go:") {
			continue
		}
		for i, part := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(part); n > longString || tok == token.COMMENT {
				free[file.Line(pos)+i-1] += n
			}
		}
	}
	var wrong []string
	for i, line := range lines {
		limit := MaxGoColumns
		if free[i] > 0 {
			limit = besideString
		}
		if n := utf8.RuneCountInString(line); n > MaxGoColumns && n-free[i] > limit {
			wrong = append(wrong, fmt.Sprintf("%d: %d columns, at most %d", i+1, n, MaxGoColumns))
		}
	}
	return wrong
}
