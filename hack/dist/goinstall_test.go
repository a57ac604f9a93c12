package main

import (
	"os"
	"strings"
	"testing"
)

// The page promises "go install" of a version as long as Go takes it: not of a module with replace.
func TestThePageSaysHowGoInstallWorks(t *testing.T) {
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	refused := strings.Contains(string(page), "`go install` with `@latest` or a version does not work")
	for _, name := range programs {
		module, err := os.ReadFile("../../" + name + "/go.mod")
		if err != nil {
			t.Fatal(err)
		}
		if replaces := strings.Contains(string(module), "\nreplace "); replaces != refused {
			t.Errorf("%s has replace: %v, and the page says that Go refuses it: %v", name, replaces, refused)
		}
	}
}
