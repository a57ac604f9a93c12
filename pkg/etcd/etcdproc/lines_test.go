package etcdproc

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func TestLineWriter(t *testing.T) {
	tests := []struct {
		name   string
		writes []string
		want   []string
	}{
		{"whole lines", []string{"a\nb\n"}, []string{"a", "b"}},
		{"a line in pieces", []string{"a", "b", "c\nd", "\n"}, []string{"abc", "d"}},
		{"empty lines", []string{"\n\n"}, []string{"", ""}},
		{"a last line without an end", []string{"a\nb"}, []string{"a", "b"}},
		{"carriage returns", []string{"a\r\nb\r"}, []string{"a", "b"}},
		{"nothing", []string{""}, nil},
		{"the longest line", []string{strings.Repeat("x", maxLine) + "\n"}, []string{strings.Repeat("x", maxLine)}},
		{"one byte longer", []string{strings.Repeat("x", maxLine), "y", "\nz\n"}, []string{
			strings.Repeat("x", maxLine) + " [cut]", "z",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			w := &lineWriter{emit: func(line string) { got = append(got, line) }}
			for _, s := range tt.writes {
				if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
					t.Fatalf("Write = %d, %v", n, err)
				}
			}
			w.flush()
			if fmt.Sprintf("%.40q", got) != fmt.Sprintf("%.40q", tt.want) ||
				len(strings.Join(got, "")) != len(strings.Join(tt.want, "")) {
				t.Errorf("got %.40q, want %.40q", got, tt.want)
			}
		})
	}
}

func TestOutputIsBounded(t *testing.T) {
	s, out := supervise(t, Options{Backoff: Backoff{Step: time.Hour}})
	start(t, s, does("count:50 long:100000 stay"))
	testwait.Until(t, "the end of the output", func() bool { return out.has("ready") })
	lines := s.Status().LastLines
	if len(lines) != keptLines || lines[0] != "line 32" || lines[keptLines-1] != "ready" ||
		len(lines[keptLines-2]) != keptLineLen {
		t.Errorf("kept %d lines from %q to %.40q", len(lines), lines[0], lines[len(lines)-1])
	}
	logged := out.all()
	if len(logged) != 52 || len(logged[50]) != maxLine+len(" [cut]") {
		t.Errorf("logged %d lines, the long one has %d bytes", len(logged), len(logged[len(logged)-2]))
	}
}

func TestBackoffDelay(t *testing.T) {
	b := Backoff{Step: 100 * time.Millisecond, Max: time.Second}
	want := []time.Duration{0, 0, 100, 200, 400, 800, 1000, 1000}
	for failures, ms := range want {
		if got := b.delay(failures); got != ms*time.Millisecond {
			t.Errorf("after %d deaths %s, want %s", failures, got, ms*time.Millisecond)
		}
	}
	if got := (Backoff{}).withDefaults().delay(1 << 30); got != 10*time.Second {
		t.Errorf("after very many deaths %s, want 10s", got)
	}
}
