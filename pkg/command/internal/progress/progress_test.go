package progress

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// A screen is a pseudo terminal and what was written to it.
type screen struct {
	*os.File
	done sync.WaitGroup

	mu   sync.Mutex
	text bytes.Buffer
}

// show takes in what the terminal shows.
func (s *screen) show(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(b)
}

// shows reports whether text has been on the screen.
func (s *screen) shows(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.text.String(), text)
}

func newScreen(t *testing.T) *screen {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no pseudo terminals here: %v", err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Skip(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}); err != nil {
		t.Fatal(err)
	}
	s := &screen{File: tty}
	s.done.Go(func() {
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b) // an error when the terminal is closed
			s.show(b[:n])
			if err != nil {
				return
			}
		}
	})
	t.Cleanup(func() { master.Close() })
	return s
}

// shown closes the terminal and returns what was written to it.
func (s *screen) shown() string {
	s.Close()
	s.done.Wait()
	return s.text.String()
}

// left is what a person sees at the end: what stands after the last return to
// the beginning of the line.
func left(text string) string {
	text = strings.TrimRight(text, "\r")
	return strings.TrimSpace(strings.ReplaceAll(text[strings.LastIndex(text, "\r")+1:], "\x1b[2K", ""))
}

func TestBarOnATerminal(t *testing.T) {
	for name, c := range map[string]struct {
		totals []int64
		words  []string
	}{
		"known":                 {[]int64{64 << 20}, []string{"download etcd", "64 MiB", "50%"}},
		"unknown":               {[]int64{-1}, []string{"download etcd", "32 MiB"}},
		"known after a while":   {[]int64{-1, 64 << 20}, []string{"download etcd", "64 MiB", "50%"}},
		"another after the end": {[]int64{64 << 20, 96 << 20}, []string{"64 MiB", "96 MiB"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScreen(t)
			report, finish := Bar(s.File, "download etcd")
			for _, total := range c.totals {
				report(0, total)
				// It draws at times of its own.
				want := "32 MiB"
				if total > 0 {
					want = fmt.Sprintf("%d%%", 32<<20*100/total)
				}
				for begin := time.Now(); !s.shows(want) && time.Since(begin) < time.Minute; time.Sleep(10 * time.Millisecond) {
					report(32<<20, total)
				}
				if total > 0 {
					report(total, total)
				}
			}
			finish()
			finish() // as of somebody who does not know whether it is finished
			text := s.shown()
			for _, w := range c.words {
				if !strings.Contains(text, w) {
					t.Errorf("it never showed %q: %q", w, text)
				}
			}
			if l := left(text); l != "" {
				t.Errorf("it leaves %q on the screen", l)
			}
		})
	}
}

func TestWhatIsQuickHasNoBarWithoutATerminal(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var b bytes.Buffer
	for _, w := range []interface{ Write([]byte) (int, error) }{&b, file} {
		report, finish := Bar(w, "x")
		report(1, 2)
		report(2, 2)
		finish()
	}
	if st, err := file.Stat(); err != nil || st.Size() != 0 || b.Len() != 0 {
		t.Errorf("it wrote %d bytes to a file, %v, and %q", st.Size(), err, b.String())
	}
}

func TestWithoutATerminalThereIsALineNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		report, finish := Bar(&b, "snapshot")
		for i := range 25 { // a second each
			report(int64(i)<<20, 24<<20)
			time.Sleep(time.Second)
		}
		finish()
		if want := "note: snapshot: 1.0 MiB of 24.0 MiB\nnote: snapshot: 11.0 MiB of 24.0 MiB\n" +
			"note: snapshot: 21.0 MiB of 24.0 MiB\n"; b.String() != want {
			t.Errorf("it wrote %q, want %q", b.String(), want)
		}
	})
}

func TestWorkThatStopsInTheMiddleSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		report, finish := Watched(&b, "snapshot", "etcd sends nothing", "writing it to the disk")
		for _, step := range []struct {
			after time.Duration
			done  int64
			want  string
		}{
			{900 * time.Millisecond, 1 << 20, ""},
			{time.Minute, 2 << 20, "note: etcd sends nothing, after 1.0 MiB of 4.0 MiB\n"},
			{500 * time.Millisecond, 3 << 20, "note: snapshot: 2.0 MiB of 4.0 MiB\n"},
			{time.Minute, 4 << 20, "note: etcd sends nothing, after 3.0 MiB of 4.0 MiB\n"},
			{time.Minute, 4 << 20, "note: writing it to the disk, after 4.0 MiB of 4.0 MiB\n"},
		} {
			time.Sleep(step.after)
			synctest.Wait()
			if got := b.String(); got != step.want {
				t.Errorf("before %d bytes it wrote %q, want %q", step.done, got, step.want)
			}
			b.Reset()
			report(step.done, 4<<20)
		}
		finish()
		b.Reset()
		time.Sleep(time.Minute)
		if b.Len() > 0 {
			t.Errorf("it goes on: %q", b.String())
		}
	})
}

func TestBarIsSafeForGoroutines(t *testing.T) {
	s := newScreen(t)
	report, finish := Bar(s.File, "x")
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 50 {
				report(int64(n), 50+int64(i%2))
			}
			finish()
		})
	}
	all.Wait()
	finish()
	if l := left(s.shown()); l != "" {
		t.Errorf("it leaves %q on the screen", l)
	}
}
