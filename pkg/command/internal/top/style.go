package top

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/etcdadm/etcdadm/pkg/cli"
)

// A style is how text stands out, as the terminal's code for it.
type style string

// The styles.
const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

// A span is text of one style. It is on one line, and has no control characters:
// much of it was written by others.
type span struct {
	text  string
	style style
}

func text(s string) span { return styled(plain, s) }

func styled(st style, s string) span { return span{cli.Plain(strings.ReplaceAll(s, "\n", " ")), st} }

func (s span) width() int { return utf8.RuneCountInString(s.text) }

// A line is what stands in one line of the screen.
type line []span

// A page is the lines of the screen.
type page struct{ lines []line }

func (p *page) add(l ...span) { p.lines = append(p.lines, l) }

// table adds rows whose columns begin at the same place, below a heading and an empty
// line. It adds nothing where there are no rows.
func (p *page) table(heading []string, rows [][]span) {
	if len(rows) == 0 {
		return
	}
	head := make([]span, len(heading))
	for i, h := range heading {
		head[i] = styled(bold, h)
	}
	rows = append([][]span{head}, rows...)
	widths := make([]int, len(heading))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], c.width())
		}
	}
	p.add()
	for _, row := range rows {
		var l line
		for i, c := range row {
			l = append(l, c)
			if i+1 < len(row) {
				l = append(l, text(strings.Repeat(" ", widths[i]-c.width()+2)))
			}
		}
		p.lines = append(p.lines, l)
	}
}

// fit leaves columns out of a table until it is at most width wide; zero is no limit. Those
// of order go, the last one first; one in which something stands out goes after the others.
// The headings of those that are left out are out.
func fit(heading []string, rows [][]span, order []string, width int) (head []string, left [][]span, out []string) {
	head, left = heading, rows
	loud := func(column int) bool {
		return slices.ContainsFunc(left, func(row []span) bool {
			return row[column].style == red || row[column].style == yellow
		})
	}
	for _, also := range []bool{false, true} {
		for _, name := range slices.Backward(order) {
			column := slices.Index(head, name)
			if width <= 0 || tableWidth(head, left) <= width {
				return head, left, out
			}
			if column < 0 || loud(column) && !also {
				continue
			}
			out = append(out, name)
			head = slices.Delete(slices.Clone(head), column, column+1)
			narrow := make([][]span, len(left))
			for i, row := range left {
				narrow[i] = slices.Delete(slices.Clone(row), column, column+1)
			}
			left = narrow
		}
	}
	return head, left, out
}

func tableWidth(heading []string, rows [][]span) int {
	sum := 2 * (len(heading) - 1)
	for i, h := range heading {
		widest := utf8.RuneCountInString(h)
		for _, row := range rows {
			widest = max(widest, row[i].width())
		}
		sum += widest
	}
	return sum
}

// write writes the lines, each cut at width, the page at height; zero is no limit. Colours
// are written only where they are asked for.
func (p *page) write(o Options) string {
	lines := p.lines
	if o.Height > 0 && len(lines) > o.Height {
		more := line{styled(dim, "... more than this window has lines")}
		lines = append(append([]line{}, lines[:max(0, o.Height-1)]...), more)
	}
	var b strings.Builder
	for _, l := range lines {
		l.write(&b, o)
		b.WriteByte('\n')
	}
	return b.String()
}

// cutMark is where a line goes on outside of the window.
const cutMark = "…"

func (l line) write(b *strings.Builder, o Options) {
	cut := l.cut(o.Width)
	// What is blank at the end is not written.
	for len(cut) > 0 {
		last := &cut[len(cut)-1]
		if last.text = strings.TrimRight(last.text, " "); last.text != "" {
			break
		}
		cut = cut[:len(cut)-1]
	}
	for _, s := range cut {
		switch {
		case s.text == "":
		case o.Colour && s.style != plain:
			b.WriteString("\x1b[" + string(s.style) + "m" + s.text + "\x1b[0m")
		default:
			b.WriteString(s.text)
		}
	}
}

// cut returns the line as far as there is room, with a mark where text is missing; zero is no
// limit.
func (l line) cut(room int) line {
	width, end := 0, 0
	for _, s := range l {
		if trimmed := strings.TrimRight(s.text, " "); trimmed != "" { // blanks at the end need no room
			end = width + utf8.RuneCountInString(trimmed)
		}
		width += s.width()
	}
	if room <= 0 || end <= room {
		return append(line{}, l...)
	}
	var cut line
	left := room - 1
	for _, s := range l {
		s.text = first(s.text, left)
		left -= s.width()
		cut = append(cut, s)
	}
	return append(cut, styled(dim, cutMark))
}

// first returns the first n characters of s.
func first(s string, n int) string {
	for i := range s {
		if n <= 0 {
			return s[:i]
		}
		n--
	}
	return s
}
