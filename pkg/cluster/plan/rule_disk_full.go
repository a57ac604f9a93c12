package plan

import (
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// logFile is the size of the files that etcd makes for its log, before it writes
// to them (SegmentSizeBytes in etcd's server/storage/wal). It ends where it
// cannot make one.
const logFile = 64 << 20

// logRoom is what a member needs free at any time: its next log file, and beside
// it a raft snapshot and what the database grows by until somebody has made room.
const logRoom = logFile + 16<<20

// short reports whether m runs, and its disk has no room for etcd's next log file.
// It serves until it needs that.
func (l *view) short(m cluster.Member) bool {
	n := l.nodeOf(m)
	return n != nil && n.Reachable && n.Process.State == cluster.ProcessRunning && n.FreeBytes > 0 && n.FreeBytes < logRoom
}

// full reports whether n's etcd crashes because its disk is full.
func full(n *cluster.Node) bool {
	if !n.Reachable || n.Process.State != cluster.ProcessCrashing || n.FreeBytes == 0 {
		return false
	}
	says := func(line string) bool { return strings.Contains(line, "no space left on device") }
	return n.FreeBytes < logFile || says(n.Process.LastExit) || slices.ContainsFunc(n.Process.LastLines, says)
}

// holdShort reports a disk on which etcd will end.
func (l *view) holdShort(n *cluster.Node) {
	l.hold(DiskFull, "%s (%s): its disk has %d MiB free, and etcd ends if it cannot allocate its next log file (%d MiB, "+
		"plus a reserve of %d MiB); "+
		"make room there, or start a spare node and stop this one", n.Name, n.Address, n.FreeBytes>>20, logFile>>20,
		(logRoom-logFile)>>20)
}

// holdFull reports a disk on which etcd has ended.
func (l *view) holdFull(n *cluster.Node) {
	l.hold(DiskFull, "%s (%s): etcd crashes, and its disk has %d bytes free of the %d that a log file takes; "+
		"make room there, "+
		"and etcd starts again on its own data", n.Name, n.Address, n.FreeBytes, int64(logFile))
}
