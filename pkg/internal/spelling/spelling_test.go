package spelling

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"data", "certificates", "install", "cache", "environment", "units", "manifests"}
	for _, tt := range []struct{ word, want string }{
		{"dtaa", "data"},
		{"date", "data"},
		{"data", "data"},
		{"certificate", "certificates"},
		{"certifciates", "certificates"},
		{"unit", "units"},
		{"enviroment", "environment"},
		{"zzzzzz", ""},
		{"quota", ""},
	} {
		if got := Nearest(tt.word, known); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.word, got, tt.want)
		}
	}
	commands := []string{"data", "dashboard", "dump"}
	for word, want := range map[string]string{"dash": "dashboard", "da": "data", "dat": "data", "dumb": "dump"} {
		if got := Nearest(word, commands); got != want {
			t.Errorf("of commands, %q: got %q, want %q", word, got, want)
		}
	}
	if got := Nearest("data", nil); got != "" {
		t.Errorf("nothing is known, and yet %q is near", got)
	}
	if got := Nearest("ab", []string{"abc", "abd"}); got != "abc" {
		t.Errorf("of two that are equally near, got %q", got)
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"ab", "ba", 2}, {
		"kitten", "sitting", 3,
	}} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q and %q: got %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
