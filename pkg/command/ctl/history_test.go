package ctl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/testing/testpty"
)

// On a terminal no line is longer than that is wide, and the end of each is still seen.
func TestHistoryFitsTheTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "control"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := `[{"at":"2026-01-01T00:00:00Z","term":3,"by":"a","line":"etcdadm ` + strings.Repeat("x", 400) + `"},
		{"at":"2026-01-01T00:00:01Z","term":3,"by":"a","line":"etcdadm y","error":"` + strings.Repeat("z", 400) + `"}]`
	if err := os.WriteFile(filepath.Join(dir, "control", "history"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := testpty.Open(t, 100, 20)
	root := New()
	root.SetOut(p.Program)
	root.SetErr(p.Program)
	done := make(chan int, 1)
	go func() { done <- cli.Run(t.Context(), root, []string{"history", "--backup-store=" + dir}) }()
	page := p.Until(t, "zz…")
	for line := range strings.Lines(page) {
		if n := len([]rune(strings.TrimRight(line, "\r\n"))); n > 100 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	for _, want := range []string{"xx…  done\r\n", "etcdadm y ", "failed: zz"} {
		if !strings.Contains(page, want) {
			t.Errorf("there is no %q in %q", want, page)
		}
	}
	if code := <-done; code != 0 {
		t.Errorf("it ends with %d", code)
	}
}
