// Package shell writes words of command lines so that a POSIX shell reads them
// back unchanged.
package shell

import "strings"

// Quote writes s as one word. A word that needs no quotes has none.
func Quote(s string) string {
	if s != "" && plain(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Line writes words as one command line.
func Line(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Quote(w)
	}
	return strings.Join(quoted, " ")
}

// Value writes s as the value of an assignment, where brackets mean nothing else.
func Value(s string) string {
	if s != "" && PlainValue(s) {
		return s
	}
	return Quote(s)
}

// plain reports whether s is the same in quotes and without, to a shell and in
// an environment file of systemd. The empty text is: KEY= is an assignment.
func plain(s string) bool { return only(s, "-_./:,=+@%") }

// PlainValue is plain for the value of an assignment.
func PlainValue(s string) bool { return only(s, "-_./:,=+@%^[]") }

// only reports whether s has nothing but letters of ASCII, digits, and marks.
func only(s, marks string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(marks, r)
	})
}
