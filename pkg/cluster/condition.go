package cluster

import (
	"fmt"
	"time"
)

// A Condition says how a member does, in one word. A member that answers is not
// for that reason healthy: etcd reports its status and a serializable list from
// memory while its disk hangs.
type Condition string

// The conditions, the best first.
const (
	// Serving: it answers reads through the quorum, and its disk takes writes.
	Serving Condition = "serving"
	// Slow: it serves, and for some time its disk has taken so long for a write
	// that elections may be the result.
	Slow Condition = "slow"
	// Late: it served a moment ago and did not this time, or a write to its disk
	// takes longer than usual. It still counts for what runs, and no step relies on
	// it.
	Late Condition = "late"
	// Stuck: for some time it has served no read through the quorum, or has not
	// followed the log, although it answers.
	Stuck Condition = "stuck"
	// Hung: a write to its disk does not end, or fails.
	Hung Condition = "hung"
	// Corrupt: etcd has found that its data differs from that of the others.
	Corrupt Condition = "corrupt"
	// Apart: it sees no leader, or another than the best informed member.
	Apart Condition = "apart"
	// Unstarted: it has never started: etcd publishes a name and client URLs then.
	Unstarted Condition = "unstarted"
	// Down: it does not answer.
	Down Condition = "down"
	// Unknown: nobody has asked it. Only a person's command knows of members whose
	// machines it does not know.
	Unknown Condition = "unknown"
)

// Serves reports whether a step may rely on a member in condition c: it has
// served in this very observation. The zero value is from a source that does
// not report conditions, and says nothing against it.
func (c Condition) Serves() bool { return c == "" || c == Serving || c == Slow }

// A Read says how a read through the quorum ended that was asked of one member.
type Read string

// How a read ends. The zero value is: not asked.
const (
	// ReadServed: the member answered it, also by denying it to this client.
	ReadServed Read = "served"
	// ReadLate: no answer came in time.
	ReadLate Read = "late"
)

// A StorageState says how a disk takes writes.
type StorageState string

// The states of storage. The zero value is: not known.
const (
	StorageGood StorageState = "good"
	// StorageSlow: several writes in a row took long.
	StorageSlow StorageState = "slow"
	// StorageHung: a write does not end, or none has ended quickly since.
	StorageHung StorageState = "hung"
	// StorageFailing: a write ended with an error of the disk.
	StorageFailing StorageState = "failing"
)

// Storage is what a node's daemon finds when it writes a few bytes to the file
// system of the member's log, again and again, and waits until they are on the
// disk. Times are durations, so that no clock has to agree with another.
type Storage struct {
	State StorageState `json:"state,omitempty"`
	// Path is a directory on the file system that is measured.
	Path string `json:"path,omitempty"`
	// Latency is how long the last write took that ended.
	Latency time.Duration `json:"latency,omitempty"`
	// Pending is for how long the present write has been under way, zero for none.
	Pending time.Duration `json:"pending,omitempty"`
	// Age is how long ago a write last ended well, zero where none has.
	Age time.Duration `json:"age,omitempty"`
	// Problem is the error of the last write, empty for none.
	Problem string `json:"problem,omitempty"`
}

// Bad reports whether the disk takes no writes.
func (s Storage) Bad() bool { return s.State == StorageHung || s.State == StorageFailing }

// String says in a few words what is known of the disk.
func (s Storage) String() string {
	switch {
	case s.State == StorageFailing:
		return fmt.Sprintf("a write below %s failed: %s", s.Path, s.Problem)
	case s.Pending >= time.Second:
		return fmt.Sprintf("a write below %s has been under way for %s", s.Path, s.Pending.Round(time.Second))
	case s.State == StorageHung:
		return fmt.Sprintf("writes below %s hung until just now", s.Path)
	case s.State == "":
		return "unknown"
	}
	return fmt.Sprintf("the last write below %s took %s", s.Path, s.Latency.Round(time.Millisecond))
}

// lateLimit is for how long a member may serve no read through the quorum, or not
// follow, before it is [Stuck]: longer than etcd itself waits for a request (7 s
// with its default settings), a few elections, and a garbage collection of an
// overloaded machine.
const lateLimit = 10 * time.Second

// pendingWriteLimit is the time after which a write that has not ended counts against
// its member: etcd's default election timeout. It is a thousand times what a
// good disk needs, and happens on busy ones.
const pendingWriteLimit = time.Second

// MaxObservationInterval is the longest time between two observations that counts for how a
// member did: one of sources that hang, and the longest pause. Who stood still for
// longer, or had another thing to do, did not see how the others did meanwhile.
const MaxObservationInterval = 5 * time.Second

// Judge sets m's condition, whether it is healthy, and why not, from what it
// and its node say now, and from what it said in the observation before.
func (m *Member) Judge(e Evidence) {
	m.Condition, m.Why = e.condition(m)
	m.Healthy = m.Condition.Serves() || m.Condition == Late
	r := e.Report
	m.Served = r != nil && r.Read == ReadServed && r.Leader != 0 && r.Leader == e.Leader && !m.Learner
}

// Evidence is what a member is judged by.
type Evidence struct {
	// Report is what it says of itself, nil where it does not answer.
	Report *Report
	// Storage is what its node says of its disk; zero where that is not known.
	Storage Storage
	// NoReport is why the node got no report, nil where it got one or is not known.
	NoReport *NoReport
	// Leader is the leader and Term its term, by the best informed report, Committed the
	// highest index known to be committed.
	Leader    MemberID
	Term      uint64
	Committed uint64
	// Before is the member in the observation before, zero where it was not there.
	// BeforeCommitted is what was committed then, and Passed the time since.
	Before          Member
	BeforeCommitted uint64
	Passed          time.Duration
	At              time.Time
}

func (e Evidence) condition(m *Member) (Condition, string) {
	r := e.Report
	if r == nil {
		return e.unanswered(m)
	}
	fault, why := r.fault(e.Leader, e.Term)
	switch {
	case fault == Corrupt:
		return fault, why
	case e.Storage.Bad():
		return Hung, e.Storage.String()
	case fault == Apart:
		return fault, why
	}
	late := why
	if late == "" {
		late = e.stands()
	}
	if late != "" && e.since(&m.LateSince, e.Before.LateSince) > lateLimit {
		return Stuck, late
	}
	switch {
	case late != "":
		return Late, late
	case e.Storage.Pending >= pendingWriteLimit:
		return Late, e.Storage.String()
	case e.Storage.State == StorageSlow:
		return Slow, e.Storage.String()
	}
	return Serving, ""
}

func (e Evidence) unanswered(m *Member) (Condition, string) {
	switch {
	case m.Name == "" || !m.Learner && len(m.ClientURLs) == 0:
		return Unstarted, "it has never started"
	case e.Storage.Bad():
		return Hung, e.Storage.String()
	case e.NoReport != nil:
		return Down, e.NoReport.Text
	}
	return Down, "it does not answer"
}

// stands says that the member does not follow the log, "" where it does.
func (e Evidence) stands() string {
	r := e.Report
	// It has to move only where there is something that it has not applied.
	stands := e.Before.Applied != 0 && r.Applied == e.Before.Applied && r.Applied < e.BeforeCommitted &&
		e.BeforeCommitted < e.Committed
	if !stands || r.Read == ReadServed {
		return ""
	}
	return fmt.Sprintf("it has applied %d entries and is stuck there, %d are committed", r.Applied, e.Committed)
}

// since carries a time on from one observation to the next, or begins it. Of the
// time between them no more than [MaxObservationInterval] counts.
func (e Evidence) since(t *time.Time, before time.Time) time.Duration {
	*t = e.At
	if !before.IsZero() {
		*t = before.Add(max(0, e.Passed-MaxObservationInterval))
	}
	return e.At.Sub(*t)
}
