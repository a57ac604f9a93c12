package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// An UnsafeError is returned by [Check] for an operation that would break an
// invariant in the world that was observed.
type UnsafeError struct {
	// Invariant names what would be broken.
	Invariant string
	Text      string
	// Passes says that this passes without anybody's doing: etcd or a daemon is at it.
	Passes bool
	// Ports says that it is for want of peer ports that members reach, and not of healthy voters.
	Ports bool
}

func (e *UnsafeError) Error() string { return fmt.Sprintf("unsafe (%s): %s", e.Invariant, e.Text) }

func unsafe(invariant, format string, args ...any) error {
	return &UnsafeError{Invariant: invariant, Text: fmt.Sprintf(format, args...)}
}

// passing is an unsafe error that waiting ends.
func passing(invariant, format string, args ...any) error {
	return &UnsafeError{Invariant: invariant, Text: fmt.Sprintf(format, args...), Passes: true}
}

// scattered is an unsafe error of voters none of which would reach a majority of the others.
func scattered(how string, name cluster.NodeName) error {
	return &UnsafeError{Invariant: "quorum", Ports: true,
		Text: fmt.Sprintf("%s %s no leader would reach a majority of the voters at their peer ports", how, name)}
}

// Check reports whether op would break an invariant in obs. It is written
// apart from the rules of [Next], from the operation's side, so that a mistake
// there is caught here: by tests, by the simulator, and by the executor right
// before each effect, for operations of the daemon and of people alike.
//
// The invariants:
//
//	quorum       no step of ours takes the healthy majority away; a voter that only
//	             answers is not healthy: it serves reads through the quorum, and
//	             its disk takes writes
//	peer-port    a learner that is promoted and the voters that serve reach each other
//	drain        no process is ended for a removal that etcd may refuse, nor one that would
//	             break off what clients have asked
//	one-change   one membership change at a time
//	backup       a fresh backup covers each removal of a voter and each addition
//	fresh-disk   no voter starts on a disk that is empty but once was not
//	live-data    data of a current member is never moved or deleted
//	version      no member starts with another version than it ran; versions change one
//	             member at a time, between neighbours that etcd can mix
//	bootstrap    a cluster is bootstrapped only where nothing shows an earlier one
//	newest       the newest backup, and the newest good one, are never deleted
//	aged         no backup is deleted for an age that only a clock shows
//	aside        what a node held before its troubles began is not discarded early
//	lease-voters the lease voters' record moves by one name at a time
//	take-over    nobody coordinates a cluster of the existing tool before all voters' nodes
//	             agree, and no member is changed while a daemon of it is heard
//	restore      nothing that runs is stopped before all that replaces it is ready,
//	             and no restored cluster begins below a revision that was seen
func Check(spec cluster.Spec, obs cluster.Observation, op Operation) error {
	if err := Validate(op); err != nil {
		return err
	}
	c := checker{policy: spec.Policy.WithDefaults(), obs: obs}
	if err := cmp.Or(c.readLately(op), c.sealed(op), c.alone(op)); err != nil {
		return err
	}
	switch op := op.(type) {
	case *MemberPrepare:
		return c.prepare(op)
	case *IncarnationCreate:
		return c.create(op)
	case *IncarnationMark:
		return nil // the marker only ever protects
	case *SpecWrite:
		return c.writeSpec(op)
	case *MemberStart:
		return c.start(op)
	case *MemberStop:
		if err := c.expectRunning(op); err != nil {
			return err
		}
		return c.stop(op.Node)
	case *MemberChangeVersion:
		return c.changeVersion(spec, op)
	case *MemberForceSnapshot:
		return c.forceSnapshot(op)
	case *MemberDrain:
		return c.drain(op)
	case *DowngradeEnable:
		return c.enableDowngrade(spec, op)
	case *DowngradeCancel:
		return c.cancelDowngrade(op)
	case *AddLearner:
		return c.addLearner(op)
	case *Promote:
		return c.promote(op)
	case *Remove:
		return c.remove(op)
	case *MemberUpdate:
		return c.update(op)
	case *MoveLeader:
		return c.moveLeader(op)
	case *LeaseVotersWrite:
		return c.leaseVoters(op)
	case *LeaseVotersRecover:
		return c.recoverLeaseVoters(op)
	case *LeaseVotersAdopt:
		return c.adopt(op)
	}
	return c.keeping(op)
}

// keeping checks the operations on what nodes and the store keep: data, backups, requests,
// and who is kept away from a member.
func (c checker) keeping(op Operation) error {
	switch op := op.(type) {
	case *DataSetAside:
		return c.setAside(op)
	case *QuarantineSet:
		return c.seal(op)
	case *QuarantineLift:
		return c.lift(op)
	case *BackupPrune:
		return c.prune(op)
	case *RestoreStage:
		return c.stage(op)
	case *RestoreSwitch:
		return c.changeOver(op)
	case *RestoreDiscard:
		return c.discardStaged(op)
	case *RequestClose:
		return nil // closing a request changes no member or data
	case *DataDiscard:
		return c.discard(op)
	case *BackupTake, *BackupVerify, *BackupDrill:
		return nil // nothing of the cluster's can be lost by these
	}
	return unsafe("unknown", "%T has no check", op)
}

// readLately makes sure that what is known of the disk of the node that op is for
// is no older than a second: it may be from before the last operation there.
func (c checker) readLately(op Operation) error {
	name, ok := Target(op)
	if a, adds := op.(*AddLearner); adds {
		name, ok = a.Node, true
	}
	for _, n := range c.obs.Nodes {
		if ok && n.Name == name && n.Reachable && n.FactsAge > time.Second {
			return &StaleError{Want: "what " + string(name) + " has on its disk now",
				Got: fmt.Sprintf("what it had %s ago", n.FactsAge.Round(time.Second))}
		}
	}
	return nil
}

type checker struct {
	policy cluster.Policy
	obs    cluster.Observation
}

func (c checker) node(name cluster.NodeName) (cluster.Node, error) {
	for _, n := range c.obs.Nodes {
		if n.Name == name {
			return n, nil
		}
	}
	return cluster.Node{}, unsafe("unknown", "no node %s is known", name)
}

// hosted returns the current member on a node: the one whose data is on its
// disk, whatever the node is called, or else by its name or its peer URLs.
func (c checker) hosted(n cluster.Node) (cluster.Member, bool) {
	if m, ok := c.owner(n); ok {
		return m, true
	}
	for _, m := range c.obs.Members {
		if m.Name == n.Name || m.Name == "" && overlap(m.PeerURLs, n.URLs.Peer) {
			return m, true
		}
	}
	return cluster.Member{}, false
}

// owner returns the current member whose data is on the node's disk, by id.
func (c checker) owner(n cluster.Node) (cluster.Member, bool) {
	if n.Disk.State != cluster.DiskData || n.Disk.MemberID == 0 || c.obs.Token != "" && n.Disk.Token != c.obs.Token {
		return cluster.Member{}, false
	}
	for _, m := range c.obs.Members {
		if n.Disk.MemberID == m.ID {
			return m, true
		}
	}
	return cluster.Member{}, false
}

func (c checker) expectVoters(want int) error {
	if have, _ := c.count(0); have != want {
		return &StaleError{Want: fmt.Sprintf("%d voters", want), Got: fmt.Sprintf("%d", have)}
	}
	return nil
}

// A StaleError is returned for an operation whose expectation differs from the
// present: it was planned for another world.
type StaleError struct{ Want, Got string }

func (e *StaleError) Error() string {
	return fmt.Sprintf("stale: expected %s, found %s", e.Want, e.Got)
}

func (c checker) writeSpec(op *SpecWrite) error {
	rec := newestRecord(c.obs)
	if op.Request != "" && (rec == nil || rec.Restored == nil || rec.Restored.Request != op.Request) {
		return &StaleError{Want: "a cluster restored for request " + op.Request, Got: "another"}
	}
	if op.Request == "" && !c.obs.Store.SpecMissing && !Done(c.obs, op) {
		return &StaleError{Want: "a store without a spec", Got: "one that does not answer"}
	}
	return cluster.Spec{MemberCount: op.MemberCount, EtcdVersion: op.EtcdVersion}.Validate()
}

func (c checker) start(op *MemberStart) error {
	n, err := c.node(op.Node)
	if err != nil {
		return err
	}
	if n.Disk.State == cluster.DiskUnreadable {
		return unsafe("live-data", "the disk of %s is unreadable", op.Node)
	}
	if n.Disk.State == cluster.DiskData && n.Disk.Token != op.Token {
		return unsafe("live-data", "%s has data of another incarnation", op.Node)
	}
	if n.Disk.State == cluster.DiskData && n.Assigned != nil && n.Assigned.Version != op.Version {
		return unsafe("version", "%s runs etcd %s; etcdadm member change-version changes it", op.Node, n.Assigned.Version)
	}
	if op.AcceptData != 0 && n.Disk.MemberID != op.AcceptData {
		return &StaleError{Want: "data of member " + op.AcceptData.String(), Got: n.Disk.MemberID.String()}
	}
	m, member := c.hosted(n)
	switch op.Mode {
	case StartNew:
		if n.Disk.State != cluster.DiskData && (n.Prepared == nil || n.Prepared.Token != op.Token) {
			return unsafe("fresh-disk", "%s has not promised this bootstrap", op.Node)
		}
		if !slices.ContainsFunc(c.obs.Store.Incarnations, func(i cluster.Incarnation) bool { return i.Token == op.Token }) {
			return unsafe("bootstrap", "the incarnation has no record")
		}
		if n.Disk.State == cluster.DiskEmpty {
			if rec := newestRecord(c.obs); rec != nil && rec.Restored != nil && rec.Token == op.Token &&
				n.Prepared.Backup == "" {
				return unsafe("fresh-disk", "incarnation %s begins with restored data, which %s has not", op.Token, op.Node)
			}
			return c.keptPlace(n, op.Token)
		}
	case StartJoin:
		if n.Disk.State == cluster.DiskEmpty && (!member || !m.Learner || m.Name != "") {
			return unsafe("fresh-disk", "%s has an empty disk and no learner that has never started", op.Node)
		}
	case StartRestart:
		if n.Disk.State != cluster.DiskData {
			return unsafe("fresh-disk", "%s has no data to start from", op.Node)
		}
		if member && n.Process.State == cluster.ProcessRunning && c.listensElsewhere(n, m) {
			return c.restart(m)
		}
	}
	return nil
}

// keptPlace makes sure that n has not lost its place since it promised.
func (c checker) keptPlace(n cluster.Node, token cluster.Token) error {
	if problem := c.obs.Store.RecordsProblem; problem != "" {
		return unsafe("bootstrap", "the store has incarnation records that cannot be read: %s", problem)
	}
	if len(c.obs.Members) == 0 {
		return nil
	}
	if c.obs.Token != token {
		return unsafe("bootstrap", "a cluster with another token is running")
	}
	if m, ok := c.hosted(n); !ok || m.Learner || len(m.ClientURLs) > 0 {
		return unsafe("fresh-disk", "%s hosts no voter that has never started", n.Name)
	}
	return nil
}

// expectRunning compares what a stop expects with what the node runs.
func (c checker) expectRunning(op *MemberStop) error {
	n, err := c.node(op.Node)
	if err != nil {
		return err
	}
	if n.Process.State == cluster.ProcessStopped && (n.Assigned == nil || n.Assigned.Stopped) {
		return nil // nothing to do
	}
	token := n.Disk.Token
	if token == "" && n.Assigned != nil {
		token = n.Assigned.Token
	}
	if !c.policy.Unbacked && c.mayBeNewer(token) {
		return unsafe("live-data", "%s runs incarnation %s, which may be newer than %s, and the store does not answer",
			op.Node, token, c.obs.Token)
	}
	if !c.policy.Unbacked && c.later(n, token) {
		return unsafe("live-data", "%s runs incarnation %s, which began above all that %s has reached, and has no record",
			op.Node, token, c.obs.Token)
	}
	if token != op.ExpectToken || n.Disk.MemberID != op.ExpectMemberID {
		return &StaleError{
			Want: fmt.Sprintf("member %s of incarnation %s", op.ExpectMemberID, op.ExpectToken),
			Got:  fmt.Sprintf("member %s of incarnation %s", n.Disk.MemberID, token),
		}
	}
	return nil
}
