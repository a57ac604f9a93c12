package top

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// IsTerminal reports whether w is a terminal that can be drawn on.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// Width is how many columns the terminal behind w has, zero where there is none.
func Width(w io.Writer) int {
	if !IsTerminal(w) {
		return 0
	}
	columns, _, err := term.GetSize(int(w.(*os.File).Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// What begins and ends drawing: the other screen, without a cursor.
const (
	enter = "\x1b[?1049h\x1b[?25l"
	leave = "\x1b[?25h\x1b[?1049l"
)

// OnTerminal returns the screen that w is, if it is a terminal that can be drawn on, and
// what leaves it as it was. Colours are left out where NO_COLOR is set. While the process is
// stopped (Ctrl-Z) the terminal is as it was, too.
func OnTerminal(w io.Writer) (screen Screen, done func(), ok bool) {
	if !IsTerminal(w) {
		return nil, nil, false
	}
	f, _ := w.(*os.File)
	t := &terminal{f: f, colour: os.Getenv("NO_COLOR") == ""}
	// If writing fails there is nobody to report to.
	_, _ = f.WriteString(enter)
	stop := make(chan os.Signal, 1)
	end, ended := make(chan struct{}), make(chan struct{})
	signal.Notify(stop, syscall.SIGTSTP)
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				t.suspend()
			case <-end:
				return
			}
		}
	}()
	return t, func() {
		signal.Stop(stop)
		close(end)
		<-ended
		_, _ = f.WriteString(leave)
	}, true
}

type terminal struct {
	f      *os.File
	colour bool
	// drawing is held while something is drawn, and while the process is stopped.
	drawing sync.Mutex
}

// suspend leaves the terminal and stops the process, as it would have been without us, and
// draws again when it is continued.
func (t *terminal) suspend() {
	if !resumable() {
		return
	}
	t.drawing.Lock()
	defer t.drawing.Unlock()
	_, _ = t.f.WriteString(leave)
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, syscall.SIGCONT)
	defer signal.Stop(resumed)
	// SIGTSTP does not stop a Go program that has ever asked for it.
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err == nil {
		<-resumed
	}
	_, _ = t.f.WriteString(enter)
}

// resumable reports whether a shell can continue the process: the parent of its group, or its
// own, is in another group of the session. The kernel does not stop others either.
func resumable() bool {
	group := syscall.Getpgrp()
	session, err := unix.Getsid(0)
	if err != nil {
		return false
	}
	for _, pid := range []int{group, os.Getpid()} {
		parent := parentOf(pid)
		theirs, err := unix.Getsid(parent)
		if err != nil || theirs != session {
			continue
		}
		if other, err := syscall.Getpgid(parent); err == nil && other != group {
			return true
		}
	}
	return false
}

// parentOf returns the parent of a process, or one that there is not.
func parentOf(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return -1
	}
	// The name of the program is in parentheses, and may have some itself.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 2 {
		return -1
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil || parent == 0 {
		return -1
	}
	return parent
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
	t.drawing.Lock()
	defer t.drawing.Unlock()
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
