package operate

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A disk without one free byte is not one whose space is unknown.
func TestNoSpaceIsKnown(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4k"); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	data := filepath.Join(dir, "etcd", "not", "there")
	if got := freeBytes(data); got != 4096 {
		t.Errorf("%d bytes are free, want 4096", got)
	}
	err := os.WriteFile(filepath.Join(dir, "fill"), make([]byte, 1<<20), 0o600)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	if got := freeBytes(data); got != 1 {
		t.Errorf("of a full disk %d bytes are free, want 1, which stands for none", got)
	}
}
