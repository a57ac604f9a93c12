// Package harness runs whole clusters of daemons as real processes on one
// machine, for the end-to-end tests, the demonstration and the benchmarks.
//
// A [Cluster] has one control store and any number of nodes. Each node is one
// etcd-manager process with a data directory and an address of its own in
// 127.0.0.0/8, so that all use the same ports and clusters never meet; or it
// lives in a network namespace of its own, see [Net]. Nodes can be stopped,
// killed, paused and robbed of their disks.
//
// While a cluster lives, it is watched, and [Cluster.Close] reports what must
// never be: members that belong to different clusters, two raft leaders in one
// term, two coordinators in one term, a write that was acknowledged and lost, a
// process that outlives its cluster.
package harness

import "time"

// T is what the harness needs of a test. *testing.T is one.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	// Fatalf does not return.
	Fatalf(format string, args ...any)
	Failed() bool
	Cleanup(func())
}

// The deadlines of the harness. They are for machines that are slow because
// they do other things, not for good daemons.
const (
	// Soon is for what takes a healthy cluster a few seconds.
	Soon = 4 * time.Minute
	// stopTime is how long a daemon may take to end after SIGTERM.
	stopTime = time.Minute
	// askTime bounds one question to etcd.
	askTime = 3 * time.Second
	// pollTime is the pause between two observations.
	pollTime = 50 * time.Millisecond
)
