package discovery

import (
	"maps"
	"slices"
)

// Problems returns what does not work at the moment, sorted.
func (f *Finder) Problems() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for _, source := range slices.Sorted(maps.Keys(f.problems)) {
		list = append(list, source+": "+f.problems[source])
	}
	return list
}

func (f *Finder) problem(source string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.setProblem(source, err)
}

// setProblem notes a problem or its end, and logs a change.
func (f *Finder) setProblem(source string, err error) {
	old, had := f.problems[source]
	switch {
	case err != nil && err.Error() != old:
		f.problems[source] = err.Error()
		f.o.Log("%s: %v", source, err)
	case err == nil && had:
		delete(f.problems, source)
		f.o.Log("%s: solved", source)
	}
}
