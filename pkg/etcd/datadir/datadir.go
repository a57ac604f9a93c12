// Package datadir names what etcd keeps in its data directory. It reads
// nothing.
package datadir

import "path/filepath"

// MemberName is the name of the only directory that etcd makes in its data
// directory: everything is in it.
const MemberName = "member"

// A Dir is where a member keeps its data.
type Dir struct {
	// Data is etcd's --data-dir.
	Data string
	// WAL is its --wal-dir, empty for none.
	WAL string
}

// At returns where a member without --wal-dir keeps its data.
func At(data string) Dir { return Dir{Data: data} }

// Member is what etcd has in its data directory.
func (d Dir) Member() string { return filepath.Join(d.Data, MemberName) }

// Log is the directory of the write-ahead log.
func (d Dir) Log() string {
	if d.WAL != "" {
		return d.WAL
	}
	return filepath.Join(d.Member(), "wal")
}

// Snap is the directory of the raft snapshots and of the database.
func (d Dir) Snap() string { return filepath.Join(d.Member(), "snap") }

// Database is the file of the keys, a database of bbolt.
func (d Dir) Database() string { return filepath.Join(d.Snap(), "db") }

// LogFiles is the pattern of the files of the write-ahead log, for [filepath.Glob].
func (d Dir) LogFiles() string { return filepath.Join(d.Log(), "*.wal") }

// SnapFiles is the pattern of the raft snapshots, for [filepath.Glob].
func (d Dir) SnapFiles() string { return filepath.Join(d.Snap(), "*.snap") }
