package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// lists are the files that are read where none is named.
const lists = "hack/mutants/*.txt"

// A mutant is the code with one change.
type mutant struct {
	name string
	// file is changed, and tests, run by the go command with -run, have to fail.
	file, tests, run string
	// before occurs once in the file, and after takes its place.
	before, after string
}

// chosen returns the mutants of the files whose names match, those of [lists] where no
// file is named.
func chosen(only string, files []string) ([]mutant, error) {
	match, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		if files, err = filepath.Glob(lists); err != nil {
			return nil, err
		}
	}
	var list []mutant
	names := map[string]bool{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all, err := parse(string(content))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, m := range all {
			if names[m.name] {
				return nil, fmt.Errorf("%s: there are two mutants %s", file, m.name)
			}
			if names[m.name] = true; match.MatchString(m.name) {
				list = append(list, m)
			}
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("there is no mutant to try")
	}
	return list, nil
}

// parse reads a list of mutants, between which there are empty lines. Each has a line
//
//	NAME FILE PACKAGE [TESTS]
//
// where names of files and packages are as seen from the root of the tree and TESTS are as
// for go test -run, and then, as in a diff, the text that is in the file before (lines that
// begin with "- ") and what takes its place (lines that begin with "+ ", none where it
// goes). The text is exact, tabs included, but need not begin or end where a line does.
// Lines that begin with "#" are comments.
func parse(content string) ([]mutant, error) {
	var list []mutant
	for block := range strings.SplitSeq(content, "\n\n") {
		var m *mutant
		var before, after []string
		for line := range strings.Lines(block) {
			line = strings.TrimSuffix(line, "\n")
			words := strings.Fields(line)
			switch {
			case len(words) == 0 || line[0] == '#':
			case m == nil && (len(words) == 3 || len(words) == 4):
				m = &mutant{name: words[0], file: words[1], tests: words[2], run: strings.Join(words[3:], "")}
			case m != nil && strings.HasPrefix(line, "- ") && len(after) == 0:
				before = append(before, line[2:])
			case m != nil && strings.HasPrefix(line, "+ "):
				after = append(after, line[2:])
			default:
				return nil, fmt.Errorf("what is %q?", line)
			}
		}
		if m == nil {
			continue
		}
		if m.before, m.after = strings.Join(before, "\n"), strings.Join(after, "\n"); m.before == m.after {
			return nil, fmt.Errorf("%s changes nothing", m.name)
		}
		list = append(list, *m)
	}
	return list, nil
}
