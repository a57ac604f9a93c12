package render

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// An Asked says which daemons of a published report answered whoever shows it.
type Asked struct {
	Answered []cluster.NodeName `json:"answered"`
	// Silent says of each that did not answer where it was asked, and what became of that.
	Silent map[cluster.NodeName]string `json:"silent,omitempty"`
}

// silence reports whether daemons were asked, and none answered.
func (a *Asked) silence() bool { return a != nil && len(a.Answered) == 0 && len(a.Silent) > 0 }

// reasons say of each daemon why it did not answer, by name.
func (a *Asked) reasons() (list []string) {
	for _, name := range slices.Sorted(maps.Keys(a.Silent)) {
		list = append(list, fmt.Sprintf("%s at %s", name, a.Silent[name]))
	}
	return list
}

// coordinates reports whether the coordinator of the report may still be it: it answered, or
// was not asked.
func (s Status) coordinates() bool {
	if s.Asked == nil {
		return !s.Stale
	}
	_, silent := s.Asked.Silent[s.Report.Coordinator]
	return !s.Stale && !silent
}

// Coordinator names who coordinates; there is a report. Who only published last is said to
// be just that.
func (s Status) Coordinator(now time.Time) string {
	age := now.Sub(s.Report.At)
	if !s.coordinates() {
		age = max(age, StaleAfter+1)
	}
	return Coordinator(*s.Report, age)
}

// State says in one line what is going on; there is a report.
func (s Status) State(now time.Time) string {
	age := now.Sub(s.Report.At)
	if s.Stale {
		return StaleState(*s.Report, age)
	}
	return State(*s.Report, age)
}
