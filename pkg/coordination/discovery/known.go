package discovery

import (
	"cmp"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A Machine may have a daemon.
type Machine struct {
	// Name is the node that is there, empty where it is not known.
	Name cluster.NodeName
	// Addresses are host:port, sorted. A daemon listens at one of them.
	Addresses []string
}

// Machines returns where there are machines that may have a daemon, by all sources but the
// records of the daemons themselves. All addresses of one name are of one machine; an
// address that no source has a name for is a machine of its own.
func (f *Finder) Machines() []Machine {
	f.mu.Lock()
	defer f.mu.Unlock()
	seeds := slices.Concat(f.o.Seeds, f.dirSeeds, f.machines())
	slices.SortFunc(seeds, func(a, b Seed) int { // those with names first
		return cmp.Or(-cmp.Compare(a.Name, b.Name), cmp.Compare(a.Address, b.Address))
	})
	var all []Machine
	named := map[string]bool{}
	for _, s := range slices.Compact(seeds) {
		switch last := len(all) - 1; {
		case s.Address == "" || s.Address == f.o.Self.Address || s.Name == f.o.Self.Name:
		case s.Name == "" && named[s.Address]:
		case s.Name != "" && last >= 0 && all[last].Name == s.Name:
			all[last].Addresses = append(all[last].Addresses, s.Address)
		default:
			all = append(all, Machine{Name: s.Name, Addresses: []string{s.Address}})
		}
		named[s.Address] = s.Name != "" || named[s.Address]
	}
	return all
}

// Known returns where the nodes are whose names are known: by whoever knows the
// machines, and by all other sources, of which the configured seeds come first and
// the records last.
func (f *Finder) Known() (machines, others []cluster.NodeAddress) {
	f.mu.Lock()
	defer f.mu.Unlock()
	named := func(seeds []Seed) (list []cluster.NodeAddress) {
		for _, s := range seeds {
			if s.Name != "" {
				list = append(list, cluster.NodeAddress{Node: s.Name, Address: s.Address})
			}
		}
		return list
	}
	others = named(slices.Concat(f.o.Seeds, f.dirSeeds))
	for _, r := range f.records {
		others = append(others, cluster.NodeAddress{Node: r.Name, Address: r.Address})
	}
	return named(f.machines()), others
}
