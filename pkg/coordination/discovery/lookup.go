package discovery

import (
	"cmp"
	"context"
	"time"
)

// A Source knows where nodes are, such as a cloud.
type Source struct {
	// What it knows of, as problems are reported: "machines of the cloud".
	What string
	// Ask asks it. It ends with its context.
	Ask func(ctx context.Context) ([]Seed, error)
	// Limit is how long it may take, 0 for as long as a request.
	Limit time.Duration
}

// minLookupInterval is the least time between two questions to a source: clouds
// count them.
const minLookupInterval = 5 * time.Second

// A source is one that is asked.
type source struct {
	Source
	// asking says that it is being asked, asked when it was last.
	asking bool
	asked  time.Time
	// again says that something has changed since: it is asked once more, as soon as it
	// may be.
	again bool
	// machines are what it said last, failed that it could not say the last time.
	machines []Seed
	failed   bool
}

// consultSources asks each source, in a goroutine, if nobody is asking it and the
// last time is long enough ago. What was found last counts until the next answer.
func (f *Finder) consultSources(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sources {
		f.consultSource(ctx, s)
	}
}

// consultDue asks the sources that are to be asked again.
func (f *Finder) consultDue(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sources {
		if s.again {
			f.consultSource(ctx, s)
		}
	}
}

func (f *Finder) consultSource(ctx context.Context, s *source) {
	if s.asking || s.untilReady() > 0 {
		return
	}
	s.asking, s.again, s.asked = true, false, time.Now()
	f.running.Go(func() { f.lookup(ctx, s) })
}

// untilReady is how long it takes until the source may be asked.
func (s *source) untilReady() time.Duration {
	if s.asked.IsZero() {
		return 0
	}
	return minLookupInterval - time.Since(s.asked)
}

// askAgain has all sources asked once more: what they said last may be old.
func (f *Finder) askAgain() {
	for _, s := range f.sources {
		s.again = true
	}
}

// untilDue is how long it takes until a source is to be asked again, at most limit.
func (f *Finder) untilDue(limit time.Duration) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sources {
		if s.again && !s.asking {
			limit = min(limit, s.untilReady())
		}
	}
	return limit
}

func (f *Finder) lookup(ctx context.Context, s *source) {
	short, cancel := context.WithTimeout(ctx, cmp.Or(s.Limit, requestLimit))
	seeds, err := s.Ask(short)
	cancel()
	if ctx.Err() == nil {
		f.problem(s.What, err)
	}
	f.mu.Lock()
	s.asking, s.failed = false, err != nil
	if err == nil {
		s.machines = seeds
	}
	f.mu.Unlock()
	signal(f.news)
}

// machines are those that the sources know.
func (f *Finder) machines() []Seed {
	var all []Seed
	for _, s := range f.sources {
		all = append(all, s.machines...)
	}
	return all
}
