// Package progress shows long work to a person: as a bar at a terminal, else by a line now and then.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/render"
)

// Bar returns how to report work that is done in bytes: report is called with
// what is done and what there is, -1 if that is unknown, and finish at the
// end, which removes the bar. What is reported after that begins another bar.
// Both may be called by any goroutine. Unless w is a terminal, there is a line
// for what takes longer than [cli.ProgressDelay], and one each ten seconds from then on.
func Bar(w io.Writer, what string) (report func(done, total int64), finish func()) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		l := &lines{w: w, what: what, next: time.Now().Add(cli.ProgressDelay)}
		return l.report, func() {}
	}
	b := &bar{terminal: f, what: what}
	return b.report, b.finish
}

// Watched is Bar for work that may stop in the middle: where nothing is reported for [cli.ProgressDelay],
// w is notified once, with what is waited for, and how far the work has come. Once all is done of
// what is reported, that is the last of it, by the words of last.
func Watched(w io.Writer, what, waits, last string) (report func(done, total int64), finish func()) {
	if _, ok := w.(*os.File); !ok {
		w = &locked{w: w} // two goroutines write to it
	}
	draw, end := Bar(w, what)
	s := &stall{last: time.Now()}
	stop := cli.Waiting(w, func() string {
		text := s.text(waits, last)
		if text != "" {
			end() // a bar is drawn again when it goes on
		}
		return text
	})
	return func(done, total int64) {
			s.note(done, total)
			draw(done, total)
		}, func() {
			stop()
			end()
		}
}

// A stall knows when work was last reported.
type stall struct {
	mu          sync.Mutex
	last        time.Time
	done, total int64
}

func (s *stall) note(done, total int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if done > s.done || total != s.total {
		s.last = time.Now()
	}
	s.done, s.total = done, total
}

// text says what is waited for and how far the work has come, nothing where it goes on.
func (s *stall) text(waits, last string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.last) < cli.ProgressDelay {
		return ""
	}
	if s.total > 0 && s.done >= s.total {
		waits = last
	}
	return waits + ", after " + amount(s.done, s.total)
}

// amount is how far work has come.
func amount(done, total int64) string {
	if total <= 0 {
		return render.Bytes(done)
	}
	return render.Bytes(done) + " of " + render.Bytes(max(done, total))
}

// A locked writer is used by one goroutine at a time.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// lineInterval is how often there is a line where there is no terminal.
const lineInterval = 10 * time.Second

// lines are what is printed where there is no terminal.
type lines struct {
	w    io.Writer
	what string

	mu   sync.Mutex
	next time.Time
}

func (l *lines) report(done, total int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); !now.Before(l.next) && done != total {
		l.next = now.Add(lineInterval)
		fmt.Fprintf(l.w, "note: %s: %s\n", l.what, amount(done, total))
	}
}

// A bar is drawn on one line, from the first report until it is finished.
type bar struct {
	terminal *os.File
	what     string

	mu    sync.Mutex
	drawn *progressbar.ProgressBar
	total int64
}

func (b *bar) report(done, total int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.drawn != nil && b.total != total {
		b.remove() // the library does not go from unknown to known
	}
	if b.drawn == nil {
		b.total = total
		b.drawn = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(b.terminal),
			progressbar.OptionSetDescription(b.what),
			progressbar.OptionShowBytes(true),
			progressbar.OptionShowCount(),
			progressbar.OptionShowTotalBytes(true),
			progressbar.OptionUseIECUnits(true),
			progressbar.OptionSetWidth(20),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionSetSpinnerChangeInterval(0), // no goroutine that turns it
			progressbar.OptionClearOnFinish(),
		)
	}
	// It draws to the terminal; if that fails there is nobody to report to.
	_ = b.drawn.Set64(done)
}

func (b *bar) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove()
}

func (b *bar) remove() {
	if b.drawn == nil {
		return
	}
	_ = b.drawn.Clear()
	_ = b.drawn.Exit()
	b.drawn = nil
}
