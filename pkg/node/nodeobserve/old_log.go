package nodeobserve

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// logInterval is how often a log is read that still has old entries.
const logInterval = 5 * time.Second

// A logWatch looks for old entries in the member's log, in the background: the log
// may have some hundred MB.
type logWatch struct {
	mu    sync.Mutex
	token cluster.Token
	found cluster.Hazard
	at    time.Time
	busy  bool
	// overtaken counts what makes a reading that is under way old.
	overtaken int
}

// oldLog returns what is known of the member's log, and has it read where that is
// due. Nobody checks before all members run the minor version: until then others still
// write such entries. What is absent then stays so.
func (o *Observer) oldLog(s nodestate.State) cluster.Hazard {
	w := &o.logs
	w.mu.Lock()
	defer w.mu.Unlock()
	if !settledBefore(s) {
		w.token, w.found, w.at = "", cluster.Hazard{}, time.Time{}
		return w.found
	}
	if w.token != s.Assigned.Token {
		w.token, w.found, w.at = s.Assigned.Token, cluster.Hazard{}, time.Time{}
	}
	if w.found.State == cluster.HazardAbsent || w.busy || time.Since(w.at) < logInterval {
		return w.found
	}
	w.busy = true
	began := w.overtaken
	go func() {
		found := o.examineLog(s)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.busy, w.at = false, time.Now()
		if w.token == s.Assigned.Token && w.overtaken == began {
			w.found = found
		}
	}()
	return w.found
}

// forget has the log read again: what was found has turned out to be old.
func (w *logWatch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.token = ""
	w.overtaken++
}

// take takes over what has been found meanwhile.
func (w *logWatch) take(token cluster.Token, found []cluster.Hazard) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.token, w.found = token, cluster.HazardOf(found, cluster.HazardOldLog)
	w.overtaken++
}

// settledBefore reports whether all members run this one's minor version, and the next
// one cannot read what the one before has written.
func settledBefore(s nodestate.State) bool {
	return Settled(s) && slices.Contains(cluster.HazardsBefore(NextMinor(s)), cluster.HazardOldLog)
}

// Settled reports whether all members run this one's minor version, or did.
func Settled(s nodestate.State) bool {
	if s.Assigned == nil {
		return false
	}
	v, seen := s.Assigned.Version, s.DataVersion()
	return seen.Major == v.Major && seen.Minor == v.Minor
}

// NextMinor returns the minor version after that of the member.
func NextMinor(s nodestate.State) etcdversion.Version {
	return etcdversion.Version{Major: s.Assigned.Version.Major, Minor: s.Assigned.Version.Minor + 1}
}

func (o *Observer) examineData(s nodestate.State) []cluster.Hazard {
	return o.opts.Examine(datadir.At(nodestate.DataDir(o.opts.DataDir, s.Assigned.Token)))
}

func (o *Observer) examineLog(s nodestate.State) cluster.Hazard {
	return cluster.HazardOf(o.examineData(s), cluster.HazardOldLog)
}

// withProgress adds to what a raft snapshot is to take away how far that is.
func (o *Observer) withProgress(list []cluster.Hazard) []cluster.Hazard {
	n := o.opts.Progress.Forced()
	if n == 0 {
		return list
	}
	list = slices.Clone(list)
	for i, h := range list {
		if h.BySnapshot() {
			list[i].What += fmt.Sprintf("; for a raft snapshot %d entries have been proposed", n)
		}
	}
	return list
}
