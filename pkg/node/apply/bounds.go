package apply

import (
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// Bounds are what a node lets nobody go beyond, whoever orders it: the planner
// keeps to the same, but the order may not come from the planner.
type Bounds struct {
	// SetAside is for how long data stays set aside at least.
	SetAside time.Duration
}

// minAsideAge is for how long data stays set aside where nothing else is said:
// someone has to have the time to see it.
const minAsideAge = time.Hour

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
	least := l.o.Bounds.SetAside
	if least == 0 {
		least = minAsideAge
	}
	now := l.o.Now()
	if age := now.Sub(l.observer.SetAsideSince(list[i], now)); age < least {
		return refuse("%s was set aside %s ago, and is kept for at least %s; it may be deleted from %s", name,
			age.Round(time.Second), least,
			now.Add(least-age).UTC().Format(time.RFC3339))
	}
	return nil
}
