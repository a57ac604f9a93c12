package reconcile

import "time"

// rest returns the pause after a cycle in which nothing was done.
func (l *Loop) rest(pause time.Duration) time.Duration {
	switch now := l.o.Now(); {
	case pause < idlePause:
		l.idle = time.Time{}
	case l.idle.IsZero():
		l.idle = now
	case l.calm():
		return calmPause
	}
	return pause
}

// calm reports whether there has been nothing to do for a while.
func (l *Loop) calm() bool { return !l.idle.IsZero() && l.o.Now().Sub(l.idle) >= calmDelay }

// late says when the cycle that begins was due: a daemon that stood still has to know that.
func (l *Loop) late(due time.Time) {
	if l.o.Late != nil {
		l.o.Late(due)
	}
}
