package discovery

import (
	"maps"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// seeds returns all other places to check. A seed without a name whose
// address has a known name is the same as the one with the name.
func (f *Finder) seeds() []Seed {
	all := make(map[Seed]bool)
	named := make(map[string]bool)
	add := func(s Seed) {
		if s.Address != "" && s.Address != f.o.Self.Address && s.Name != f.o.Self.Name {
			all[s] = true
			named[s.Address] = named[s.Address] || s.Name != ""
		}
	}
	for _, r := range f.records {
		add(Seed{r.Name, r.Address})
	}
	for _, s := range f.o.Seeds {
		add(s)
	}
	for _, s := range slices.Concat(f.dirSeeds, f.machines()) {
		add(s)
	}
	maps.DeleteFunc(all, func(s Seed, _ bool) bool { return s.Name == "" && named[s.Address] })
	return slices.SortedFunc(maps.Keys(all), func(a, b Seed) int {
		return slices.Compare([]string{string(a.Name), a.Address}, []string{string(b.Name), b.Address})
	})
}

// wanted returns the seeds to ask, and a word for each thing that is missing.
func (f *Finder) wanted() (seeds []Seed, missing map[string]bool) {
	alive := make(map[cluster.NodeName]bool)
	for _, n := range f.o.Alive() {
		alive[n] = true
		if n != f.o.Self.Name {
			f.met[n] = true
			if !f.alive[n] {
				f.askAgain() // it may be at another address than the sources said last
			}
		}
	}
	f.alive = alive
	missing = make(map[string]bool)
	lost := false
	for n := range f.met {
		if !alive[n] {
			lost = true
			missing["node "+string(n)] = true
		}
	}
	for _, s := range f.seeds() {
		switch {
		case s.Name != "" && !alive[s.Name]:
			missing["node "+string(s.Name)] = true
			seeds = append(seeds, s)
		case s.Name == "" && !f.answered[s]:
			missing["seed "+s.Address] = true
			seeds = append(seeds, s)
		case s.Name == "" && lost:
			// The lost node may be there, and nothing else may know its address.
			seeds = append(seeds, s)
		}
	}
	for _, s := range f.sources {
		// Machines that start together may not reach each other yet.
		if s.failed || len(f.met) == 0 && time.Since(f.began) < minIdleInterval {
			missing["source "+s.What] = true
		}
	}
	for _, where := range f.o.Unanswered() {
		missing["daemon at "+where] = true
	}
	if f.o.Directory != nil && !f.published {
		missing["own record"] = true
	}
	if f.o.Directory != nil && !f.read {
		missing["node records"] = true
	}
	return seeds, missing
}

// missing reports whether something is missing, and whether that is more than
// it was.
func (f *Finder) missing() (missing, more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, m := f.wanted()
	for what := range m {
		if !f.missed[what] {
			more = true
		}
	}
	f.missed = m
	return len(m) > 0, more
}
