package store

import (
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
