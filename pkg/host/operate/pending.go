package operate

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// pending is what was asked, and has not answered. Its zero value is nothing.
type pending struct {
	mu sync.Mutex
	of map[string]int
}

// ask notes that somebody is asked, until answered is called.
func (p *pending) ask(whom string) (answered func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[string]int{}
	}
	p.of[whom]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.of[whom]--; p.of[whom] == 0 {
			delete(p.of, whom)
		}
	}
}

// Pending says who has not answered yet what this machine asks now, nothing where nobody is asked.
// It may be called at any time.
func (m *Machine) Pending() string {
	m.pending.mu.Lock()
	defer m.pending.mu.Unlock()
	if len(m.pending.of) == 0 {
		return ""
	}
	return "no answer yet from " + strings.Join(slices.Sorted(maps.Keys(m.pending.of)), ", ")
}
