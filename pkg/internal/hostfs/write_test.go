package hostfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// names returns the names in dir, so that tests see files left behind.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func wantContent(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Fatalf("%s holds %.60q, %v, want %.60q", path, got, err, want)
	}
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tinyDisk mounts a file system of 64 KiB.
func tinyDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mounting a small file system is not permitted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestWriteFileReplacesContentAndPermissions(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	for _, c := range []struct {
		content string
		perm    os.FileMode
	}{{"first", 0o600}, {"", 0o644}, {strings.Repeat("x", 1<<20), 0o640}} {
		if err := WriteFile(path, []byte(c.content), c.perm); err != nil {
			t.Fatal(err)
		}
		wantContent(t, path, c.content)
		st, err := os.Stat(path)
		if err != nil || st.Mode().Perm() != c.perm {
			t.Fatalf("permissions are %v, %v, want %v", st.Mode().Perm(), err, c.perm)
		}
	}
	if got := names(t, dir); len(got) != 1 {
		t.Fatalf("directory holds %q, want one file", got)
	}
}

func TestWriteFileInWorkingDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := WriteFile("plain", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantContent(t, "plain", "x")
}

func TestWriteFileReplacesLinkNotItsTarget(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	put(t, target, "precious")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantContent(t, target, "precious")
	wantContent(t, link, "new")
}

func TestWriteFileOnFullDiskKeepsOldContent(t *testing.T) {
	dir := tinyDisk(t)
	path := filepath.Join(dir, "state")
	if err := WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := WriteFile(path, bytes.Repeat([]byte("n"), 128<<10), 0o600)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
		t.Fatalf("got %v, want ENOSPC and the path", err)
	}
	wantContent(t, path, "old")
	if got := names(t, dir); len(got) != 1 {
		t.Fatalf("directory holds %q, want only state", got)
	}
	if err := WriteFile(path, []byte("again"), 0o600); err != nil {
		t.Fatalf("after the failure the space is not free again: %v", err)
	}
}

func TestWriteFileFailuresLeaveNothingBehind(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "file"), "old")
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "child"), 0o755); err != nil {
		t.Fatal(err)
	}
	before := names(t, dir)
	for _, c := range []struct {
		name, path string
		want       error
	}{
		{"directory in the way", taken, syscall.EEXIST},
		{"no such directory", filepath.Join(dir, "none", "x"), fs.ErrNotExist},
		{"parent is a file", filepath.Join(dir, "file", "x"), syscall.ENOTDIR},
		{"name too long", filepath.Join(dir, strings.Repeat("n", 300)), syscall.ENAMETOOLONG},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := WriteFile(c.path, []byte("new"), 0o600)
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if got := names(t, dir); fmt.Sprint(got) != fmt.Sprint(before) {
				t.Errorf("directory holds %q, want %q", got, before)
			}
		})
	}
	wantContent(t, filepath.Join(dir, "file"), "old")
}

// A reader never sees a part of a file, however many writers there are.
func TestWriteFileIsAtomicForReaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	put(t, path, "a")
	var writers sync.WaitGroup
	stop := make(chan struct{})
	for _, c := range []string{"a", strings.Repeat("b", 100<<10)} {
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := WriteFile(path, []byte(c), 0o600); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 200 {
		got, err := os.ReadFile(path)
		if err != nil || len(got) != 1 && len(got) != 100<<10 {
			t.Errorf("read %d bytes, %v", len(got), err)
			break
		}
	}
	close(stop)
	writers.Wait()
}

func TestRemoveTempRemovesOnlyItsOwn(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	for _, n := range []string{"state", ".state.tmp-1", ".state.tmp-22", ".other.tmp-1", "state.tmp-1"} {
		put(t, filepath.Join(dir, n), "x")
	}
	if err := RemoveTemp(path); err != nil {
		t.Fatal(err)
	}
	want := "[.other.tmp-1 state state.tmp-1]"
	if got := fmt.Sprint(names(t, dir)); got != want {
		t.Fatalf("left %s, want %s", got, want)
	}
	if err := RemoveTemp(filepath.Join(dir, "none", "state")); err != nil {
		t.Fatalf("a missing directory has none: %v", err)
	}
	if err := RemoveTemp(filepath.Join(path, "x")); !errors.Is(err, syscall.ENOTDIR) {
		t.Fatalf("got %v, want ENOTDIR", err)
	}
}

func TestRenameMovesAcrossDirectories(t *testing.T) {
	dir := t.TempDir()
	if err := MakeDir(filepath.Join(dir, "a", "b", "c"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := MakeDir(filepath.Join(dir, "trash"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Rename(filepath.Join(dir, "a", "b"), filepath.Join(dir, "trash", "b")); err != nil {
		t.Fatal(err)
	}
	if err := Rename(filepath.Join(dir, "trash", "b"), filepath.Join(dir, "trash", "d")); err != nil {
		t.Fatal(err)
	}
	if got := names(t, filepath.Join(dir, "trash", "d")); fmt.Sprint(got) != "[c]" {
		t.Fatalf("moved directory holds %q", got)
	}
	if err := Rename(filepath.Join(dir, "none"), filepath.Join(dir, "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("got %v, want not exist", err)
	}
}

// What a directory takes the place of must not hold anything.
func TestRenameReplacesAnEmptyDirectoryOnly(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := MakeDir(from, 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(from, "x"), "x")
	if err := MakeDir(filepath.Join(to, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	var both *os.LinkError
	if err := Rename(from, to); !errors.As(err, &both) || both.Old != from || both.New != to {
		t.Errorf("over a directory with something in it: %v", err)
	}
	if got := fmt.Sprint(names(t, from), names(t, to)); got != "[x] [sub]" {
		t.Fatalf("afterwards they hold %s", got)
	}
	if err := os.Remove(filepath.Join(to, "sub")); err != nil {
		t.Fatal(err)
	}
	if err := Rename(from, to); err != nil {
		t.Fatal(err)
	}
	if got := names(t, to); fmt.Sprint(got) != "[x]" {
		t.Errorf("moved directory holds %q", got)
	}
}

func TestMakeDirAndSyncDirFailures(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	put(t, file, "x")
	if err := MakeDir(filepath.Join(file, "sub", "sub"), 0o700); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("below a file: got %v", err)
	}
	if err := MakeDir(file, 0o700); err == nil {
		t.Error("a file in the place of the directory was accepted")
	}
	if err := MakeDir(dir, 0o700); err != nil {
		t.Errorf("existing directory: %v", err)
	}
	if err := SyncDir(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want not exist", err)
	}
}

func TestSpace(t *testing.T) {
	dir := tinyDisk(t)
	free, err := FreeBytes(dir)
	if err != nil || free <= 0 || free > 64<<10 {
		t.Fatalf("free bytes of a 64 KiB disk: %d, %v", free, err)
	}
	put(t, filepath.Join(dir, "f"), strings.Repeat("x", 20<<10))
	less, err := FreeBytes(dir)
	if err != nil || free-less < 20<<10 {
		t.Fatalf("20 KiB took %d bytes, %v", free-less, err)
	}
	if _, err := FreeBytes(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("got %v, want not exist", err)
	}
}

func TestDirSize(t *testing.T) {
	dir := t.TempDir()
	if err := MakeDir(filepath.Join(dir, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "one"), "12345")
	put(t, filepath.Join(dir, "a", "b", "two"), "1234567")
	if err := os.Symlink("/", filepath.Join(dir, "a", "everything")); err != nil {
		t.Fatal(err)
	}
	if n, err := DirSize(dir); n != 12 || err != nil {
		t.Fatalf("got %d, %v, want 12", n, err)
	}
	if _, err := DirSize(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("got %v, want not exist", err)
	}
}
