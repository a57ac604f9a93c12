package discovery

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// Machines returns where there are machines that may have a daemon, by all sources but the
// records of the daemons themselves.
func (f *Finder) Machines() []Seed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Concat(f.o.Seeds, f.dirSeeds, f.machines()), func(s Seed) bool {
		return s.Address == "" || s.Address == f.o.Self.Address || s.Name == f.o.Self.Name
	})
}

// Known returns where the nodes are whose names are known: by whoever knows the
// machines, and by all other sources, of which the configured seeds come first and
// the records last.
func (f *Finder) Known() (machines, others []cluster.Whereabout) {
	f.mu.Lock()
	defer f.mu.Unlock()
	named := func(seeds []Seed) (list []cluster.Whereabout) {
		for _, s := range seeds {
			if s.Name != "" {
				list = append(list, cluster.Whereabout{Node: s.Name, Address: s.Address})
			}
		}
		return list
	}
	others = named(slices.Concat(f.o.Seeds, f.dirSeeds))
	for _, r := range f.records {
		others = append(others, cluster.Whereabout{Node: r.Name, Address: r.Address})
	}
	return named(f.machines()), others
}
