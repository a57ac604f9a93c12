package top

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/testing/testpty"
)

// A source that fails keeps the last page, says since when, and goes on.
func TestModel(t *testing.T) {
	m := newModel("here")
	at := now
	take := func(s *Sample, err error) View {
		r := result{err: err, from: at, end: at.Add(time.Millisecond)}
		if s != nil {
			r.sample = *s
		}
		m.take(r)
		at = at.Add(10 * time.Second)
		return m.view
	}
	down := errors.New("down")
	if v := take(nil, down); v.Sample != nil || v.Problem != "down" || !v.Failing.Equal(now) {
		t.Errorf("%+v", v)
	}
	if v := take(nil, errors.New("still down")); v.Problem != "still down" || !v.Failing.Equal(now) {
		t.Errorf("%+v", v)
	}
	first := sampleOf(1000, now)
	if v := take(&first, nil); v.Sample == nil || v.Problem != "" || !v.Failing.IsZero() ||
		v.Took != time.Millisecond || v.Rate >= 0 {
		t.Errorf("%+v", v)
	}
	// The same report again says nothing of the rate.
	if v := take(&first, nil); v.Rate >= 0 {
		t.Errorf("%+v", v)
	}
	second := sampleOf(1500, now.Add(50*time.Second))
	if v := take(&second, nil); v.Rate != 10 {
		t.Errorf("rate %v", v.Rate)
	}
	if v := take(&second, nil); v.Rate != 10 {
		t.Errorf("the rate is forgotten: %v", v.Rate)
	}
	if v := take(nil, down); v.Sample == nil || v.Rate != 10 || v.Problem != "down" {
		t.Errorf("%+v", v)
	}
	// A restore, and a revision that goes back, are no rates.
	restored := sampleOf(2000, now.Add(90*time.Second))
	restored.Status.Report.Observation.Token = "tok2"
	if v := take(&restored, nil); v.Rate >= 0 {
		t.Errorf("rate %v", v.Rate)
	}
	back := sampleOf(100, now.Add(95*time.Second))
	back.Status.Report.Observation.Token = "tok2"
	if v := take(&back, nil); v.Rate >= 0 {
		t.Errorf("rate %v", v.Rate)
	}
	none := Sample{Status: render.NewStatus(nil, now)}
	if v := take(&none, nil); v.Rate >= 0 || v.Sample.Status.Report != nil {
		t.Errorf("%+v", v)
	}
}

// sampleOf is a healthy cluster's at a revision.
func sampleOf(revision cluster.Revision, at time.Time) Sample {
	s := *healthy().Sample
	r := *s.Status.Report
	r.At, r.Observation.Revision = at, revision
	s.Status = render.NewStatus(&r, at)
	return s
}

// pages is a screen that keeps them.
type pages struct {
	live bool
	all  []string
	err  error
	seen chan string
}

func (p *pages) Options() Options { return Options{} }
func (p *pages) Live() bool       { return p.live }
func (p *pages) Show(page string) error {
	p.all = append(p.all, page)
	if p.seen != nil {
		p.seen <- page
	}
	return p.err
}

func config(count int) Config {
	return Config{Where: "here", Interval: time.Millisecond, Timeout: time.Minute, Count: count,
		Now: func() time.Time { return now }}
}

func TestRunEndsAfterCount(t *testing.T) {
	reads := 0
	source := func(context.Context) (Sample, error) {
		if reads++; reads == 2 {
			return Sample{}, errors.New("away")
		}
		return *healthy().Sample, nil
	}
	var p pages
	if err := Run(t.Context(), source, &p, config(3)); err != nil {
		t.Fatal(err)
	}
	if len(p.all) != 3 || strings.Contains(p.all[0], "away") || !strings.Contains(p.all[1], "no answer for 1s: away") ||
		!strings.Contains(p.all[1], "MACHINE") || strings.Contains(p.all[2], "away") {
		t.Errorf("%q", p.all)
	}
	p = pages{}
	err := Run(t.Context(), func(context.Context) (Sample, error) { return Sample{}, errors.New("never") }, &p, config(2))
	if err == nil || err.Error() != "never" || len(p.all) != 2 {
		t.Errorf("%v, %q", err, p.all)
	}
	p = pages{err: errors.New("no more paper")}
	if err := Run(t.Context(), source, &p, config(0)); err == nil || err.Error() != "no more paper" || len(p.all) != 1 {
		t.Errorf("%v, %q", err, p.all)
	}
}

// A screen that is live shows something at once, and goes on showing while nothing answers.
func TestRunLive(t *testing.T) {
	var asked atomic.Bool
	source := func(ctx context.Context) (Sample, error) {
		if asked.Swap(true) {
			return *healthy().Sample, nil
		}
		<-ctx.Done() // hangs for the time of one read
		return Sample{}, fmt.Errorf("read: %w", ctx.Err())
	}
	ctx, cancel := context.WithCancel(t.Context())
	p := &pages{live: true, seen: make(chan string)}
	c := config(0)
	c.Timeout = 20 * time.Millisecond
	done := make(chan error, 1)
	go func() { done <- Run(ctx, source, p, c) }()
	if page := <-p.seen; !strings.Contains(page, "reading ...") {
		t.Errorf("the first page is %q", page)
	}
	for _, want := range []string{"no answer for 1s: read: context deadline exceeded", "HEALTHY"} {
		for !strings.Contains(<-p.seen, want) {
		}
	}
	cancel()
	for {
		select {
		case <-p.seen:
			continue
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		}
		break
	}
}

func TestPrinted(t *testing.T) {
	var b strings.Builder
	s := Printed(&b)
	if s.Live() || s.Options() != (Options{}) {
		t.Errorf("%+v", s.Options())
	}
	for _, page := range []string{"one\n", "two\n"} {
		if err := s.Show(page); err != nil {
			t.Fatal(err)
		}
	}
	if b.String() != "one\n\ntwo\n" {
		t.Errorf("%q", b.String())
	}
}

// A terminal is drawn on within its size, and left as it was.
func TestTerminal(t *testing.T) {
	p := testpty.Open(t, 30, 10)
	theirs := p.Program
	t.Setenv("TERM", "xterm")
	for _, noColour := range []string{"", "1"} {
		t.Setenv("NO_COLOR", noColour)
		screen, leave, ok := OnTerminal(theirs)
		if !ok || !screen.Live() || screen.Options() != (Options{Width: 30, Height: 10, Colour: noColour == ""}) {
			t.Fatalf("%v: %+v", ok, screen)
		}
		if err := screen.Show(Render(healthy(), screen.Options())); err != nil {
			t.Fatal(err)
		}
		leave()
		page := p.Until(t, "\x1b[?25h\x1b[?1049l")
		if !strings.HasPrefix(page, "\x1b[?1049h\x1b[?25l\x1b[H") || !strings.Contains(page, "\x1b[K\x1b[J") ||
			strings.Count(page, "\n") != 9 {
			t.Errorf("%q", page)
		}
		if has := strings.Contains(page, "\x1b[32mHEALTHY"); has != (noColour == "") {
			t.Errorf("colours: %v, with NO_COLOR=%s", has, noColour)
		}
	}
	serial := testpty.Open(t, 0, 0)
	screen, leave, _ := OnTerminal(serial.Program)
	if o := screen.Options(); o.Width != 80 || o.Height != 24 {
		t.Errorf("a console without a size has %+v", o)
	}
	leave()
	t.Setenv("TERM", "dumb")
	if _, _, ok := OnTerminal(theirs); ok {
		t.Error("a dumb terminal is drawn on")
	}
	t.Setenv("TERM", "xterm")
	if _, _, ok := OnTerminal(&strings.Builder{}); ok {
		t.Error("what is no file is drawn on")
	}
}
