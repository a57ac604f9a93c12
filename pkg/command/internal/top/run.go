package top

import (
	"context"
	"time"
)

// A Source reads once. What it returns is not changed afterwards.
type Source func(ctx context.Context) (Sample, error)

// A Screen is what pages are shown on.
type Screen interface {
	// Options say how a page is to be written now.
	Options() Options
	// Live says that a page takes the place of the one before, and is shown again each
	// second for its ages. Else each read has a page.
	Live() bool
	Show(page string) error
}

// Config says how [Run] works.
type Config struct {
	Where string
	// Interval is between two reads, each of which has the time of Timeout.
	Interval, Timeout time.Duration
	// Count ends it after that many reads; zero is no end.
	Count int
	Now   func() time.Time
}

// A model is what was read so far.
type model struct{ view View }

func newModel(where string) model { return model{View{Where: where, Rate: -1}} }

// A result is what became of one read.
type result struct {
	sample    Sample
	err       error
	from, end time.Time
}

// take takes a result in: the last sample stays where there is no newer one.
func (m *model) take(r result) {
	v := &m.view
	if r.err != nil {
		if v.Problem == "" {
			v.Failing = r.from
		}
		v.Problem = r.err.Error()
		return
	}
	if last := v.Sample; last != nil {
		m.rate(*last, r.sample)
	}
	v.Sample, v.At, v.Took = &r.sample, r.end, r.end.Sub(r.from)
	v.Problem, v.Failing = "", time.Time{}
}

// rate takes how many changes there were between two reports, if the second one is newer and
// of the same life of the cluster.
func (m *model) rate(before, after Sample) {
	a, b := before.Status.Report, after.Status.Report
	if a == nil || b == nil || a.Observation.Token != b.Observation.Token {
		m.view.Rate = -1
		return
	}
	took := b.At.Sub(a.At)
	if took <= 0 {
		return
	}
	m.view.Rate = -1
	if ra, rb := a.Observation.Revision, b.Observation.Revision; ra > 0 && rb >= ra {
		m.view.Rate = float64(rb-ra) / took.Seconds()
	}
}

// Run reads and shows until ctx ends, which is no error. A source that fails is shown on
// the page, and asked again; the error is that of the last read, if there never was a page
// of a cluster.
func Run(ctx context.Context, source Source, screen Screen, c Config) error {
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan result)
	done := make(chan struct{})
	go func() {
		defer close(done)
		read(ctx, source, c, results)
	}()
	defer func() {
		cancel()
		select { // a file system that hangs keeps nobody from leaving
		case <-done:
		case <-time.After(time.Second):
		}
	}()
	var second <-chan time.Time
	if screen.Live() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		second = ticker.C
	}
	m := newModel(c.Where)
	show := func() error {
		m.view.Now = c.Now()
		return screen.Show(Render(m.view, screen.Options()))
	}
	if screen.Live() {
		if err := show(); err != nil {
			return err
		}
	}
	for n := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-second:
		case r := <-results:
			n++
			m.take(r)
			if c.Count > 0 && n == c.Count {
				if err := show(); err != nil || m.view.Sample != nil {
					return err
				}
				return r.err
			}
		}
		if err := show(); err != nil {
			return err
		}
	}
}

// read asks the source again and again.
func read(ctx context.Context, source Source, c Config, results chan<- result) {
	for {
		r := result{from: c.Now()}
		one, cancel := context.WithTimeout(ctx, c.Timeout)
		r.sample, r.err = source(one)
		cancel()
		r.end = c.Now()
		select {
		case <-ctx.Done():
			return
		case results <- r:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(c.Interval):
		}
	}
}
