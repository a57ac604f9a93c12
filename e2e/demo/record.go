package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The files of a recording, in one directory.
const (
	castFile = "demo.cast"
	pageFile = "demo.md"
)

// The size of the terminal that a recording says it was made in.
const (
	columns = 140
	rows    = 40
)

// A recording passes on what is printed, and writes it down in the second version of
// asciicast, the format of asciinema: a header, then one line for each output with its time.
type recording struct {
	w     io.Writer
	began time.Time
	lines []string
}

// newRecording begins a recording of what is printed to w.
func newRecording(w io.Writer, now time.Time) (*recording, error) {
	header, err := json.Marshal(map[string]any{
		"version": 2, "width": columns, "height": rows, "timestamp": now.Unix(), "title": "make demo",
	})
	return &recording{w: w, began: now, lines: []string{string(header)}}, err
}

// Write passes p on, and keeps it with its time. The caller makes sure that it is not called twice at
// the same time.
func (r *recording) Write(p []byte) (int, error) {
	text := strings.ReplaceAll(string(p), "\n", "\r\n")
	line, err := json.Marshal([]any{time.Since(r.began).Seconds(), "o", text})
	if err != nil {
		return 0, err
	}
	r.lines = append(r.lines, string(line))
	return r.w.Write(p)
}

// save writes the recording, and the page that shows it, into a directory.
func (r *recording) save(dir string) error {
	cast := strings.Join(r.lines, "\n") + "\n"
	text, err := page(cast)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, castFile), []byte(cast), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, pageFile), []byte(text), 0o644)
}

// widest is the longest line of the page; what is longer is cut off.
const widest = 110

// page returns a recording as a page of documentation: each line with the seconds since the start.
func page(cast string) (string, error) {
	header, events, _ := strings.Cut(cast, "\n")
	var meta struct{ Timestamp int64 }
	if err := json.Unmarshal([]byte(header), &meta); err != nil {
		return "", fmt.Errorf("read the header of the recording: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# What make demo shows

A recording of `+"`make demo`"+` of %s, with the seconds since its start. Lines that begin with
a dollar sign are commands, those with an arrow say what came of them, and the indented ones are
operations of the daemon that coordinates, with how long they took. Long lines are cut off at the
dots. [demo.cast](%s) has all of it, for asciinema: `+"`asciinema play docs/%s`"+`.

`+"`make demo RECORD=docs`"+` makes both again.

`+"```\n", time.Unix(meta.Timestamp, 0).UTC().Format(time.DateOnly), castFile, castFile)
	for line := range strings.Lines(events) {
		var event []any
		if err := json.Unmarshal([]byte(line), &event); err != nil || len(event) != 3 {
			return "", fmt.Errorf("read the recording: %q is no event: %w", strings.TrimSpace(line), err)
		}
		at, _ := event[0].(float64)
		text, _ := event[2].(string)
		for shown := range strings.Lines(strings.ReplaceAll(text, "\r\n", "\n")) {
			b.WriteString(shownAt(at, strings.TrimRight(shown, "\n")))
		}
	}
	b.WriteString("```\n")
	return b.String(), nil
}

// shownAt is one line of the page.
func shownAt(at float64, text string) string {
	if text == "" {
		return "\n"
	}
	if len(text) > widest {
		text = text[:widest-4] + " ..."
	}
	return strings.TrimRight(fmt.Sprintf("%5.1f  %s", at, text), " ") + "\n"
}
