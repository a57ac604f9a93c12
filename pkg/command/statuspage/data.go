package statuspage

import (
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/render"
)

// A Page is what the page shows, as JSON. Ages are in seconds, by the clock of the daemon
// that serves it.
type Page struct {
	Cluster string `json:"cluster"`
	// Node is the daemon that serves the page, Version that of its program.
	Node    cluster.NodeName `json:"node"`
	Version string           `json:"version"`
	// At is when the cluster was observed, Age how old that is, nil for never. From
	// StaleAge on it says nothing of the cluster as it is.
	At       time.Time `json:"at,omitzero"`
	Age      *float64  `json:"ageSeconds,omitempty"`
	StaleAge float64   `json:"staleAfterSeconds"`
	// Problem says why there is no newer observation.
	Problem string `json:"problem,omitempty"`

	Health      render.Health    `json:"health"`
	Because     []string         `json:"because"`
	State       string           `json:"state"`
	Spec        string           `json:"spec"`
	Coordinator string           `json:"coordinator"`
	Leader      cluster.NodeName `json:"leader,omitempty"`
	// Operation is what is being carried out, BackingUp a backup that is under way.
	Operation    string  `json:"operation,omitempty"`
	OperationAge float64 `json:"operationSeconds,omitempty"`
	BackingUp    string  `json:"backingUp,omitempty"`
	// Said is what the coordinator published last, where it is not this daemon.
	Said *Said `json:"published,omitempty"`

	Machines []Machine `json:"machines"`
	Members  []Member  `json:"members"`
	Links    []Link    `json:"links"`

	// Plan are the steps ahead as command lines, PlanProblem why there are none.
	Plan        []string             `json:"plan"`
	PlanProblem string               `json:"planProblem,omitempty"`
	Holds       []render.Explanation `json:"holds"`
	Failures    []string             `json:"failures"`
	Requests    []string             `json:"requests"`
	// Gaps are the sources that did not answer.
	Gaps []cluster.Gap `json:"gaps"`

	Backups  Backups `json:"backups"`
	TimeLine []Event `json:"timeLine"`
	// HistoryProblem says why the time line lacks the operations of the past.
	HistoryProblem string `json:"historyProblem,omitempty"`
	// HistoryNote says why it lacks something of what users asked for.
	HistoryNote string `json:"historyNote,omitempty"`
}

// Said reports what a coordinator published last.
type Said struct {
	By  cluster.NodeName `json:"by"`
	Age float64          `json:"ageSeconds"`
	// Counts says that By still coordinates, so that operation and holds are what it said.
	Counts bool `json:"counts"`
}

// A Machine is a node as the page shows it.
type Machine struct {
	Name    cluster.NodeName `json:"name"`
	Address string           `json:"address"`
	Answers bool             `json:"answers"`
	// LastSeen is how long ago its daemon answered last, nil for never. What follows is then
	// as old.
	LastSeen    *float64 `json:"lastSeenSeconds,omitempty"`
	Coordinator bool     `json:"coordinator,omitempty"`
	// Etcd is what its etcd does, Version the one that runs, Problem what is wrong.
	Etcd    string `json:"etcd,omitempty"`
	Version string `json:"version,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Data is what is on its disk, Disk how that takes writes, DiskBad that it does not.
	Data    string `json:"data,omitempty"`
	Disk    string `json:"disk,omitempty"`
	DiskBad bool   `json:"diskBad,omitempty"`
	Write   int64  `json:"diskWriteMicroseconds,omitempty"`
	Free    int64  `json:"freeBytes,omitempty"`
	Aside   int64  `json:"setAsideBytes,omitempty"`
	// Restore is how far it is with a restore.
	Restore string `json:"restore,omitempty"`
	// Certificate is when the first of its certificates ends, CertificateLeft how long that
	// is from now, negative for one that has expired.
	Certificate     time.Time `json:"certificateEnds,omitzero"`
	CertificateLeft *float64  `json:"certificateSeconds,omitempty"`
}

// A Member is a member of etcd as the page shows it.
type Member struct {
	ID      string           `json:"id"`
	Name    cluster.NodeName `json:"name"`
	Learner bool             `json:"learner,omitempty"`
	Leader  bool             `json:"leader,omitempty"`
	Healthy bool             `json:"healthy"`
	// State is its condition, Why what is wrong.
	State   string   `json:"state,omitempty"`
	Why     string   `json:"why,omitempty"`
	Version string   `json:"version,omitempty"`
	DBSize  int64    `json:"dbBytes,omitempty"`
	Alarms  []string `json:"alarms,omitempty"`
	// Behind is how many entries it has still to apply of those that are known to be
	// committed.
	Behind uint64 `json:"behindEntries,omitempty"`
}

// A Link says whether a machine reaches the peer port of a member.
type Link struct {
	From cluster.NodeName `json:"from"`
	To   cluster.NodeName `json:"to"`
	// State is up, down, or unknown: also where the observation is old or an end does not
	// answer. Why is what is wrong.
	State string  `json:"state"`
	Why   string  `json:"why,omitempty"`
	Down  float64 `json:"downSeconds,omitempty"`
}

// Backups is what is known of the backups in the store.
type Backups struct {
	Known bool `json:"known"`
	Count int  `json:"count"`
	// Problem says why the list is not known, or the store cannot be read.
	Problem string `json:"problem,omitempty"`
	// Newest, Verified and Drilled are how long ago the newest one was taken, and the last
	// one verified and restored for a trial; nil for never.
	Newest   *float64 `json:"newestSeconds,omitempty"`
	Verified *float64 `json:"verifiedSeconds,omitempty"`
	Drilled  *float64 `json:"drilledSeconds,omitempty"`
}

// An Event is one thing on the time line.
type Event struct {
	At  time.Time `json:"at"`
	Age float64   `json:"ageSeconds"`
	// Kind is operation or backup.
	Kind string `json:"kind"`
	Text string `json:"text"`
	// Detail is why and by whom, or what is known of a backup.
	Detail string `json:"detail,omitempty"`
	// Problem is how it failed, or what is wrong with it.
	Problem string  `json:"problem,omitempty"`
	Bytes   int64   `json:"bytes,omitempty"`
	Took    float64 `json:"tookSeconds,omitempty"`
}
