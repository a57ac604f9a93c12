package hygiene

import (
	"strings"
	"testing"
)

func TestDurationsSayWhatTheyAre(t *testing.T) {
	wrong, err := CheckDurations(root(t))
	if err != nil {
		t.Fatal(err)
	}
	report(t, wrong)
}

func TestDurationsThatSayNothingAreFound(t *testing.T) {
	wrong, err := CheckDurations(tree(t, map[string]string{
		"a.go": `package a

import "time"

const settle = 3 * time.Second

const (
	readTimeout = time.Second
	late, pollInterval = 2 * readTimeout, 20 * time.Millisecond
	few = 3
	patient, MaxAge = time.Minute, time.Hour
)

func f() {
	const fair time.Duration = time.Minute
	local := time.Second
}
`,
		"a_test.go":         "package a\n\nimport \"time\"\n\nconst brief = time.Second\n",
		"e2e/b.go":          "package a\n\nimport \"time\"\n\nconst Soon = time.Minute\n",
		"testdata/b/bad.go": "not Go\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a.go:5:7", "settle", "a.go:11:2", "patient", "a.go:15:8", "fair"}
	if len(wrong) != len(want)/2 {
		t.Fatalf("found %q", wrong)
	}
	for i, w := range wrong {
		if !strings.HasPrefix(w, want[2*i]+": ") || !strings.Contains(w, " "+want[2*i+1]+",") {
			t.Errorf("found %q, want %s, %s", w, want[2*i], want[2*i+1])
		}
	}
	if _, err := CheckDurations(tree(t, map[string]string{"bad.go": "not Go"})); err == nil {
		t.Error("a file that is not Go passes")
	}
}
