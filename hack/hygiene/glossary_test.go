package hygiene

import "testing"

func TestTheTreeUsesTheTermsOfTheGlossary(t *testing.T) {
	wrong, err := CheckGlossary(root(t))
	if err != nil {
		t.Fatal(err)
	}
	report(t, wrong)
}

func TestWordsOfTheGlossaryAreFound(t *testing.T) {
	terms := map[string]Term{}
	for _, term := range Glossary() {
		terms[term.Word] = term
	}
	for _, c := range []struct {
		word, text string
		want       int
	}{
		{"elector", "an elector, two electors", 2},
		{"elector", "type Elector struct{}; newElectors(electorsLost)", 3},
		{"elector", "nodeSelector selector", 0},
		{"mend", "mended; mends; amend; recommend; isMended", 3},
		{"tale", "stale Stale isStale tale", 1},
		{"town", "a_town downtown", 1},
		{"taker", "a taker; Takers; the backup taker, two backup takers; type BackupTaker struct{}", 2},
		{"its turn", "its turn has come; in turn; it turns that off", 1},
		{"the look", "after the look; the lookup; the looking glass", 2},
	} {
		if got := terms[c.word].In([]byte(c.text)); len(got) != c.want {
			t.Errorf("%q in %q: %v, want %d", c.word, c.text, got, c.want)
		}
	}
}
