package plan

import (
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
}

func (e *UnsafeError) Error() string { return fmt.Sprintf("unsafe (%s): %s", e.Invariant, e.Text) }

func unsafe(invariant, format string, args ...any) error {
	return &UnsafeError{Invariant: invariant, Text: fmt.Sprintf(format, args...)}
}

// Check reports whether op would break an invariant in obs. It is written
// apart from the rules of [Next], from the operation's side, so that a mistake
// there is caught here: by tests, by the simulator, and by the executor right
// before each effect, for operations of the daemon and of people alike.
//
// The invariants:
//
//	quorum      no step of ours takes the healthy majority away
//	one-change  one membership change at a time
//	backup      a fresh backup covers each removal of a voter and each addition
//	fresh-disk  no voter starts on a disk that is empty but once was not
//	live-data   data of a current member is never moved or deleted
//	founding    a cluster is founded only where nothing tells of an earlier one
//	newest      the newest backup is never deleted
//	electors    the electors' record moves by one name at a time
func Check(spec cluster.Spec, obs cluster.Observation, op Operation) error {
	if err := Validate(op); err != nil {
		return err
	}
	c := checker{policy: spec.Policy.WithDefaults(), obs: obs}
	switch op := op.(type) {
	case *MemberPrepare:
		return c.prepare(op)
	case *IncarnationCreate:
		return c.create(op)
	case *IncarnationMark:
		return nil // the marker only ever protects
	case *MemberStart:
		return c.start(op)
	case *MemberStop:
		return c.stop(op.Node)
	case *AddLearner:
		return c.addLearner(op)
	case *Promote:
		return c.promote(op)
	case *Remove:
		return c.remove(op)
	case *MoveLeader:
		return c.moveLeader(op)
	case *ElectorsWrite:
		return c.electors(op)
	case *DataSetAside:
		return c.setAside(op)
	case *QuarantineSet:
		return c.stop(op.Node)
	case *BackupPrune:
		return c.prune(op)
	case *DataDiscard, *QuarantineLift, *BackupTake, *EndpointsWrite:
		return nil // nothing of the cluster's can be lost by these
	}
	return unsafe("unknown", "%T has no check", op)
}

type checker struct {
	policy cluster.Policy
	obs    cluster.Observation
}

// count returns the voters and the healthy voters of the observed cluster,
// without the member of that id.
func (c checker) count(without cluster.MemberID) (voters, healthy int) {
	for _, m := range c.obs.Members {
		if m.Learner || m.ID == without {
			continue
		}
		voters++
		if m.Healthy {
			healthy++
		}
	}
	return voters, healthy
}

func (c checker) node(name cluster.NodeName) (cluster.Node, error) {
	for _, n := range c.obs.Nodes {
		if n.Name == name {
			return n, nil
		}
	}
	return cluster.Node{}, unsafe("unknown", "no node %s is known", name)
}

// hosted returns the current member on a node, by the id on its disk, its name
// or its peer URLs.
func (c checker) hosted(n cluster.Node) (cluster.Member, bool) {
	for _, m := range c.obs.Members {
		if m.Name == n.Name || m.Name == "" && overlap(m.PeerURLs, n.URLs.Peer) || n.Disk.MemberID != 0 && n.Disk.MemberID == m.ID {
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

func (c checker) backup(step string) error {
	if !coversRisk(c.policy, c.obs) {
		return unsafe("backup", "%s without a backup of the last %s", step, c.policy.BackupFresh)
	}
	return nil
}

func (c checker) prepare(op *MemberPrepare) error {
	n, err := c.node(op.Node)
	if err != nil {
		return err
	}
	if n.Disk.State != cluster.DiskEmpty || n.Assigned != nil {
		return unsafe("founding", "%s has data or an assignment", op.Node)
	}
	return c.untouched(op.Token)
}

// untouched makes sure that nothing tells of an incarnation other than token.
func (c checker) untouched(token cluster.Token) error {
	for _, n := range c.obs.Nodes {
		if n.Disk.State == cluster.DiskData && n.Disk.Token != token || n.Disk.State == cluster.DiskUnreadable {
			return unsafe("founding", "node %s has data of another incarnation", n.Name)
		}
	}
	known := false
	for _, i := range c.obs.Store.Incarnations {
		known = known || i.Token == token
		if i.Token != token {
			return unsafe("founding", "incarnation %d has another token", i.Number)
		}
	}
	switch {
	case known:
		return nil
	case !c.obs.Store.Created.IsZero():
		return unsafe("founding", "the store has the marker of an earlier cluster")
	case len(c.obs.Store.Backups) > 0:
		return unsafe("founding", "the store has backups of an earlier cluster")
	case !c.obs.Store.Reachable || !c.obs.Store.BackupsKnown:
		return unsafe("founding", "the store cannot be read")
	}
	return nil
}

func (c checker) create(op *IncarnationCreate) error {
	if len(c.obs.Members) > 0 {
		if op.Token != c.obs.Token {
			return unsafe("founding", "a cluster with another token is running")
		}
		return nil
	}
	if err := c.untouched(op.Token); err != nil {
		return err
	}
	for _, s := range op.Voters {
		n, err := c.node(s.Name)
		if err != nil {
			return err
		}
		if !n.Reachable || n.Prepared == nil || n.Prepared.Token != op.Token {
			return unsafe("founding", "%s has not promised", s.Name)
		}
	}
	return nil
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
	m, member := c.hosted(n)
	switch op.Mode {
	case StartNew:
		if n.Disk.State != cluster.DiskData && (n.Prepared == nil || n.Prepared.Token != op.Token) {
			return unsafe("fresh-disk", "%s has not promised this founding", op.Node)
		}
		if !slices.ContainsFunc(c.obs.Store.Incarnations, func(i cluster.Incarnation) bool { return i.Token == op.Token }) {
			return unsafe("founding", "the incarnation has no record")
		}
	case StartJoin:
		if n.Disk.State == cluster.DiskEmpty && (!member || !m.Learner || m.Name != "") {
			return unsafe("fresh-disk", "%s has an empty disk and no learner that has never started", op.Node)
		}
	case StartRestart:
		if n.Disk.State != cluster.DiskData {
			return unsafe("fresh-disk", "%s has no data to start from", op.Node)
		}
	}
	return nil
}

// stop allows to stop what is no member, and a member that the quorum can
// spare.
func (c checker) stop(name cluster.NodeName) error {
	n, err := c.node(name)
	if err != nil {
		return err
	}
	m, member := c.hosted(n)
	if !member || n.Disk.MemberID != 0 && n.Disk.MemberID != m.ID || m.Learner || !m.Healthy {
		return nil
	}
	voters, _ := c.count(0)
	if _, left := c.count(m.ID); left < cluster.Quorum(voters) {
		return unsafe("quorum", "stopping %s would leave %d healthy voters of %d", name, left, voters)
	}
	return nil
}

func (c checker) addLearner(op *AddLearner) error {
	if err := c.expectVoters(op.ExpectVoters); err != nil {
		return err
	}
	n, err := c.node(op.Node)
	if err != nil {
		return err
	}
	for _, m := range c.obs.Members {
		if m.Learner {
			return unsafe("one-change", "member %s is still a learner", m.ID)
		}
	}
	if _, ok := c.hosted(n); ok {
		return unsafe("one-change", "%s already hosts a member", op.Node)
	}
	voters, healthy := c.count(0)
	if healthy < cluster.Quorum(voters) {
		return unsafe("quorum", "%d of %d voters are healthy", healthy, voters)
	}
	if n.Disk.State != cluster.DiskEmpty {
		return unsafe("live-data", "the disk of %s is not empty", op.Node)
	}
	return c.backup("adding a member")
}

func (c checker) promote(op *Promote) error {
	for _, m := range c.obs.Members {
		if m.Name != op.Name {
			continue
		}
		if !m.Learner {
			return nil // nothing to do
		}
		if err := c.expectVoters(op.ExpectVoters); err != nil {
			return err
		}
		if !m.Healthy {
			return unsafe("quorum", "%s is not healthy", op.Name)
		}
		if voters, healthy := c.count(0); healthy+1 < cluster.Quorum(voters+1) {
			return unsafe("quorum", "promoting %s would leave %d healthy voters of %d", op.Name, healthy+1, voters+1)
		}
		return nil
	}
	return &StaleError{Want: fmt.Sprintf("a learner %s", op.Name), Got: "none"}
}

func (c checker) remove(op *Remove) error {
	for _, m := range c.obs.Members {
		if m.ID != op.ID {
			continue
		}
		if m.Name != op.ExpectName {
			return &StaleError{Want: fmt.Sprintf("name %q", string(op.ExpectName)), Got: fmt.Sprintf("%q", string(m.Name))}
		}
		if err := c.expectVoters(op.ExpectVoters); err != nil {
			return err
		}
		if m.Learner {
			return nil
		}
		return c.removeVoter(m)
	}
	return nil // nothing to do
}

func (c checker) removeVoter(m cluster.Member) error {
	if m.ID == c.obs.Leader {
		return unsafe("quorum", "%s is the raft leader", m.Name)
	}
	for _, o := range c.obs.Members {
		if o.Learner {
			return unsafe("one-change", "member %s is still a learner", o.ID)
		}
	}
	left, healthy := c.count(m.ID)
	if left == 0 || healthy < cluster.Quorum(left) {
		return unsafe("quorum", "removing %s would leave %d healthy voters of %d", m.Name, healthy, left)
	}
	return c.backup("removing a voter")
}

func (c checker) moveLeader(op *MoveLeader) error {
	for _, m := range c.obs.Members {
		if m.Name == op.To {
			if m.Learner || !m.Healthy {
				return unsafe("quorum", "%s is not a healthy voter", op.To)
			}
			return nil
		}
	}
	return &StaleError{Want: fmt.Sprintf("a voter %s", op.To), Got: "none"}
}

func (c checker) electors(op *ElectorsWrite) error {
	have := c.obs.Electors
	if have.Token == op.Token && slices.Equal(have.Names, op.Names) {
		return nil // nothing to do
	}
	if have.Token == op.Token && !slices.Equal(have.Names, op.Expect) {
		return &StaleError{Want: names(op.Expect), Got: names(have.Names)}
	}
	if have.Token != op.Token || len(have.Names) == 0 {
		return nil
	}
	changed := 0
	for _, n := range op.Names {
		if !slices.Contains(have.Names, n) {
			changed++
		}
	}
	for _, n := range have.Names {
		if !slices.Contains(op.Names, n) {
			changed++
		}
	}
	if changed > 1 || len(op.Names) == 0 {
		return unsafe("electors", "the record may change by one name, not by %d", changed)
	}
	return nil
}

func (c checker) setAside(op *DataSetAside) error {
	n, err := c.node(op.Node)
	if err != nil {
		return err
	}
	if n.Process.State != cluster.ProcessStopped {
		return unsafe("live-data", "an etcd process runs on %s", op.Node)
	}
	if n.Disk.State == cluster.DiskData && (n.Disk.Token != op.Token || n.Disk.MemberID != op.ExpectMemberID) {
		return &StaleError{
			Want: fmt.Sprintf("data of member %s, incarnation %s", op.ExpectMemberID, op.Token),
			Got:  fmt.Sprintf("member %s, incarnation %s", n.Disk.MemberID, n.Disk.Token),
		}
	}
	if n.Disk.State != cluster.DiskData || n.Disk.Token != c.obs.Token {
		return nil
	}
	if len(c.obs.Members) == 0 {
		return unsafe("live-data", "the member list is not known, so the data of %s may be needed", op.Node)
	}
	m, member := c.hosted(n)
	if member && (n.Disk.MemberID == 0 || n.Disk.MemberID == m.ID) && m.Name != "" {
		return unsafe("live-data", "%s holds the data of current member %s", op.Node, m.ID)
	}
	return nil
}

func (c checker) prune(op *BackupPrune) error {
	newest := time.Time{}
	name := ""
	for _, b := range c.obs.Store.Backups {
		if b.At.After(newest) {
			newest, name = b.At, b.Name
		}
	}
	if name != "" && slices.Contains(op.Remove, name) {
		return unsafe("newest", "%s is the newest backup", name)
	}
	return nil
}
