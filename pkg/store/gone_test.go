package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/store"
)

// A directory that was there and is gone is not made again: its file system may
// not be mounted any more.
func TestADirectoryThatGoesAwayIsNotMadeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := store.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "control/x", []byte("1")); err != nil {
		t.Fatalf("the first write: %v", err)
	}
	if _, err := s.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "control/x", []byte("2")); !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("a write says %v", err)
	}
	if _, err := s.Poll(t.Context()); !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("a poll says %v", err)
	}
	// Nor does anything that was in it count as absent.
	_, err = s.Get(t.Context(), "control/x")
	if !errors.Is(err, store.ErrUnreachable) || errors.Is(err, store.ErrAbsent) {
		t.Errorf("a read says %v", err)
	}
	if err := s.Delete(t.Context(), "control/x"); !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("a deletion says %v", err)
	}
	if there, err := s.Exists(t.Context(), "control/x"); !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("asked whether it is there: %t, %v", there, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is there again: %v", err)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	if b, err := s.Get(t.Context(), "control/x"); err != nil || string(b) != "1" {
		t.Errorf("back again it holds %q, %v", b, err)
	}
}

func TestALocationWithOneSlashIsNoDirectory(t *testing.T) {
	if _, err := store.Open(t.Context(), "s3:/bucket/x"); err == nil ||
		!strings.Contains(err.Error(), "two slashes, s3://") {
		t.Errorf("it says %v", err)
	}
	if _, err := store.Open(t.Context(), "./s3:/bucket"); err != nil {
		t.Error(err)
	}
}
