package discovery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A Record is what a daemon publishes about itself in the control store.
type Record struct {
	Name cluster.NodeName
	// Address is where the daemon listens, host:port.
	Address string
	// Boot is a random token of this run of the daemon.
	Boot cluster.Token
	// At is when the record was written, by the node's clock.
	At time.Time
}

func (r Record) same(o Record) bool {
	return r.Name == o.Name && r.Address == o.Address && r.Boot == o.Boot
}

// A Directory is where daemons publish themselves.
type Directory interface {
	// Nodes returns all records.
	Nodes(ctx context.Context) ([]Record, error)
	// Publish writes a node's record over its last one.
	Publish(ctx context.Context, r Record) error
}

// Options describe a [Finder].
type Options struct {
	// Self is the own record; At is set when it is published.
	Self Record
	// Seeds are the configured seeds.
	Seeds []Seed
	// SeedsDir is a directory for [SeedsDir], empty for none; Port is the port
	// of the seeds in it.
	SeedsDir string
	Port     int
	// Directory is the control store, nil for none.
	Directory Directory
	// Sources are who else knows where nodes are.
	Sources []Source
	// Interval is the longest time between two observations while something is
	// missing.
	Interval time.Duration
	// Join asks the gossip to join daemons and returns how many answered. An
	// address is host:port, or name=host:port where the name is known.
	Join func(ctx context.Context, addrs []string) (int, error)
	// Alive returns the nodes that the gossip believes alive.
	Alive func() []cluster.NodeName
	// Unanswered returns the machines at which no daemon answers, in words that stay the
	// same. While there are any, the sources may be wrong. It may be nil, and must not
	// call the finder.
	Unanswered func() []string
	// Log is called for each problem when it begins and when it is over. It must
	// not call the finder, and may be nil.
	Log func(format string, args ...any)
}

const (
	// firstDelay is the time between the first two observations.
	firstDelay = 100 * time.Millisecond
	// idleFactor times Options.Interval, and at least minIdleInterval, is the time
	// between two observations while nothing is missing: a node that comes finds the
	// others by their records itself. Requests to a store are money and are
	// budgeted.
	idleFactor      = 5
	minIdleInterval = 5 * time.Minute
	// watchInterval is how often at least the gossip is asked who is alive.
	watchInterval = 5 * time.Second
	// requestLimit bounds one request to the directory, joinLimit one join.
	requestLimit = 10 * time.Second
	joinLimit    = 5 * time.Second
	// quietTries is how often a join may fail before it is called a problem:
	// nodes that start together do not find each other at once.
	quietTries = 6
)

// A Finder looks for other daemons. It checks once and then, while a known
// node is not alive or this one is not published, at growing distances up to
// the interval; once nothing is missing, five times as rarely. A node that
// stays away is asked for once in an interval.
type Finder struct {
	o    Options
	wake chan struct{}
	news chan struct{}

	// running counts the goroutines of Run.
	running sync.WaitGroup

	mu sync.Mutex
	// began is when Run began.
	began time.Time
	// records and dirSeeds are what was there last.
	records  []Record
	dirSeeds []Seed
	sources  []*source
	// read says that the directory could be read last time, with the own record
	// in it, and published that the own record is there.
	read, published bool
	reading         bool
	// met are the nodes that were alive at any time.
	met map[cluster.NodeName]bool
	// alive are the nodes that were alive when it was last checked.
	alive map[cluster.NodeName]bool
	// tries are the seeds that have been asked, and not yet found alive.
	tries map[Seed]*try
	// answered are the seeds without a name that have answered.
	answered map[Seed]bool
	// missed is what was missing at the last observation.
	missed map[string]bool
	// problems are the present ones, by source.
	problems map[string]string
}

// A try is the state of asking one seed.
type try struct {
	wait    time.Duration
	next    time.Time
	count   int
	running bool
}

// New returns a finder that does nothing before Run.
func New(o Options) (*Finder, error) {
	switch {
	case o.Join == nil || o.Alive == nil:
		return nil, errors.New("find nodes: a join and an alive function are needed")
	case o.Interval < firstDelay:
		return nil, errors.New("find nodes: the interval is shorter than " + firstDelay.String())
	}
	if err := o.Self.Name.Validate(); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.Unanswered == nil {
		o.Unanswered = func() []string { return nil }
	}
	f := &Finder{
		o:        o,
		wake:     make(chan struct{}, 1),
		news:     make(chan struct{}, 1),
		met:      make(map[cluster.NodeName]bool),
		tries:    make(map[Seed]*try),
		answered: make(map[Seed]bool),
		missed:   make(map[string]bool),
		problems: make(map[string]string),
	}
	for _, s := range o.Sources {
		f.sources = append(f.sources, &source{Source: s})
	}
	return f, nil
}

// Wake makes the finder check once, and then often if more is missing than
// before. A source that was asked a moment ago is asked a little later. It may be
// called when the gossip has changed; without it, the finder notices within five
// seconds that a node has come or gone.
func (f *Finder) Wake() { signal(f.wake) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run looks for nodes until ctx ends, and then waits for what it began.
func (f *Finder) Run(ctx context.Context) {
	defer f.running.Wait()
	wait, last := firstDelay, time.Now()
	f.mu.Lock()
	f.began = last
	f.mu.Unlock()
	f.observe(ctx)
	for {
		missing, more := f.missing()
		if more {
			wait = firstDelay
		}
		distance := wait
		if !missing {
			distance = max(idleFactor*f.o.Interval, minIdleInterval)
		}
		next := last.Add(distance)
		timer := time.NewTimer(f.untilDue(min(time.Until(next), watchInterval)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			if time.Now().Before(next) {
				f.consultDue(ctx)
				continue // it was to see whether more is missing
			}
			if missing {
				wait = min(2*wait, f.o.Interval)
			}
		case <-f.wake:
			timer.Stop()
			f.mu.Lock()
			f.askAgain()
			f.mu.Unlock()
		case <-f.news:
			timer.Stop()
			f.join(ctx)
			continue
		}
		last = time.Now()
		f.observe(ctx)
	}
}

// observe reads the sources and asks whom it is time to ask. It waits for no
// answer: a source that hangs holds up no other.
func (f *Finder) observe(ctx context.Context) {
	if f.o.SeedsDir != "" {
		seeds, err := SeedsDir(f.o.SeedsDir, f.o.Port)
		f.problem("seeds directory", err)
		f.mu.Lock()
		f.dirSeeds = seeds
		f.mu.Unlock()
	}
	f.consultSources(ctx)
	f.mu.Lock()
	begin := f.o.Directory != nil && !f.reading
	if begin {
		f.reading = true
	}
	f.mu.Unlock()
	if begin {
		f.running.Go(func() {
			f.consult(ctx)
			signal(f.news)
		})
	}
	f.join(ctx)
}

// consult reads the directory, and publishes the own record where it is not
// there as it should be.
func (f *Finder) consult(ctx context.Context) {
	short, cancel := context.WithTimeout(ctx, requestLimit)
	records, err := f.o.Directory.Nodes(short)
	cancel()
	if ctx.Err() == nil {
		f.problem("node records", err)
	}
	f.mu.Lock()
	if f.read = err == nil; f.read {
		f.records = records
		f.published = slices.ContainsFunc(records, f.o.Self.same)
	}
	published := f.published
	f.mu.Unlock()
	// Of two nodes that publish at the same time, neither may have seen the
	// other's record before; who reads after publishing does.
	again := !published
	if again {
		r := f.o.Self
		r.At = time.Now()
		short, cancel := context.WithTimeout(ctx, requestLimit)
		err := f.o.Directory.Publish(short, r)
		cancel()
		if ctx.Err() == nil {
			f.problem("own record", err)
		}
		published = err == nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.published, f.reading = published, false
	f.read = f.read && !again
}

// join asks the seeds whose time has come, each in a goroutine.
func (f *Finder) join(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	seeds, _ := f.wanted()
	for s, t := range f.tries {
		if !t.running && !slices.Contains(seeds, s) {
			delete(f.tries, s)
			f.setProblem("node "+s.String(), nil)
		}
	}
	for _, s := range seeds {
		t := f.tries[s]
		if t == nil {
			t = &try{wait: firstDelay}
			f.tries[s] = t
		}
		if t.running || now.Before(t.next) {
			continue
		}
		t.running, t.next = true, now.Add(t.wait)
		t.count++
		t.wait = min(2*t.wait, f.o.Interval)
		f.running.Go(func() { f.ask(ctx, s, t) })
	}
}

func (f *Finder) ask(ctx context.Context, s Seed, t *try) {
	short, cancel := context.WithTimeout(ctx, joinLimit)
	n, err := f.o.Join(short, []string{s.String()})
	cancel()
	if err == nil && n == 0 {
		err = errors.New("no node answers")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t.running = false
	if err == nil && s.Name == "" {
		f.answered[s] = true
	}
	if ctx.Err() == nil && (err == nil || t.count >= quietTries) {
		f.setProblem("node "+s.String(), err)
	}
	if err == nil {
		signal(f.news)
	}
}
