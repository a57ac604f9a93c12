package certs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKeysThatEverybodyCanUseAreNamed(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{ManagerCA: 0o644, PeersCA: 0o600, ClientsCA: 0o640} {
		file := filepath.Join(dir, name+".key")
		if err := os.WriteFile(file, nil, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	if got := Exposed(dir); len(got) != 1 || !strings.Contains(got[0], ManagerCA+".key (mode 0644)") {
		t.Errorf("it says %q", got)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if got := Exposed(dir); len(got) != 2 || !strings.Contains(got[0], "can replace") {
		t.Errorf("of a directory that everybody can write it says %q", got)
	}
	if got := Exposed(filepath.Join(dir, "none")); len(got) != 0 {
		t.Errorf("of nothing it says %q", got)
	}
}
