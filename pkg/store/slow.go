package store

import (
	"slices"
	"sync"
	"time"
)

// checkInterval is how often is looked whether a call fails and is tried again.
const checkInterval = 200 * time.Millisecond

// slowness is what is called when a store takes long, or is asked in vain.
type slowness struct {
	after   time.Duration
	failing func() string
	report  func(why string)

	mu sync.Mutex
	// said are the reasons that were reported, of which one may be that there is none.
	said []string
}

// maxReasons is how many reasons are reported. More than a few say nothing more.
const maxReasons = 8

// OnSlow has report called, by any goroutine, when a call to the store, but not the copying of a backup,
// has taken so long, and at once when a try has failed that is followed by others: a person who waits
// should know for what. It is called once for each reason, and only for the first few. The server is the
// one that is asked, empty where the driver does not name it, and why is the reason of the last failure,
// empty where there was none. It is to be called before any other method.
func (s *Store) OnSlow(after time.Duration, report func(server, why string)) {
	l, dialled := s.objects.(*lazy)
	s.slow = &slowness{after: after, failing: func() string { return "" }, report: func(why string) { report("", why) }}
	if dialled {
		s.slow.failing = l.failing
		s.slow.report = func(why string) { report(l.server(), why) }
	}
}

// watch begins to wait; the function that it returns ends that.
func (s *slowness) watch() (end func()) {
	if s == nil {
		return func() {}
	}
	began, quit := time.Now(), make(chan struct{})
	go func() {
		for {
			select {
			case <-quit:
				return
			case <-time.After(min(s.after, checkInterval)):
				s.look(time.Since(began))
			}
		}
	}()
	return func() { close(quit) }
}

// look reports what is new in a call that has taken so long.
func (s *slowness) look(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	why := s.failing()
	if why == "" && (len(s.said) > 0 || took < s.after) || slices.Contains(s.said, why) || len(s.said) == maxReasons {
		return
	}
	s.said = append(s.said, why)
	s.report(why)
}
