package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// The directories of claims come and go with what is in them.
func TestEmptyDirectoriesOfClaimsGo(t *testing.T) {
	root := t.TempDir()
	s, err := Open(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	ctx, there := t.Context(), func(dir string) bool {
		_, err := os.Stat(filepath.Join(root, dir))
		return err == nil
	}
	for _, key := range []string{"control/backup-claims/k/1", "control/backup-claims/k/2", "other/k/1"} {
		if created, err := s.Create(ctx, key, []byte("x")); err != nil || !created {
			t.Fatalf("%s: %v, %v", key, created, err)
		}
	}
	for _, c := range []struct{ key, left string }{
		{"control/backup-claims/k/2", "control/backup-claims/k"}, {"control/backup-claims/k/1", "control/backup-claims"}, {
			"other/k/1", "other/k",
		},
	} {
		if err := s.Delete(ctx, c.key); err != nil || !there(c.left) {
			t.Errorf("%s: %v, %s is there: %v", c.key, err, c.left, there(c.left))
		}
	}
	if there("control/backup-claims/k") {
		t.Error("the directory of what was deleted is left")
	}
	// While one deletes, others create.
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 100 {
				key := fmt.Sprintf("control/backup-claims/k/%d", i)
				if _, err := s.Create(ctx, key, []byte("x")); err != nil {
					t.Errorf("round %d: %v", n, err)
				}
				if err := s.Delete(ctx, key); err != nil {
					t.Errorf("round %d: %v", n, err)
				}
			}
		})
	}
	all.Wait()
}

func TestNothingIsAskedForAContextThatHasEnded(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		_, created := s.Create(ctx, "control/a", []byte("x"))
		for _, err := range []error{created, s.Put(ctx, "control/b", []byte("x")), s.Delete(ctx, "control/b")} {
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("the error is %v", err)
			}
		}
	}
	if n := s.Requests(); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}
