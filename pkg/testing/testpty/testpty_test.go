package testpty

import "testing"

func TestUntil(t *testing.T) {
	p := Open(t, 80, 24)
	if _, err := p.Program.WriteString("one two three\n"); err != nil {
		t.Fatal(err)
	}
	if got := p.Until(t, "two"); got != "one two" {
		t.Errorf("%q", got)
	}
	if got := p.Until(t, "\n"); got != " three\r\n" {
		t.Errorf("%q", got)
	}
}
