package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// The first writers of a store make its directory at the same time. One that did not find
// it right before another made it does not take it for one that is gone.
func TestADirectoryThatIsJustMadeIsNotGone(t *testing.T) {
	dir := t.TempDir()
	for round := range 3000 {
		f := &files{root: filepath.Join(dir, "store"), requests: new(atomic.Int64)}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for !f.there.Load() {
					if err := f.present(); err != nil {
						t.Errorf("round %d: %v", round, err)
						return
					}
				}
			})
		}
		if err := os.Mkdir(f.root, 0o700); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if err := os.Remove(f.root); err != nil {
			t.Fatal(err)
		}
	}
}

// A directory that another makes, and removes again as it is empty, may be gone between two
// looks: who wants to write there makes it once more.
func TestADirectoryThatComesAndGoesIsMadeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "k")
	var others sync.WaitGroup
	var over atomic.Bool
	for range 2 {
		others.Go(func() {
			for !over.Load() {
				_ = os.Mkdir(dir, 0o700)
				_ = os.Remove(dir)
			}
		})
	}
	for round := range 3000 {
		if err := makeDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("round %d: %v", round, err)
			break
		}
	}
	over.Store(true)
	others.Wait()
	if err := os.Symlink(filepath.Join(dir, "nowhere"), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := makeTemp(dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("in place of a link to nowhere: %v", err)
	}
}
