// Package hazards checks a member's data directory for what the next minor
// version of etcd cannot run with.
//
// It reads files and changes none, neither those of a stopped member nor those of
// a running one. What is read of a running one is a state that has been on its disk:
// the database is read by one of its transactions, and then the log, which is
// written before the database and may end within a record.
//
// What is proved absent is absent at the time of the check. A running 3.5 may take
// new keys into its v2 store if it was configured to (--enable-v2).
package hazards

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
)

// tries is how often data is read that changes meanwhile.
const tries = 3

// Files names the files of the log and of the raft snapshots. Each snapshot, and each
// 64 MB of the log, is a new one: what was found in others may hold no more.
func Files(d datadir.Dir) string {
	logs, _ := filesOf(d.Log(), ".wal")
	snaps, _ := filesOf(d.Snap(), ".snap")
	return strings.Join(append(logs, snaps...), " ")
}

// Examine returns what there is of each kind of hazard. What cannot be read is
// unknown, and never an error.
func Examine(d datadir.Dir) []cluster.Hazard {
	var f findings
	var err error
	for range tries {
		if f, err = examine(d); err == nil {
			break
		}
	}
	if err != nil {
		return unknown(err)
	}
	return f.hazards()
}

func unknown(err error) []cluster.Hazard {
	var list []cluster.Hazard
	for _, h := range cluster.NoHazards() {
		list = append(list, cluster.Hazard{Kind: h.Kind, State: cluster.HazardUnknown, What: err.Error()})
	}
	return list
}

// findings are what was read of a directory.
type findings struct {
	// keys are those of the v2 store, deleted says that the log deletes them all.
	keys    []string
	deleted bool
	// differ says how the lists of members differ.
	differ []string
	// refused and old are requests in the log behind the last snapshot.
	refused, old []request
}

func (f findings) hazards() []cluster.Hazard {
	var list []cluster.Hazard
	add := func(kind cluster.HazardKind, present bool, format string, args ...any) {
		h := cluster.Hazard{Kind: kind, State: cluster.HazardAbsent}
		if present {
			h.State, h.What = cluster.HazardPresent, fmt.Sprintf(format, args...)
		}
		list = append(list, h)
	}
	add(cluster.HazardV2Content, len(f.keys) > 0, "%d keys of the v2 store: %s", len(f.keys), some(f.keys, len(f.keys)))
	if f.deleted {
		list[0].Deleted, list[0].What = true, list[0].What+"; all deleted since the last raft snapshot"
	}
	add(cluster.HazardMembers, len(f.differ) > 0, "%s", some(f.differ, len(f.differ)))
	for kind, log := range map[cluster.HazardKind][]request{
		cluster.HazardV2Log: f.refused, cluster.HazardOldLog: f.old,
	} {
		var words []string
		for _, r := range log[:min(len(log), maxNamed)] {
			words = append(words, r.String())
		}
		add(kind, len(log) > 0, "%d requests of the v2 store after the last raft snapshot: %s", len(log),
			some(words, len(log)))
	}
	slices.SortFunc(list, func(a, b cluster.Hazard) int { return cmp.Compare(a.Kind, b.Kind) })
	return list
}

// maxNamed is how many things of a kind are named.
const maxNamed = 3

func some(list []string, of int) string {
	text := ""
	for i, s := range list[:min(len(list), maxNamed)] {
		if i > 0 {
			text += ", "
		}
		text += s
	}
	if of > maxNamed {
		text += ", ..."
	}
	return text
}

// examine reads everything once. The database comes first: what it has applied is
// in the log by then.
func examine(d datadir.Dir) (findings, error) {
	b, err := readBackend(d.Database())
	if err != nil {
		return findings{}, fmt.Errorf("read the database: %w", err)
	}
	snaps, err := listSnaps(d.Snap())
	if err != nil {
		return findings{}, fmt.Errorf("list the raft snapshots: %w", err)
	}
	l, err := readLog(d.Log(), from(snaps))
	if err != nil {
		return findings{}, fmt.Errorf("read the log: %w", err)
	}
	s, err := newest(snaps, l)
	if err != nil {
		return findings{}, fmt.Errorf("read the raft snapshot: %w", err)
	}
	switch {
	case l.first > s.index+1 && l.last > s.index:
		return findings{}, fmt.Errorf("the log begins at %d, but the raft snapshot is at %d", l.first, s.index)
	case b.applied < s.index:
		return findings{}, fmt.Errorf("the database is at %d, but the raft snapshot at %d", b.applied, s.index)
	case l.last < b.applied:
		return findings{}, fmt.Errorf("the log ends at %d, but the database is at %d", l.last, b.applied)
	}
	f := findings{deleted: len(s.keys) > 0 && len(left(s.keys, l.requests, s.index)) == 0}
	for _, key := range s.keys {
		f.keys = append(f.keys, strings.TrimPrefix(key, clientKeys)) // as clients know them
	}
	for _, r := range l.requests {
		if r.index <= s.index {
			continue
		}
		f.old = append(f.old, r)
		if r.refused() {
			f.refused = append(f.refused, r)
		}
	}
	f.differ = compare(s, l, b)
	return f, nil
}

// from returns the index from which the log is needed: that of the newest snapshot
// but one, in case the newest was not finished.
func from(snaps []snapFile) uint64 {
	if len(snaps) < 2 {
		return 0
	}
	return snaps[1].index
}

// newest reads the newest snapshot that the log has, too: another one was cut
// off, and etcd does not use it. A log that has none begins with nothing.
func newest(snaps []snapFile, l log) (snapshot, error) {
	var reported bool
	var problem error
	for _, f := range snaps {
		if !slices.Contains(l.snapshots, f.index) {
			continue
		}
		reported = true
		s, err := readSnap(f.path)
		if err == nil {
			return s, nil
		}
		if problem == nil && !errors.Is(err, fs.ErrNotExist) {
			problem = err
		}
	}
	switch {
	case problem != nil:
		return snapshot{}, problem
	case reported || slices.ContainsFunc(l.snapshots, func(i uint64) bool { return i > 0 }):
		return snapshot{}, errors.New("the log names one that does not exist")
	}
	return snapshot{state: newState()}, nil
}
