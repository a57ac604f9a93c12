// Package progress shows long work to a person at a terminal.
package progress

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Bar returns how to report work that is done in bytes: report is called with
// what is done and what there is, -1 if that is unknown, and finish at the
// end, which removes the bar. What is reported after that begins another bar.
// Both may be called by any goroutine. Unless w is a terminal, neither does
// anything.
func Bar(w io.Writer, what string) (report func(done, total int64), finish func()) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func(int64, int64) {}, func() {}
	}
	b := &bar{terminal: f, what: what}
	return b.report, b.finish
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
