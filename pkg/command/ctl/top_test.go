package ctl

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/testing/testpty"
)

// Pages that end stay on the terminal: the other screen goes with what is on it.
func TestPagesThatEndStayOnTheTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	p := testpty.Open(t, 200, 20)
	root := New()
	root.SetOut(p.Program)
	root.SetErr(p.Program)
	done := make(chan int, 1)
	go func() {
		done <- cli.Run(t.Context(), root, []string{"top", "--count=1", "--backup-store=" + t.TempDir()})
	}()
	if page := p.Until(t, "no coordinator has published a status in this store"); strings.Contains(page, "\x1b[?1049h") {
		t.Errorf("%q", page)
	}
	if code := <-done; code != 0 {
		t.Errorf("it ends with %d", code)
	}
}

// On a terminal both commands draw the same, until they are ended; the store may come back
// after a first read that failed.
func TestOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	for _, command := range []string{"top", "status --watch"} {
		dir := t.TempDir()
		if err := os.Symlink("control", filepath.Join(dir, "control")); err != nil {
			t.Fatal(err)
		}
		p := testpty.Open(t, 200, 20)
		root := New()
		root.SetOut(p.Program)
		root.SetErr(p.Program)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan int, 1)
		args := append(strings.Fields(command), "--backup-store="+dir, "--interval=10ms")
		go func() { done <- cli.Run(ctx, root, args) }()
		p.Until(t, "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2m")
		p.Until(t, "\x1b[31mno answer for ")
		if err := os.Remove(filepath.Join(dir, "control")); err != nil {
			t.Fatal(err)
		}
		p.Until(t, "\x1b[33mnote: no coordinator has published a status in this store\x1b[0m\x1b[K")
		cancel()
		if end := p.Until(t, "\x1b[?25h\x1b[?1049l"); strings.Contains(end, "error") {
			t.Errorf("%s: %q", command, end)
		}
		if code := <-done; code != 0 {
			t.Errorf("%s ends with %d", command, code)
		}
	}
}
