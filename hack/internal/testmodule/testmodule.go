// Package testmodule makes modules of Go that tests of the tools run the go command in.
package testmodule

import (
	"os"
	"path/filepath"
	"testing"
)

// Chdir makes files, whose names may have directories, in a new directory, and that the
// working directory until the end of the test. The go command knows no workspace there.
func Chdir(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
}
