package hostfs

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// states feeds a watch with writes of the given times, and returns its states.
func states(took ...time.Duration) []cluster.StorageState {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	w := NewDiskWatch(func() string { return "" }, func() time.Time { return now })
	var list []cluster.StorageState
	for _, d := range took {
		w.begin()
		now = now.Add(d)
		w.end(nil)
		list = append(list, w.Storage().State)
	}
	return list
}

func TestHowADisksStateFollowsFromItsWrites(t *testing.T) {
	const ms, good, slow, hung = time.Millisecond, cluster.StorageGood, cluster.StorageSlow, cluster.StorageHung
	for _, tc := range []struct {
		name string
		took []time.Duration
		want cluster.StorageState
	}{
		{"the first write", []time.Duration{2 * ms}, good},
		{"two slow ones, behind a large backup", []time.Duration{2 * ms, 3000 * ms, 3000 * ms}, good},
		{"three slow ones", []time.Duration{2 * ms, 600 * ms, 600 * ms, 600 * ms}, slow},
		{"between the bounds it stays what it was", []time.Duration{
			600 * ms, 600 * ms, 600 * ms, 300 * ms, 300 * ms, 300 * ms, 300 * ms,
		}, slow},
		{"and good where it was good", []time.Duration{2 * ms, 300 * ms, 300 * ms, 300 * ms}, good},
		{"three quick ones end it", []time.Duration{600 * ms, 600 * ms, 600 * ms, 2 * ms, 2 * ms, 2 * ms}, good},
		{"one that took very long", []time.Duration{2 * ms, 10 * time.Second}, hung},
		{"is not over with one quick one", []time.Duration{2 * ms, 10 * time.Second, 2 * ms, 2 * ms}, hung},
		{"but with three", []time.Duration{2 * ms, 10 * time.Second, 2 * ms, 2 * ms, 2 * ms}, good},
		{"nor is it hung forever where each takes a quarter of a second", []time.Duration{
			2 * ms, 10 * time.Second, 300 * ms, 300 * ms, 300 * ms,
		}, slow},
		{"nor where each takes seconds", []time.Duration{2 * ms, 10 * time.Second, 2000 * ms, 2000 * ms, 2000 * ms}, slow},
		{"but where it hangs again", []time.Duration{
			2 * ms, 10 * time.Second, 2 * ms, 2 * ms, 11 * time.Second, 2 * ms, 2 * ms,
		}, hung},
	} {
		t.Run(tc.name, func(t *testing.T) {
			all := states(tc.took...)
			if got := all[len(all)-1]; got != tc.want {
				t.Errorf("the state is %s, want %s (all: %v)", got, tc.want, all)
			}
		})
	}
}

func TestAWriteThatDoesNotEndIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		dir := t.TempDir()
		w := NewDiskWatch(func() string { <-release; return dir }, time.Now)
		go w.Run(t.Context())
		time.Sleep(hungWriteLimit - time.Millisecond)
		if s := w.Storage(); s.Bad() || s.Pending != hungWriteLimit-time.Millisecond {
			t.Errorf("before the bound it is %+v", s)
		}
		time.Sleep(time.Millisecond)
		if s := w.Storage(); s.State != cluster.StorageHung {
			t.Errorf("at the bound it is %+v", s)
		}
		close(release)
		time.Sleep(3*watchInterval + time.Millisecond)
		if s := w.Storage(); s.State != cluster.StorageGood || s.Pending != 0 {
			t.Errorf("after it and three more it is %+v", s)
		}
	})
}

func TestWhatIsWrittenLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	w := NewDiskWatch(func() string { return dir }, time.Now)
	for range 2 {
		if err := w.write(); err != nil {
			t.Fatal(err)
		}
	}
	w.close()
	if list := names(t, dir); len(list) != 0 {
		t.Errorf("it has left %v", list)
	}
}

func TestErrorsOfTheDiskAndOthers(t *testing.T) {
	for err, want := range map[error]cluster.StorageState{
		&os.PathError{Op: "write", Err: syscall.EIO}:   cluster.StorageFailing,
		&os.PathError{Op: "write", Err: syscall.EROFS}: cluster.StorageFailing,
		&os.PathError{Op: "open", Err: syscall.ENOSPC}: "",
		&os.PathError{Op: "open", Err: syscall.EACCES}: "",
	} {
		w := NewDiskWatch(func() string { return "" }, time.Now)
		w.begin()
		w.end(err)
		if s := w.Storage(); s.State != want || s.Problem == "" {
			t.Errorf("after %v it is %+v", err, s)
		}
	}
	w := NewDiskWatch(func() string { return filepath.Join(t.TempDir(), "missing") }, time.Now)
	if err := w.write(); err == nil {
		t.Error("it wrote into a directory that is not there")
	}
}

// A full disk, or a directory that is gone, is no disk that hangs: after some
// such answers nothing is known of it.
func TestOtherErrorsDoNotKeepADiskHung(t *testing.T) {
	for name, ends := range map[string]error{"hung": nil, "failing": syscall.EIO} {
		now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		w := NewDiskWatch(func() string { return "" }, func() time.Time { return now })
		write := func(took time.Duration, err error) cluster.StorageState {
			w.begin()
			now = now.Add(took)
			w.end(err)
			return w.Storage().State
		}
		if got := write(hungWriteLimit, ends); string(got) != name {
			t.Fatalf("at first it is %q, want %q", got, name)
		}
		for i, err := range []error{syscall.ENOSPC, syscall.ENOENT, syscall.EACCES} {
			got := write(time.Millisecond, err)
			if i < 2 && string(got) != name || i == 2 && got != "" {
				t.Errorf("%s, then %d other errors: %q", name, i+1, got)
			}
		}
		if got := write(hungWriteLimit, syscall.ENOSPC); got != cluster.StorageHung {
			t.Errorf("an error that came after ten seconds makes it %q", got)
		}
	}
}
