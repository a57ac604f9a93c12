package cluster

import (
	"fmt"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A VersionGate is what a node knows of its member right before it changes the version:
// from the member itself, from its own disk, and from the other members.
type VersionGate struct {
	// Answers says that the member answers. Leads says that it leads others; Runs is
	// what it is, Storage the version of its storage format, zero before etcd 3.6.
	Answers, Leads bool
	Runs, Storage  etcdversion.Version
	// Seen is the highest cluster version that is known here, or reported by the others.
	Seen etcdversion.Version
	// Lowest is the oldest version that another member says it runs, Downgrade the one to
	// which etcd lets the cluster be downgraded, zero for none.
	Lowest, Downgrade etcdversion.Version
	// Cluster is the cluster version that the member itself reports, which a downgrade lowers.
	Cluster etcdversion.Version
	// Others is how many other voters there are by the list of the member, Serving how
	// many of them serve right now.
	Others, Serving int
	// Ordered is how many voters there were when the change was ordered, by the record of
	// the lease voters, zero where it is unknown.
	Ordered int
}

// Refusal says why a node does not change its member from one version to another, empty
// where it does. What is in the data is looked for apart from this: see [HazardsFrom].
func (s VersionGate) Refusal(from, to etcdversion.Version) string {
	runs := s.Runs
	if !s.Answers {
		runs = from
	}
	switch {
	case s.Answers && s.Leads:
		return "the member leads; move its leadership first: etcdadm member move-leader --to=OTHER"
	case s.Answers && s.Ordered > s.Others+1:
		return fmt.Sprintf("the order is from when there were %d voters, and there are %d", s.Ordered, s.Others+1)
	case s.Answers && s.Needed():
		// The order may be an old one: others may have gone since it was given.
		return fmt.Sprintf("of the %d other voters, %d serve now, and without this member no majority would", s.Others, s.Serving)
	case !s.Answers && from.Minor > to.Minor:
		return fmt.Sprintf("the member does not report its data's etcd version, and etcd %s is older than %s", to, from)
	case runs.Minor >= to.Minor && !to.AtLeast(s.Storage.Major, s.Storage.Minor):
		return fmt.Sprintf("the member's data is of etcd %d.%d, and etcd %s is older", s.Storage.Major, s.Storage.Minor, to)
	case !s.Seen.IsZero() && !to.AtLeast(s.Seen.Major, s.Seen.Minor):
		return fmt.Sprintf("the cluster version is %d.%d, and etcd %s is older", s.Seen.Major, s.Seen.Minor, to)
	case s.Answers && from.Minor < to.Minor && lags(s.Cluster, to):
		return fmt.Sprintf("the cluster version is %d.%d, and etcd %s does not follow it", s.Cluster.Major, s.Cluster.Minor, to)
	case s.Answers && from.Minor < to.Minor && lags(s.Downgrade, to):
		return fmt.Sprintf("a downgrade to %d.%d is enabled, and etcd %s does not follow it", s.Downgrade.Major,
			s.Downgrade.Minor, to)
	case from.Minor > to.Minor && !s.stays(to):
		return fmt.Sprintf("no other member runs etcd %d.%d, and no downgrade to it is enabled: the cluster version may rise at "+
			"any time", to.Major, to.Minor)
	}
	return ""
}

// Needed reports whether no majority would serve without the member right now.
func (s VersionGate) Needed() bool { return s.Serving < min(s.Others, Quorum(s.Others+1)) }

// lags reports whether a version is known, and more than one minor version before to.
func lags(v, to etcdversion.Version) bool {
	return !v.IsZero() && v.Major == to.Major && v.Minor+1 < to.Minor
}

// stays reports whether something keeps the cluster version from rising above a version:
// another member that runs it, or a downgrade to it.
func (s VersionGate) stays(to etcdversion.Version) bool {
	enabled := s.Downgrade.Major == to.Major && s.Downgrade.Minor == to.Minor
	return enabled || !s.Lowest.IsZero() && !s.Lowest.AtLeast(to.Major, to.Minor+1)
}

// TooFar says why a member cannot change from one version to another in one step, empty
// where it can.
func TooFar(from, to etcdversion.Version) string {
	if d := to.Minor - from.Minor; from.Major != to.Major || d < -1 || d > 1 {
		return fmt.Sprintf("etcd %s and %s are more than one minor version apart", from, to)
	}
	return ""
}

// WrongBinary says why a node does not start a binary that says it is one version for a
// member that is to run another, empty where it does. seen is the version that the
// member's data is known to be of, zero where it is not known: nothing older is started
// on it, and nothing of a later minor version than the member is to run, to which nobody
// has let it change.
func WrongBinary(is, want, seen etcdversion.Version) string {
	switch {
	case seen.IsZero():
		return ""
	case !is.AtLeast(seen.Major, seen.Minor):
		return fmt.Sprintf("is etcd %s, and the data is of cluster version %d.%d", is, seen.Major, seen.Minor)
	case is.Minor > want.Minor && is.Minor > seen.Minor:
		return fmt.Sprintf("is etcd %s, not %s", is, want)
	}
	return ""
}

// An Attempt is how the new version of a change does.
type Attempt struct {
	// Process is the state of its process, Restarts how often it has died since it was
	// started first.
	Process  ProcessState
	Restarts int
	// Serves says that it answers a read through the quorum as the new version.
	Serves bool
	// Overdue says that it should have served by now: its time is over, and it, and
	// those that answer, would be a majority.
	Overdue bool
}

// A Verdict is what a node does about a change of its member's version.
type Verdict string

// The verdicts.
const (
	// VerdictWait: nothing yet.
	VerdictWait Verdict = "wait"
	// VerdictStart: what the record says is started.
	VerdictStart Verdict = "start"
	// VerdictDone: the new version serves, and the record goes.
	VerdictDone Verdict = "done"
	// VerdictBack: the old version is started again, if [VersionChange.NoWayBack] lets it.
	VerdictBack Verdict = "back"
)

// diesAt is how often the new version's process may have been started again before
// it is taken for one that cannot start: once and twice may be a port that is not
// free yet.
const diesAt = 2

// Judge says what a node does about a change of its member's version.
func (c VersionChange) Judge(a Attempt) Verdict {
	switch {
	case c.Back, a.Process == ProcessStopped:
		return VerdictStart
	case a.Serves:
		return VerdictDone
	case !c.Pending():
		return VerdictWait
	case a.Process == ProcessCrashing && a.Restarts >= diesAt, a.Overdue:
		return VerdictBack
	}
	return VerdictWait
}

// NoWayBack says why the old version must not be started on the data, empty where it
// may. seen is the highest cluster version that the data, the node and the other members
// report, zero where none does; found is what a check of the data finds right now. Where
// the old version is a later one, the way back is a change to it, of data in which the
// new one may have left what the old one cannot run with.
func (c VersionChange) NoWayBack(seen etcdversion.Version, found []Hazard) string {
	if held := c.heldBack(found); len(held) > 0 {
		return fmt.Sprintf("etcd %s cannot run on the data: %s; %s", c.From, held[0], held[0].Fix(c.From))
	}
	if c.From.AtLeast(c.To.Major, c.To.Minor) || seen.IsZero() || c.From.AtLeast(seen.Major, seen.Minor) {
		return ""
	}
	return fmt.Sprintf("the cluster version is already %d.%d", seen.Major, seen.Minor)
}

// heldBack returns what in the data keeps the old version from being started again, where
// it is of the next minor version.
func (c VersionChange) heldBack(found []Hazard) []Hazard {
	if !c.BackIsUp() {
		return nil
	}
	return append(HazardsFrom(found, c.To, c.From), HazardsBySnapshot(found, c.From)...)
}

// BackIsUp reports whether the old version is of a later minor version than the new one.
func (c VersionChange) BackIsUp() bool {
	return c.From.Major == c.To.Major && c.From.Minor > c.To.Minor
}

// Barred returns what in its data, by a check of it right now, keeps a node from
// changing its member from one version to another: what [HazardsFrom] says and the order
// does not accept, and what a raft snapshot has to take away first.
func Barred(found []Hazard, from, to etcdversion.Version, accepted []HazardKind) (held []Hazard) {
	for _, h := range HazardsFrom(found, from, to) {
		if !slices.Contains(accepted, h.Kind) {
			held = append(held, h)
		}
	}
	if from.Minor >= to.Minor {
		return held
	}
	return append(held, HazardsBySnapshot(found, to)...)
}
