package main

import (
	"strings"
	"testing"
)

func TestProseIsWrapped(t *testing.T) {
	words := func(n int) string { return strings.TrimSpace(strings.Repeat("word ", n)) }
	long := words(25)
	for in, want := range map[string]string{
		"short\nlines\n":                "short\nlines\n",
		long + "\n":                     words(21) + "\n" + words(4) + "\n",
		"* " + long:                     "* " + words(20) + "\n  " + words(5),
		"12. " + long:                   "12. " + words(20) + "\n    " + words(5),
		words(21) + " - " + words(4):    words(21) + " -\n" + words(4),
		words(21) + " 3. " + words(4):   words(21) + " 3.\n" + words(4),
		words(20) + " `a b c d e f` x":  words(20) + "\n`a b c d e f` x",
		"| " + long + " |":              "| " + long + " |",
		"# " + long:                     "# " + long,
		"<!-- " + long + " -->":         "<!-- " + long + " -->",
		"```\n" + long + "\n```\nword":  "```\n" + long + "\n```\nword",
		"    " + long:                   "    " + long,
		strings.Repeat("x", 120) + " y": strings.Repeat("x", 120) + "\ny",
	} {
		if got := string(wrap([]byte(in))); got != want {
			t.Errorf("%s\nbecame\n%s\nwant\n%s", in, got, want)
		}
	}
}

func TestEveryPageSaysWhatItIsMadeFrom(t *testing.T) {
	for _, p := range pages {
		content, err := p.content()
		if err != nil {
			t.Fatal(err)
		}
		first, rest, _ := strings.Cut(string(content), "\n")
		if want := "<!-- Made from " + p.from + " by go run ./hack/docs; change it there. -->"; first != want {
			t.Errorf("%s begins with %q, want %q", p.file, first, want)
		}
		if !strings.HasPrefix(rest, "\n# ") || strings.Contains(rest, "hack/docs`") {
			t.Errorf("%s says it again, or has no title below: %.200s", p.file, rest)
		}
	}
}
