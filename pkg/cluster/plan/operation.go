package plan

import (
	"fmt"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// An Operation is one step that changes the world. It is exactly one etcdadm
// command line, see [Argv] and [Parse]; its fields are the flags of that
// command and nothing else. Each operation is a pointer to one of the structs
// listed in [Kinds].
type Operation interface {
	// kind finds the operation's entry in the list of kinds. It is unexported so
	// that nothing outside this package can add a verb.
	kind() string
}

// An Order is an operation for one node, with what shows that its sender may give it.
type Order struct {
	Operation Operation
	// Term is the term of the coordinator's lease. Holder is the coordinator, or the
	// person who has the lease.
	Term   cluster.Term
	Holder cluster.NodeName
	// LeaseVoters is the finished record of that lease. A node that joins begins with it.
	LeaseVoters cluster.LeaseVoters
	// ID names the order. It is the same each time that the holder sends it, as it does
	// where it has not heard how the order ended.
	ID string
}

// StartMode says on what ground a member may start.
type StartMode string

// The start modes.
const (
	// StartNew: a bootstrap voter that has promised and has never started.
	StartNew StartMode = "new"
	// StartJoin: a learner that has never started, on an empty disk.
	StartJoin StartMode = "join"
	// StartRestart: a member whose own data is on the disk.
	StartRestart StartMode = "restart"
)

// MemberPrepare makes a node promise to take part in a bootstrap.
type MemberPrepare struct {
	Node    cluster.NodeName        `flag:"node" doc:"node that promises"`
	Token   cluster.Token           `flag:"token" doc:"cluster token of the new incarnation"`
	Version etcdversion.Version     `flag:"version" doc:"etcd version to run"`
	Voters  []cluster.InitialMember `flag:"voter" doc:"bootstrap voter, NAME=PEER-URL,PEER-URL (repeatable)"`
}

// IncarnationCreate writes an incarnation record, only if there is none of
// that number. It decides between two bootstraps.
type IncarnationCreate struct {
	Number  int                     `flag:"number" doc:"number of the incarnation, from 1"`
	Token   cluster.Token           `flag:"token" doc:"cluster token of the incarnation"`
	Version etcdversion.Version     `flag:"version" doc:"etcd version at bootstrap"`
	Voters  []cluster.InitialMember `flag:"voter" doc:"bootstrap voter, NAME=PEER-URL,PEER-URL (repeatable)"`
	// The rest is for an incarnation that begins with restored data.
	Request  string             `flag:"request" doc:"request that asked for the restore"`
	Backup   string             `flag:"backup" doc:"backup that the voters have restored"`
	Revision cluster.Revision   `flag:"revision" doc:"revision that it begins with"`
	Before   []cluster.NodeName `flag:"before" doc:"lease voter of the previous incarnation that is not lost (repeatable)"`
}

// RestoreStage has a node fetch a backup and make a data directory of it,
// beside what it runs.
type RestoreStage struct {
	Node     cluster.NodeName        `flag:"node" doc:"node that restores"`
	Request  string                  `flag:"request" doc:"request that asks for the restore"`
	Backup   string                  `flag:"backup" doc:"backup to restore"`
	Token    cluster.Token           `flag:"token" doc:"cluster token of the new incarnation"`
	Version  etcdversion.Version     `flag:"version" doc:"etcd version to run"`
	Revision cluster.Revision        `flag:"revision" doc:"revision that the restored cluster begins with"`
	Voters   []cluster.InitialMember `flag:"voter" doc:"bootstrap voter, NAME=PEER-URL,PEER-URL (repeatable)"`
	Lost     []cluster.NodeName      `flag:"lost" doc:"node that is gone for good (repeatable)"`
	// Replaces is empty where the node has nothing staged. An order that comes late
	// must not take the place of what a later one has staged: its record may be there.
	Replaces cluster.Token `flag:"replaces" doc:"incarnation whose staged data on the node is replaced"`
}

// RestoreSwitch has a node leave the incarnation that it runs for the restored
// one.
type RestoreSwitch struct {
	Node        cluster.NodeName `flag:"node" doc:"node that switches"`
	Token       cluster.Token    `flag:"token" doc:"cluster token of the restored incarnation"`
	ExpectToken cluster.Token    `flag:"expect-token" doc:"incarnation that the node must be running"`
}

// RestoreDiscard deletes what a node has staged for a restore that does not
// take place.
type RestoreDiscard struct {
	Node  cluster.NodeName `flag:"node" doc:"node that staged"`
	Token cluster.Token    `flag:"token" doc:"cluster token of the restore"`
}

// Outcome says how a request ended.
type Outcome string

// The outcomes.
const (
	// OutcomeDone: what was asked for has happened.
	OutcomeDone Outcome = "done"
	// OutcomeRefused: it cannot be done; the reason is kept in the store.
	OutcomeRefused Outcome = "refused"
)

// RequestClose takes a request out of the queue.
type RequestClose struct {
	Name    string  `flag:"name" doc:"request"`
	Outcome Outcome `flag:"outcome" doc:"done or refused"`
	Reason  string  `flag:"reason" doc:"the outcome in words"`
}

// IncarnationMark writes the marker that says a cluster exists.
type IncarnationMark struct {
	Token cluster.Token `flag:"token" doc:"cluster token of the running incarnation"`
}

// SpecWrite writes the spec that the nodes remember into a store that has
// none, or the one that a restore asks for.
type SpecWrite struct {
	MemberCount int                 `flag:"member-count" doc:"number of voters"`
	EtcdVersion etcdversion.Version `flag:"etcd-version" doc:"etcd version"`
	Request     string              `flag:"request" doc:"restore that needs it; without this flag the store must have no spec"`
}

// MemberStart starts a node's etcd process.
type MemberStart struct {
	Node    cluster.NodeName        `flag:"node" doc:"node to start etcd on"`
	Token   cluster.Token           `flag:"token" doc:"cluster token of the incarnation"`
	Mode    StartMode               `flag:"mode" doc:"new (bootstrap voter), join (fresh learner) or restart (own data on disk)"`
	Version etcdversion.Version     `flag:"version" doc:"etcd version to run"`
	Peers   []cluster.InitialMember `flag:"peer" doc:"member of the cluster, NAME=PEER-URL,PEER-URL (repeatable)"`
	// AcceptData is for a person: it forgets what a comparison found against the
	// member's data. The member is compared again.
	AcceptData cluster.MemberID `flag:"accept-data" doc:"start the member with this ID although its data differs from that of the others; it is compared again"`
}

// MemberStop stops a node's etcd process and keeps it stopped.
type MemberStop struct {
	Node           cluster.NodeName `flag:"node" doc:"node to stop etcd on"`
	ExpectToken    cluster.Token    `flag:"expect-token" doc:"incarnation that the node must be running"`
	ExpectMemberID cluster.MemberID `flag:"expect-member-id" doc:"member that the node must be, 0 if it does not know"`
}

// MemberChangeVersion has a node run its member with another etcd version. The
// node itself sees it through: where the new version does not come up, it goes
// back to the old one.
type MemberChangeVersion struct {
	Node           cluster.NodeName    `flag:"node" doc:"node whose member changes"`
	ExpectToken    cluster.Token       `flag:"expect-token" doc:"incarnation that the node must be running"`
	ExpectMemberID cluster.MemberID    `flag:"expect-member-id" doc:"member that the node must be"`
	ExpectVersion  etcdversion.Version `flag:"expect-version" doc:"etcd version that the node must be running"`
	To             etcdversion.Version `flag:"to" doc:"etcd version to run"`
	// AcceptRisk is why the operator wants it despite AcceptHazards, which are in
	// the members' data, or not proved absent. The spec has to say the same.
	AcceptRisk    string               `flag:"accept-version-risk" doc:"why the hazards are accepted; the spec must accept the risk of its version"`
	AcceptHazards []cluster.HazardKind `flag:"accept-hazard" doc:"hazard that is in the members' data, or not proved absent (repeatable)"`
}

// MemberForceSnapshot has a node's member take a raft snapshot, so that its log has
// no entries left behind it that the next minor version cannot read.
type MemberForceSnapshot struct {
	Node           cluster.NodeName `flag:"node" doc:"node whose member takes a raft snapshot"`
	ExpectToken    cluster.Token    `flag:"expect-token" doc:"incarnation that the node must be running"`
	ExpectMemberID cluster.MemberID `flag:"expect-member-id" doc:"member that the node must be"`
}

// MemberDrain has a node's member take no more requests of clients, finish those that it has
// begun, and go on voting for a few seconds, in which it is removed. Then its process ends, and
// where it has not been removed, its node starts it again.
type MemberDrain struct {
	Node           cluster.NodeName `flag:"node" doc:"node whose member is drained"`
	ExpectToken    cluster.Token    `flag:"expect-token" doc:"incarnation that the node must be running"`
	ExpectMemberID cluster.MemberID `flag:"expect-member-id" doc:"member that the node must be"`
}

// DowngradeEnable has etcd prepare the cluster, and each member's data, for an earlier
// minor version.
type DowngradeEnable struct {
	To                   etcdversion.Version `flag:"to" doc:"minor version to downgrade to, such as 3.5.0"`
	ExpectClusterVersion etcdversion.Version `flag:"expect-cluster-version" doc:"cluster version that is expected, such as 3.6.0"`
}

// DowngradeCancel ends a downgrade that is under way: members of the earlier version
// change to the later one again.
type DowngradeCancel struct {
	ExpectTo etcdversion.Version `flag:"expect-to" doc:"target that the running downgrade must have, such as 3.5.0"`
}

// AddLearner adds a node's member to the cluster, without a vote.
type AddLearner struct {
	Node         cluster.NodeName `flag:"node" doc:"node that will run the member"`
	PeerURLs     []string         `flag:"peer-url" doc:"peer URL of the member (repeatable)"`
	ExpectVoters int              `flag:"expect-voters" doc:"number of voters that the cluster must have"`
}

// Promote gives a learner its vote.
type Promote struct {
	Name         cluster.NodeName `flag:"name" doc:"learner to promote"`
	ExpectVoters int              `flag:"expect-voters" doc:"number of voters that the cluster must have"`
	// AcceptUnreached is for a person. The majority is checked all the same.
	AcceptUnreached []cluster.NodeName `flag:"accept-unreached" doc:"voter that the learner need not reach at a peer port, nor be reached by (repeatable)"`
}

// Remove takes a member out of the cluster.
type Remove struct {
	ID           cluster.MemberID `flag:"id" doc:"member to remove"`
	ExpectName   cluster.NodeName `flag:"expect-name" doc:"name that the member must have, empty if it never started"`
	ExpectVoters int              `flag:"expect-voters" doc:"number of voters that the cluster must have"`
}

// MemberUpdate has etcd look for a member at other peer URLs.
type MemberUpdate struct {
	ID             cluster.MemberID `flag:"id" doc:"member whose peer URLs change"`
	PeerURLs       []string         `flag:"peer-url" doc:"peer URL of its node (repeatable)"`
	ExpectPeerURLs []string         `flag:"expect-peer-url" doc:"peer URL that etcd has on record (repeatable)"`
}

// MoveLeader makes another voter the raft leader.
type MoveLeader struct {
	To cluster.NodeName `flag:"to" doc:"voter that becomes the leader"`
}

// LeaseVotersWrite records on the lease voters' disks who they are, after the voters
// have changed.
type LeaseVotersWrite struct {
	Token  cluster.Token      `flag:"token" doc:"cluster token of the incarnation"`
	Names  []cluster.NodeName `flag:"name" doc:"node that hosts a voter (repeatable)"`
	Expect []cluster.NodeName `flag:"expect" doc:"node in the present record (repeatable)"`
}

// LeaseVotersRecover makes the voters of a cluster that serves its lease voters, on one
// node's disk, where no majority of the recorded lease voters is left.
type LeaseVotersRecover struct {
	Node   cluster.NodeName   `flag:"node" doc:"voter's node that records it"`
	Token  cluster.Token      `flag:"token" doc:"cluster token of the incarnation"`
	Term   cluster.Term       `flag:"term" doc:"term of the new record, above every term seen"`
	Names  []cluster.NodeName `flag:"name" doc:"node that hosts a voter (repeatable)"`
	Expect []cluster.NodeName `flag:"expect" doc:"node in the newest known record (repeatable)"`
	Lost   []cluster.NodeName `flag:"lost" doc:"node that is gone for good, or has lost its record (repeatable)"`
}

// LeaseVotersAdopt makes a node a lease voter of a cluster that is taken over from the
// existing etcd-manager, by the record of the incarnation in the store.
type LeaseVotersAdopt struct {
	Node  cluster.NodeName   `flag:"node" doc:"voter's node that adopts it"`
	Token cluster.Token      `flag:"token" doc:"cluster token of the incarnation"`
	Names []cluster.NodeName `flag:"name" doc:"voter in the record of the incarnation (repeatable)"`
}

// DataSetAside moves a node's etcd data out of the way, and clears the node's
// assignment.
type DataSetAside struct {
	Node           cluster.NodeName `flag:"node" doc:"node whose data moves"`
	Token          cluster.Token    `flag:"token" doc:"incarnation whose data is expected"`
	ExpectMemberID cluster.MemberID `flag:"expect-member-id" doc:"member whose data is expected, 0 if the node does not know"`
}

// DataDiscard deletes data that was set aside.
type DataDiscard struct {
	Node cluster.NodeName `flag:"node" doc:"node that keeps the data"`
	Name string           `flag:"name" doc:"name of the set-aside directory"`
	// ExpectAt distinguishes a directory from a later one of the same name.
	ExpectAt Moment `flag:"expect-at" doc:"time at which it was set aside"`
}

// A Moment is a time in the form of RFC 3339, in UTC: one of its spellings only,
// so that equal moments are equal values.
type Moment string

// MomentOf returns t as a moment.
func MomentOf(t time.Time) Moment { return Moment(t.UTC().Format(time.RFC3339Nano)) }

// Validate reports what is wrong with the form of m.
func (m Moment) Validate() error {
	t, err := time.Parse(time.RFC3339Nano, string(m))
	if err != nil || MomentOf(t) != m {
		return fmt.Errorf("%q is not a time such as 2026-11-20T10:39:37Z, in UTC", string(m))
	}
	return nil
}

// QuarantineSet keeps clients away from a node's member.
type QuarantineSet struct {
	Node cluster.NodeName `flag:"node" doc:"node whose member is closed to clients"`
}

// QuarantineLift opens a node's member to clients.
type QuarantineLift struct {
	Node cluster.NodeName `flag:"node" doc:"node whose member is opened to clients"`
	// ExpectRevision is for the first member of a restored cluster that is opened.
	ExpectRevision cluster.Revision `flag:"expect-revision" doc:"all members must have the same data, at this revision or later"`
}

// BackupTake writes a backup to the store.
type BackupTake struct {
	Node   cluster.NodeName `flag:"node" doc:"node whose member is read"`
	Reason string           `flag:"reason" doc:"why: interval, request, or before-STEP"`
}

// BackupVerify reads a backup to its end and checks all of it.
type BackupVerify struct {
	Node cluster.NodeName `flag:"node" doc:"node that reads it"`
	Name string           `flag:"name" doc:"backup"`
}

// BackupDrill restores a backup for a trial, beside what runs.
type BackupDrill struct {
	Node cluster.NodeName `flag:"node" doc:"node that restores it"`
	Name string           `flag:"name" doc:"backup"`
}

// BackupPrune deletes backups that the retention rules let go, and what was left
// of some that were broken off.
type BackupPrune struct {
	Remove []string `flag:"remove" doc:"backup to delete (repeatable)"`
}

func (*MemberPrepare) kind() string       { return "member prepare" }
func (*IncarnationCreate) kind() string   { return "incarnation create" }
func (*IncarnationMark) kind() string     { return "incarnation mark" }
func (*SpecWrite) kind() string           { return "spec write" }
func (*RestoreStage) kind() string        { return "restore stage" }
func (*RestoreSwitch) kind() string       { return "restore switch" }
func (*RestoreDiscard) kind() string      { return "restore discard" }
func (*RequestClose) kind() string        { return "request close" }
func (*MemberStart) kind() string         { return "member start" }
func (*MemberStop) kind() string          { return "member stop" }
func (*MemberChangeVersion) kind() string { return "member change-version" }
func (*MemberForceSnapshot) kind() string { return "member force-snapshot" }
func (*MemberDrain) kind() string         { return "member drain" }
func (*DowngradeEnable) kind() string     { return "downgrade enable" }
func (*DowngradeCancel) kind() string     { return "downgrade cancel" }
func (*AddLearner) kind() string          { return "member add-learner" }
func (*Promote) kind() string             { return "member promote" }
func (*Remove) kind() string              { return "member remove" }
func (*MemberUpdate) kind() string        { return "member update" }
func (*MoveLeader) kind() string          { return "member move-leader" }
func (*LeaseVotersWrite) kind() string    { return "lease-voters write" }
func (*LeaseVotersRecover) kind() string  { return "lease-voters recover" }
func (*LeaseVotersAdopt) kind() string    { return "lease-voters adopt" }
func (*DataSetAside) kind() string        { return "data set-aside" }
func (*DataDiscard) kind() string         { return "data discard" }
func (*QuarantineSet) kind() string       { return "quarantine set" }
func (*QuarantineLift) kind() string      { return "quarantine lift" }
func (*BackupTake) kind() string          { return "backup take" }
func (*BackupVerify) kind() string        { return "backup verify" }
func (*BackupDrill) kind() string         { return "backup drill" }
func (*BackupPrune) kind() string         { return "backup prune" }
