package apply

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// Bounds are what a node lets nobody go beyond, whoever orders it: the planner
// keeps to the same, but the order may not come from the planner.
type Bounds struct {
	// DNSSuffix is what names in the hosts file end with. Without one, no names
	// are written.
	DNSSuffix string
	// Aside is for how long data stays set aside at least.
	Aside time.Duration
}

// minAside is for how long data stays set aside where nothing else is said:
// someone has to have the time to look.
const minAside = time.Hour

// maxHosts is how many names the hosts file gets at most.
const maxHosts = 1024

// mayDiscard holds the deletion of what was set aside at that time to the time
// that it has to stay. A time in the future is that of a clock that was wrong,
// then or now: it counts from when this daemon first saw it.
func (l *Local) mayDiscard(name string, at time.Time) error {
	list, err := nodestate.ListSetAside(l.o.DataDir)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(s cluster.SetAside) bool { return s.Name == name && s.At.Equal(at) })
	if i < 0 {
		return nil // it is gone, or another
	}
	least := l.o.Bounds.Aside
	if least == 0 {
		least = minAside
	}
	now := l.o.Now()
	if age := now.Sub(l.sizes.since(list[i], now)); age < least {
		return refuse("%s was set aside %s ago, and stays for at least %s; it may be deleted from %s", name,
			age.Round(time.Second), least,
			now.Add(least-age).UTC().Format(time.RFC3339))
	}
	return nil
}

// mayWrite holds the hosts file to names of nodes below the suffix, and to
// addresses.
func (l *Local) mayWrite(op *plan.EndpointsWrite) error {
	suffix := strings.TrimPrefix(l.o.Bounds.DNSSuffix, ".")
	if len(op.Entries) > maxHosts {
		return refuse("%d names are more than the %d that the hosts file may get", len(op.Entries), maxHosts)
	}
	for _, e := range op.Entries {
		node, ok := strings.CutSuffix(e.Name, "."+suffix)
		if suffix == "" || !ok || cluster.NodeName(node).Validate() != nil {
			return refuse("%q is not the name of a node below %q, the suffix on this node", e.Name, suffix)
		}
		if _, err := netip.ParseAddr(e.Address); err != nil {
			return refuse("%q, the address of %s, is none", e.Address, e.Name)
		}
	}
	return nil
}
