package top

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// IsTerminal reports whether w is a terminal that can be drawn on.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// OnTerminal returns the screen that w is, if it is a terminal that can be drawn on, and
// what leaves it as it was. Colours are left out where NO_COLOR is set.
func OnTerminal(w io.Writer) (screen Screen, leave func(), ok bool) {
	if !IsTerminal(w) {
		return nil, nil, false
	}
	f, _ := w.(*os.File)
	// The other screen, without a cursor. If writing fails there is nobody to tell.
	_, _ = f.WriteString("\x1b[?1049h\x1b[?25l")
	return &terminal{f, os.Getenv("NO_COLOR") == ""}, func() { _, _ = f.WriteString("\x1b[?25h\x1b[?1049l") }, true
}

type terminal struct {
	f      *os.File
	colour bool
}

// Live is true: a page takes the place of the one before.
func (t *terminal) Live() bool { return true }

// Options are those of the terminal as large as it is now. A serial console does not know
// its size, and is taken for one of 80 by 24: a longer page would scroll its top away.
func (t *terminal) Options() Options {
	o := Options{Colour: t.colour, Width: 80, Height: 24}
	if w, h, err := term.GetSize(int(t.f.Fd())); err == nil && w > 0 && h > 0 {
		o.Width, o.Height = w, h
	}
	return o
}

// Show draws over the page before. Each line ends with the clearing of its rest, and the
// last one has no line break, which would scroll.
func (t *terminal) Show(page string) error {
	lines := strings.Split(strings.TrimSuffix(page, "\n"), "\n")
	_, err := t.f.WriteString("\x1b[H" + strings.Join(lines, "\x1b[K\r\n") + "\x1b[K\x1b[J")
	return err
}

// Printed returns a screen that prints one page below the other, for what is no terminal.
func Printed(w io.Writer) Screen { return &printed{w: w} }

type printed struct {
	w    io.Writer
	more bool
}

// Live is false: each page stays.
func (p *printed) Live() bool { return false }

// Options are no limits, and no colours.
func (p *printed) Options() Options { return Options{} }

// Show prints a page, with an empty line between two.
func (p *printed) Show(page string) error {
	if p.more {
		page = "\n" + page
	}
	p.more = true
	_, err := io.WriteString(p.w, page)
	return err
}
