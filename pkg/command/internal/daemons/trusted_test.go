package daemons

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Whoever starts a program that gains root's rights chooses its name and its arguments.
func TestProgramsThatGainRightsAreNoDaemons(t *testing.T) {
	proc, program := t.TempDir(), filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(proc, "10")
	err := errors.Join(os.MkdirAll(dir, 0o755), os.Symlink(program, filepath.Join(dir, "exe")),
		os.WriteFile(filepath.Join(dir, "cmdline"), []byte("etcd-manager\x00--backup-store=s3://b/x\x00"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]int{0o755: 1, 0o755 | os.ModeSetuid: 0, 0o755 | os.ModeSetgid: 0} {
		if err := os.Chmod(program, mode); err != nil {
			t.Fatal(err)
		}
		if found, err := find(proc); err != nil || len(found) != want {
			t.Errorf("with mode %s: %+v, %v", mode, found, err)
		}
	}
}

// What a daemon names as the directory of its etcds is run only where nobody else can
// have put anything there.
func TestDirectoriesOfOthersAreNotTrusted(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"good", "open", "open/below", "sticky"} {
		if err := os.Mkdir(at(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(os.Chmod(at("open"), 0o777), os.Chmod(at("sticky"), 0o777|os.ModeSticky),
		os.Symlink(at("open/below"), at("link")))
	if err != nil {
		t.Fatal(err)
	}
	wants := map[string]bool{
		at("good"): true, at("sticky"): true, at("open"): false, at("open/below"): false, at("link"): false,
		at("missing"): false, "relative": false,
	}
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Mkdir(at("other"), 0o755), os.Chown(at("other"), 12345, 0)); err != nil {
			t.Fatal(err)
		}
		wants[at("other")] = false
	}
	for path, want := range wants {
		if got := Trusted(path); got != want {
			t.Errorf("%s: %t", path, got)
		}
	}
}
