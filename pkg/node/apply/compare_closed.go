package apply

import "time"

// leftToCoordinator reports whether the coordinator compares a member that began to run a
// moment ago, or has just done so: one that is closed to clients, and the first that it opens.
func (l *Local) leftToCoordinator(began time.Time) bool {
	s := l.o.State.State()
	closed := s.Assigned != nil && s.Assigned.Quarantined
	return closed && time.Since(began) < l.o.closedCompare || l.agreedNow()
}

// agreed reports whether the start that begins is the one for which the coordinator has just
// compared the members. A process that dies soon after it is compared as any other.
func (l *Local) agreed() bool { return l.agreedNow() && l.agreedStart.Swap(false) }

// agreedNow reports whether the coordinator found a moment ago that the restored members agree.
func (l *Local) agreedNow() bool {
	at := l.agreedAt.Load()
	return at != nil && time.Since(*at) < l.o.closedCompare
}
