package harness

import (
	"fmt"
	"strings"
	"sync"
)

// A show is what stands in for a test where there is none. Its Fatalf ends the
// scenario.
type show struct {
	log      func(text string)
	mu       sync.Mutex
	wrong    []string
	cleanups []func()
}

// An ending is the panic by which Fatalf leaves the scenario.
type ending struct{}

// Perform runs a scenario and then its cleanups, outside of a test. log receives
// what the scenario logs; the error is what went wrong.
func Perform(log func(text string), scenario func(t T)) error {
	s := &show{log: log}
	s.attempt(func() { scenario(s) })
	for len(s.cleanups) > 0 {
		last := len(s.cleanups) - 1
		f := s.cleanups[last]
		s.cleanups = s.cleanups[:last]
		s.attempt(f)
	}
	if s.Failed() {
		return fmt.Errorf("%s", strings.Join(s.wrong, "\n"))
	}
	return nil
}

// attempt calls f until its end, or until it calls Fatalf.
func (s *show) attempt(f func()) {
	defer func() {
		if p := recover(); p != nil && p != (ending{}) {
			panic(p)
		}
	}()
	f()
}

func (s *show) Helper()                         {}
func (s *show) Cleanup(f func())                { s.cleanups = append(s.cleanups, f) }
func (s *show) Logf(format string, args ...any) { s.log(fmt.Sprintf(format, args...)) }

func (s *show) Errorf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

func (s *show) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	panic(ending{})
}

func (s *show) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.wrong) > 0
}
