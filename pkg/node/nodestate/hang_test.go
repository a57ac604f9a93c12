package nodestate

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// A disk that hangs keeps nobody from reading what is in memory, and whoever
// writes gets an error, not a wait without end. What is written late counts.
func TestADiskThatHangs(t *testing.T) {
	f, err := Open(t.TempDir(), Self{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	began, thaw := make(chan struct{}, 2), make(chan struct{})
	f.limit = 100 * time.Millisecond
	f.write = func(path string, data []byte, perm os.FileMode) error {
		began <- struct{}{}
		<-thaw
		return hostfs.WriteFile(path, data, perm)
	}
	raise := func(s *State) error { s.Term++; return nil }
	first := make(chan error, 1)
	go func() { first <- f.Update(raise) }()
	<-began
	if got := f.State().Term; got != 0 { // would wait for the disk, and the test forever
		t.Errorf("the term is %d before it is on the disk", got)
	}
	var slow *SlowError
	if err := f.Update(raise); !errors.As(err, &slow) {
		t.Errorf("behind a write that hangs: %v", err)
	}
	if err := <-first; !errors.As(err, &slow) {
		t.Errorf("the write that hangs: %v", err)
	}
	if _, err := f.Settled(); !errors.As(err, &slow) {
		t.Errorf("what the disk will have, while it hangs: %v", err)
	}
	close(thaw)
	f.limit = writeLimit
	if err := f.Update(raise); err != nil {
		t.Errorf("after the disk goes on: %v", err)
	}
	if got, err := f.Settled(); err != nil || got.Term != 2 {
		t.Errorf("the term is %d, %v: what was written late does not count", got.Term, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := f.Update(raise); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}
