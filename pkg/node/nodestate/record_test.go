package nodestate

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestAStateWithADifferenceIsNotForOlderReaders: they do not know of it, and would
// start the member.
func TestAStateWithADifferenceIsNotForOlderReaders(t *testing.T) {
	f := open(t, t.TempDir())
	path := filepath.Join(f.dir, ownName)
	update(t, f, func(s *State) { s.Assigned = full().Assigned })
	if b := slurp(t, path); !strings.Contains(b, `"format": 1,`) {
		t.Errorf("a plain state: %s", b)
	}
	update(t, f, func(s *State) { s.Differs = full().Differs })
	if b := slurp(t, path); !strings.Contains(b, `"format": 2,`) {
		t.Errorf("a state with a difference: %s", b)
	}
	f = reopen(t, f)
	if f.State().Differs == nil {
		t.Error("the difference is forgotten")
	}
	update(t, f, func(s *State) { s.Differs = nil })
	if b := slurp(t, path); !strings.Contains(b, `"format": 1,`) {
		t.Errorf("a plain state again: %s", b)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	put(t, path, strings.Replace(slurp(t, path), `"format": 1,`, `"format": 3,`, 1))
	if _, err := Read(f.dir); err == nil || !strings.Contains(err.Error(), "supports 1 to 2") {
		t.Errorf("a format of the future: %v", err)
	}
}
