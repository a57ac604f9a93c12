package nodestate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 123, time.UTC)

// withData gives the token a data directory with this content in its database.
func withData(t *testing.T, dir string, token cluster.Token, content string) {
	t.Helper()
	put(t, filepath.Join(DataDir(dir, token), "member", "snap", "db"), content)
}

func list(t *testing.T, dir string) []cluster.SetAside {
	t.Helper()
	all, err := ListSetAside(dir)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func aside(t *testing.T, dir string, token cluster.Token, at time.Time) cluster.SetAside {
	t.Helper()
	s, err := SetAside(dir, token, at)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestSetAsideMovesAndLists(t *testing.T) {
	dir := t.TempDir()
	if got := list(t, dir); len(got) != 0 {
		t.Fatalf("new node: %v", got)
	}
	withData(t, dir, "tok", "12345")
	got := aside(t, dir, "tok", noon)
	if got.Name != "tok" || !got.At.Equal(noon) || got.Bytes < 5 {
		t.Fatalf("got %+v", got)
	}
	if exists(DataDir(dir, "tok")) || Disk(dir, State{}).State != cluster.DiskEmpty {
		t.Fatal("the data is still there")
	}
	if slurp(t, filepath.Join(dir, "data-trashcan", "tok", "member", "snap", "db")) != "12345" {
		t.Fatal("the data is not set aside")
	}
	// Again, with nothing to move: the same answer, not a later one.
	if again := aside(t, dir, "tok", noon.Add(time.Hour)); again != got {
		t.Fatalf("again: %+v", again)
	}
	// New data of the same token, older by the clock of its time.
	withData(t, dir, "tok", "12")
	second := aside(t, dir, "tok", noon.Add(-time.Hour))
	withData(t, dir, "tok", "12")
	third := aside(t, dir, "tok", noon.Add(time.Hour))
	if second.Name != "tok.1" || third.Name != "tok.2" {
		t.Fatalf("names %q, %q", second.Name, third.Name)
	}
	lay(t, dir, "data-trashcan/lost+found/")
	lay(t, dir, "data-trashcan/file")
	if all := list(t, dir); fmt.Sprint(all) != fmt.Sprint([]cluster.SetAside{second, got, third}) {
		t.Fatalf("listed %v", all)
	}
	if last := aside(t, dir, "tok", noon); last != third {
		t.Fatalf("last is %v", last)
	}
	if none := aside(t, dir, "other", noon); none != (cluster.SetAside{}) {
		t.Fatalf("no data of other, but %v", none)
	}
}

// Cut off after the time is written and before the move: done again.
func TestSetAsideAfterCrash(t *testing.T) {
	dir := t.TempDir()
	withData(t, dir, "tok", "1")
	put(t, filepath.Join(DataDir(dir, "tok"), asideName), noon.Add(-time.Hour).Format(time.RFC3339Nano))
	if d := Disk(dir, State{}); d.State != cluster.DiskData {
		t.Fatalf("before: %+v", d)
	}
	if got := aside(t, dir, "tok", noon); !got.At.Equal(noon) {
		t.Fatalf("got %+v", got)
	}
}

// The existing etcd-manager only renames. A data directory is as old as the
// cluster; the time that counts is that of the move.
func TestSetAsideByExistingManagerIsAsOldAsTheMove(t *testing.T) {
	dir := t.TempDir()
	before := time.Now().Add(-time.Minute)
	withData(t, dir, "tok", "1")
	old := before.Add(-1000 * time.Hour)
	if err := os.Chtimes(DataDir(dir, "tok"), old, old); err != nil {
		t.Fatal(err)
	}
	lay(t, dir, "data-trashcan/")
	if err := os.Rename(DataDir(dir, "tok"), filepath.Join(dir, "data-trashcan", "tok")); err != nil {
		t.Fatal(err)
	}
	if all := list(t, dir); len(all) != 1 || all[0].At.Before(before) {
		t.Fatalf("listed %v, want a time after %s", all, before)
	}
	// The same where the record is not readable.
	put(t, filepath.Join(dir, "data-trashcan", "tok", asideName), "yesterday")
	if all := list(t, dir); len(all) != 1 || all[0].At.Before(before) {
		t.Fatalf("listed %v, want a time after %s", all, before)
	}
}

func TestSetAsideOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mounting a small file system is not permitted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	withData(t, dir, "tok", "")
	if err := os.WriteFile(filepath.Join(DataDir(dir, "tok"), "member", "snap", "db"), make([]byte, 128<<10),
		0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	before := time.Now().Add(-time.Minute)
	if got := aside(t, dir, "tok", noon); got.Name != "tok" || got.At.Before(before) {
		t.Fatalf("got %+v", got)
	}
	if err := Discard(dir, "tok", when(t, dir, "tok")); err != nil || len(list(t, dir)) != 0 {
		t.Fatalf("discard: %v", err)
	}
}

func TestSetAsideFailures(t *testing.T) {
	dir := t.TempDir()
	for _, token := range []cluster.Token{"", "..", "a/b"} {
		if _, err := SetAside(dir, token, noon); err == nil {
			t.Errorf("token %q was accepted", token)
		}
	}
	withData(t, dir, "tok", "1")
	put(t, filepath.Join(dir, "data-trashcan"), "a file")
	if _, err := SetAside(dir, "tok", noon); err == nil || !strings.Contains(err.Error(), "set aside the data of tok") {
		t.Errorf("got %v", err)
	}
	if !exists(DataDir(dir, "tok")) {
		t.Error("the data is gone")
	}
	if _, err := ListSetAside(dir); err == nil {
		t.Error("a file was listed as a directory")
	}
	if err := Discard(dir, "tok", when(t, dir, "tok")); err == nil {
		t.Error("discard below a file went through")
	}
}

func TestDiscard(t *testing.T) {
	dir := t.TempDir()
	keys := func(token cluster.Token) string {
		path := filepath.Join(PKIDir(dir, token), "peers", "me.key")
		put(t, path, "key")
		return path
	}
	discard := func(name string) {
		t.Helper()
		for range 2 { // the second time there is nothing to do
			if err := Discard(dir, name, when(t, dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		if exists(filepath.Join(dir, "data-trashcan", name)) {
			t.Errorf("%s is still there", name)
		}
	}
	tok, dotted := keys("tok"), keys("tok.1")
	for range 2 {
		withData(t, dir, "tok", "1")
		aside(t, dir, "tok", noon)
	}
	withData(t, dir, "tok", "running")
	discard("tok.1")
	if exists(dotted) {
		t.Error("keys of tok.1 are left, though it may have been a token")
	}
	discard("tok")
	if !exists(tok) {
		t.Error("keys of running data are gone")
	}
	aside(t, dir, "tok", noon)
	withData(t, dir, "tok", "1")
	aside(t, dir, "tok", noon)
	discard("tok")
	if !exists(tok) {
		t.Error("keys are gone while tok.1 is left")
	}
	discard("tok.1")
	if exists(tok) {
		t.Error("keys are left without data")
	}
	discard("lost+found")
	discard("a name with blanks")
}

func TestDiscardStaysInTheTrashcan(t *testing.T) {
	dir := t.TempDir()
	withData(t, dir, "tok", "1")
	outside := filepath.Join(dir, "outside", "precious")
	put(t, outside, "1")
	lay(t, dir, "data-trashcan/link -> ../outside")
	lay(t, dir, "data-trashcan/dir/member/link -> ../../../outside")
	for _, name := range []string{"", ".", "..", "../data", "a/b", "/etc", "a\x00b"} {
		if err := Discard(dir, name, when(t, dir, name)); err == nil ||
			!strings.Contains(err.Error(), "not the name of one directory") {
			t.Errorf("%q: got %v", name, err)
		}
	}
	for _, name := range []string{"link", "dir"} {
		if err := Discard(dir, name, when(t, dir, name)); err != nil {
			t.Error(err)
		}
	}
	if !exists(outside) || !exists(DataDir(dir, "tok")) {
		t.Error("something outside was deleted")
	}
	if all := list(t, dir); len(all) != 0 {
		t.Errorf("left %v", all)
	}
}

// when returns the time at which something was set aside, now for nothing.
func when(t *testing.T, dir, name string) time.Time {
	t.Helper()
	at, err := asideTime(filepath.Join(dir, trashName, name))
	if err != nil {
		return time.Now()
	}
	return at
}

func TestANameThatIsUsedAgainIsNotDiscarded(t *testing.T) {
	dir := t.TempDir()
	withData(t, dir, "tok", "old")
	aside(t, dir, "tok", noon)
	if err := Discard(dir, "tok", noon); err != nil {
		t.Fatal(err)
	}
	withData(t, dir, "tok", "new")
	aside(t, dir, "tok", noon.Add(time.Hour))
	var other *SetAsideError
	if err := Discard(dir, "tok", noon); !errors.As(err, &other) || !other.Got.Equal(noon.Add(time.Hour)) {
		t.Errorf("yesterday's order: %v", err)
	}
	if all := list(t, dir); len(all) != 1 {
		t.Errorf("left %v", all)
	}
}
