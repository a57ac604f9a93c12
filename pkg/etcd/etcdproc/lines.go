package etcdproc

import (
	"bytes"
	"strings"
	"sync"
)

// maxLine bounds a line of output, in bytes.
const maxLine = 16 << 10

// A lineWriter cuts what is written into lines. What a line has beyond maxLine
// is dropped and marked.
type lineWriter struct {
	emit func(line string)

	// mu is for flush, which comes while a Write may still go on if the process
	// left another one behind that writes on.
	mu   sync.Mutex
	line []byte
	cut  bool
}

// Write never fails.
func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte("\n"))
		if room := maxLine - len(w.line); len(part) > room {
			part = part[:room]
			w.cut = true
		}
		w.line = append(w.line, part...)
		if ended {
			w.end()
		}
		p = rest
	}
	return n, nil
}

// flush emits a last line that has no end.
func (w *lineWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.line) > 0 {
		w.end()
	}
}

func (w *lineWriter) end() {
	line := strings.TrimSuffix(string(w.line), "\r")
	if w.cut {
		line += " [cut]"
	}
	w.emit(line)
	w.line, w.cut = w.line[:0], false
}
