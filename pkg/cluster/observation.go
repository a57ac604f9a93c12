package cluster

import (
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// An Answer is what a daemon knows about its own machine: one node's part of an
// observation.
type Answer struct {
	Node Node `json:"node"`
	// Report is what the node's etcd says, nil where none answers.
	Report *Report `json:"report,omitempty"`
	// Now is the node's clock when it answered.
	Now time.Time `json:"now"`
	// Known is what it knows of the others, nil where the caller is one of them, and
	// from daemons that do not report.
	Known *Known `json:"known,omitempty"`
}

// An Observation is one observation of everything, at one time, by one node. Slices
// are sorted as their comments say, so that equal worlds are equal values.
type Observation struct {
	// Cluster is the name of the cluster.
	Cluster string `json:"cluster"`
	// At is when the observation was taken, by the observer's clock.
	At time.Time `json:"at"`
	// Observer is the node that observed; empty for a person's command.
	Observer NodeName `json:"observer,omitempty"`
	// Since is when the observer began to observe, in this run of its daemon.
	Since time.Time `json:"since,omitzero"`
	// Nonce is a fresh random token, for the plan to use where one is needed.
	Nonce Token `json:"nonce,omitempty"`
	// Token is the incarnation that Members belong to; where no member
	// answered, the newest one that a record or a disk reports.
	Token Token `json:"token,omitempty"`

	// Nodes holds every known machine, by name.
	Nodes []Node `json:"nodes"`
	// Members is etcd's member list as its quorum sees it, by name and then id.
	// It is empty when no member answered.
	Members []Member `json:"members"`
	// Leader is etcd's raft leader, zero when there is none.
	Leader MemberID `json:"leader,omitempty"`
	// Revision is the highest revision that a member reported.
	Revision Revision `json:"revision,omitempty"`
	// ClusterVersion is the highest cluster version that a member reported, zero where
	// none did.
	ClusterVersion etcdversion.Version `json:"clusterVersion,omitzero"`
	// Downgrade is the version to which etcd lets the cluster be downgraded now, zero
	// where it does not. Only members of 3.6 and later report.
	Downgrade etcdversion.Version `json:"downgrade,omitzero"`
	// Views holds what each answering member says by itself, by member id.
	Views []View `json:"views,omitempty"`

	// LeaseVoters is the newest lease voter record found on any node's disk.
	LeaseVoters LeaseVoters `json:"leaseVoters"`
	// Store is what the control store says.
	Store Store `json:"store"`
	// Gaps are the sources that did not answer, by source.
	Gaps []Gap `json:"gaps,omitempty"`
	// Failures are the operations that failed lately.
	Failures []Failure `json:"failures,omitempty"`
	// BackingUp is the command line of a backup that is under way, empty for
	// none.
	BackingUp string `json:"backingUp,omitempty"`
}

// A Failure is an operation that failed and is not to be tried yet.
type Failure struct {
	// Line is its command line.
	Line  string    `json:"line"`
	Text  string    `json:"text"`
	Retry time.Time `json:"retry"`
	// Transient says that the reason clears by itself within seconds: etcd
	// refuses changes while a member has not been connected for long enough.
	Transient bool `json:"transient,omitempty"`
}

// A Member is an entry of etcd's member list, with how it does.
type Member struct {
	ID MemberID `json:"id"`
	// Name is empty until the member has started for the first time.
	Name       NodeName `json:"name,omitempty"`
	PeerURLs   []string `json:"peerURLs"`
	ClientURLs []string `json:"clientURLs,omitempty"`
	Learner    bool     `json:"learner,omitempty"`
	// Healthy says that the member counts for a majority: it follows the leader,
	// serves reads through the quorum (a moment ago at the latest), has a disk that
	// takes writes, and no alarm that stops it.
	Healthy bool `json:"healthy"`
	// Condition is how it does, empty where the source does not report; Why is what
	// is wrong, empty for nothing.
	Condition Condition `json:"condition,omitempty"`
	Why       string    `json:"why,omitempty"`
	// Served says that it answered a read through the quorum, in this observation and
	// with the leader of the others: a majority of the voters took part.
	Served bool `json:"served,omitempty"`
	// LateSince is since when it serves no read through the quorum, or does not
	// follow, although it answers; zero where it does.
	LateSince time.Time `json:"lateSince,omitzero"`
	// UnhealthySince is when it was first seen unhealthy without a healthy observation
	// in between, zero when healthy.
	UnhealthySince time.Time `json:"unhealthySince,omitzero"`
	// LearnerSince is when it was first seen as a learner.
	LearnerSince time.Time `json:"learnerSince,omitzero"`
	// Applied is the raft index that it has applied, Committed the one that it
	// knows to be committed.
	Applied   uint64 `json:"applied,omitempty"`
	Committed uint64 `json:"committed,omitempty"`
	// DBSize is the size of its database, in bytes.
	DBSize int64 `json:"dbSize,omitempty"`
	// Alarms are etcd's alarms for it: NOSPACE, CORRUPT.
	Alarms []string `json:"alarms,omitempty"`
	// Version is what its process says that it is, zero where it did not answer.
	Version etcdversion.Version `json:"version,omitzero"`
	// Storage is the version of its storage format, zero where it does not report:
	// before etcd 3.6.
	Storage etcdversion.Version `json:"storage,omitzero"`
}

// A View is what one member says by itself about its cluster.
type View struct {
	Member    MemberID   `json:"member"`
	ClusterID ClusterID  `json:"clusterID"`
	Leader    MemberID   `json:"leader,omitempty"`
	RaftTerm  uint64     `json:"raftTerm"`
	Members   []MemberID `json:"members"`
	Revision  Revision   `json:"revision"`
}

// LeaseVoters are the nodes whose majority makes a coordinator: the hosts of the
// voters of one incarnation. Records are ordered by Term, then Seq.
type LeaseVoters struct {
	Token Token `json:"token,omitempty"`
	// Term is the term in which the record was made, Seq counts within it.
	Term  Term       `json:"term,omitempty"`
	Seq   uint64     `json:"seq,omitempty"`
	Names []NodeName `json:"names,omitempty"`
}

// A Lease is the right of one daemon, in one term, to change the cluster.
type Lease struct {
	Term   Term     `json:"term,omitempty"`
	Holder NodeName `json:"holder,omitempty"`
	// Released says that the holder gave it back. Nobody else gets the same term,
	// and who has voted in it obeys nobody else's order of it.
	Released bool `json:"released,omitempty"`
	// Running says that the node's grant has not run out: the holder may still act.
	Running bool `json:"running,omitempty"`
}

// MarkerUnknown is the time of the marker in a store with so many objects that it is
// unknown whether the marker is there. It counts as present, from before all that a request
// could ask for, and says nothing of when a coordinator was at work.
var MarkerUnknown = time.Unix(1, 0).UTC()

// Store is what the control store says.
type Store struct {
	// Reachable says that this observation could read the store. Where it could not,
	// the rest is what it said last.
	Reachable bool `json:"reachable"`
	// Location is where the observer has it, for people, without secrets.
	Location string `json:"location,omitempty"`
	// SpecMissing says that the store answered and holds no spec.
	SpecMissing bool `json:"specMissing,omitempty"`
	// SpecProblem says why the spec in the store cannot be understood.
	SpecProblem string `json:"specProblem,omitempty"`
	// Created is the time in the marker etcd-cluster-created, zero for none, and
	// [MarkerUnknown] where that is unknown.
	Created time.Time `json:"created,omitzero"`
	// Incarnations are the incarnation records, by number.
	Incarnations []Incarnation `json:"incarnations,omitempty"`
	// RecordsProblem says which incarnation records cannot be understood, and
	// why. Incarnations is then incomplete.
	RecordsProblem string `json:"recordsProblem,omitempty"`
	// Backups are the complete backups, newest first.
	Backups []Backup `json:"backups,omitempty"`
	// Leftovers are the names of backups that were broken off long ago.
	Leftovers []string `json:"leftovers,omitempty"`
	// BackupsKnown says that the list of backups has been read to its end at least
	// once, BackupsRead when that was last, by the observer's clock.
	BackupsKnown bool      `json:"backupsKnown,omitempty"`
	BackupsRead  time.Time `json:"backupsRead,omitzero"`
	// BackupsProblem says why the list is not known, how far the reading of it is, or
	// what it does not have.
	BackupsProblem string `json:"backupsProblem,omitempty"`
	// NewestSeen is the name of the newest backup that the observer has seen in the
	// store, now or before, empty for none.
	NewestSeen string `json:"newestSeen,omitempty"`
	// Uncounted are folders that look like backups and are not counted, newest
	// first.
	Uncounted []Uncounted `json:"uncounted,omitempty"`
	// Requests are the operator's queued requests, oldest first.
	Requests []Request `json:"requests,omitempty"`
	// Source is what is known of the backup that the first queued restore asks
	// for, nil as long as it has not been read.
	Source *Source `json:"source,omitempty"`
	// Revision is the store's high-water mark: no revision above it was ever
	// seen by a coordinator.
	Revision Revision `json:"revision,omitempty"`
	// RevisionProblem says why the mark cannot be understood: nothing may be
	// restored by it then.
	RevisionProblem string `json:"revisionProblem,omitempty"`
	// Problems are objects in the store that could not be understood.
	Problems []string `json:"problems,omitempty"`
}

// An Incarnation is one life of a cluster: from bootstrap or restore until the
// next restore.
type Incarnation struct {
	Number  int                 `json:"number"`
	Token   Token               `json:"token"`
	Version etcdversion.Version `json:"version"`
	Voters  []InitialMember     `json:"voters"`
	At      time.Time           `json:"at"`
	By      NodeName            `json:"by"`
	// Restored says what its data is from, nil for a cluster that began empty.
	Restored *Restored `json:"restored,omitempty"`
}

// A RequestKind names what a request asks for.
type RequestKind string

// The request kinds.
const (
	// RequestPause asks the coordinator to leave the cluster alone.
	RequestPause RequestKind = "pause"
	// RequestBackup asks for one backup now. It is fulfilled by one that is not
	// older than the request.
	RequestBackup RequestKind = "backup"
	// RequestRestore asks for a restore.
	RequestRestore RequestKind = "restore"
	// RequestLeaseVoters asks to make the voters of a cluster that serves its lease voters,
	// where no majority of the recorded ones can ever grant a lease again.
	RequestLeaseVoters RequestKind = "recover-lease-voters"
)

// A Request is an operator's queued request.
type Request struct {
	Name string      `json:"name"`
	Kind RequestKind `json:"kind"`
	At   time.Time   `json:"at"`
	// Reason is what the operator said; By is who.
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
	// Backup is the name of the backup to restore.
	Backup string `json:"backup,omitempty"`
	// Sealed is for a restore of what runs now, as EtcdVersion, for which nothing is
	// acknowledged and then lost: clients are kept away from all members before the backup
	// is taken, which has the reason [Request.BackupReason]. Backup is empty in the queue,
	// and in a plan the name of that backup.
	Sealed bool `json:"sealed,omitempty"`
	// MemberCount and EtcdVersion are what the restored cluster is to be, zero for
	// what the spec says.
	MemberCount int                 `json:"memberCount,omitempty"`
	EtcdVersion etcdversion.Version `json:"etcdVersion,omitzero"`
	// SkipBackup asks for no last backup of what runs.
	SkipBackup bool `json:"skipBackup,omitempty"`
	// Lost are the nodes that the operator declares to be gone for good: neither a
	// restore nor the recovery of the lease voters waits for their votes.
	Lost []NodeName `json:"lost,omitempty"`
}

// A Gap is a source that did not answer.
type Gap struct {
	// Source names it: "node c", "store", "member 8e9e05c52164694d".
	Source string `json:"source"`
	Text   string `json:"text"`
}
