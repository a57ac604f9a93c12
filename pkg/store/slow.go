package store

import (
	"sync"
	"time"
)

// slowness is what is called when a store takes long.
type slowness struct {
	after  time.Duration
	once   sync.Once
	report func()
}

// OnSlow has report called once, by any goroutine, when a call to the store, but not the copying of
// a backup, has taken so long: a person who waits should know for what. The server is the one that
// is asked, empty where the driver does not name it. It is to be called before any other method.
func (s *Store) OnSlow(after time.Duration, report func(server string)) {
	server := func() string { return "" }
	if l, dialled := s.objects.(*lazy); dialled {
		server = l.server
	}
	s.slow = &slowness{after: after, report: func() { report(server()) }}
}

// watch begins to wait; the function that it returns ends that.
func (s *slowness) watch() (end func()) {
	if s == nil {
		return func() {}
	}
	timer := time.AfterFunc(s.after, func() { s.once.Do(s.report) })
	return func() { timer.Stop() }
}
