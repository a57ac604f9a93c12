package cluster

import (
	"slices"
	"strconv"
	"testing"
)

// TestPrepared shows what a node remembers of the promises that it made before: those of
// bootstraps, in their order, as long as it has lost nothing.
func TestPrepared(t *testing.T) {
	first := Prepared{Token: "t1"}
	second := Prepared{Token: "t2"}.After(&first)
	again := Prepared{Token: "t1"}.After(&second)
	for _, tt := range []struct {
		name string
		p    Prepared
		want []Token
	}{
		{"the first", Prepared{Token: "t1"}.After(nil), nil},
		{"the same again", Prepared{Token: "t1"}.After(&first), nil},
		{"the second", second, []Token{"t1"}},
		{"back to the first", again, []Token{"t2"}},
		{"after that of a restore", Prepared{Token: "t3"}.After(&Prepared{Token: "t2", Backup: "b"}), nil},
		{"that of a restore", Prepared{Token: "t3", Backup: "b"}.After(&second), nil},
		{"what an order claims", Prepared{Token: "t3", Earlier: []Token{"t9"}}.After(&first), []Token{"t1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !slices.Equal(tt.p.Earlier, tt.want) {
				t.Errorf("it remembers %v, want %v", tt.p.Earlier, tt.want)
			}
		})
	}
	if !second.Of("t1") || !second.Of("t2") || second.Of("t3") || (*Prepared)(nil).Of("t1") {
		t.Error("what a node has promised is not what it reports")
	}
	if !again.Same(first) || again.Same(second) || (*Prepared)(nil).Same(first) {
		t.Error("what came before makes a promise another one")
	}
	p := first
	for i := range 3 * maxEarlier {
		p = Prepared{Token: Token("x" + strconv.Itoa(i))}.After(&p)
	}
	if len(p.Earlier) != maxEarlier || p.Of("t1") {
		t.Errorf("%d earlier promises are remembered, want %d", len(p.Earlier), maxEarlier)
	}
}
