package cluster

import "time"

// A Backup is a complete backup in the store.
type Backup struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
	// Size is that of its data object, as it is stored, in bytes.
	Size int64 `json:"size,omitempty"`
	// Encrypted says that its data can only be read with a key.
	Encrypted bool `json:"encrypted,omitempty"`
	// Verified and Drilled are when it was last verified, and restored for a
	// trial, with success; zero for never.
	Verified time.Time `json:"verified,omitzero"`
	Drilled  time.Time `json:"drilled,omitzero"`
	// Damaged says that two machines found it to be damaged, or that an operator says so.
	// Suspect says that one machine did, whose memory may be to blame: it counts.
	Damaged bool `json:"damaged,omitempty"`
	Suspect bool `json:"suspect,omitempty"`
	// Foreign is the name of the cluster that it is of, by what it says of itself, if that
	// is another one. It can be restored by its name. Otherwise it counts for nothing, and
	// is not deleted.
	Foreign string `json:"foreign,omitempty"`
	// Files is what a listing shows of the files that say what it is.
	Files BackupFiles `json:"-"`
}

// BackupFiles are the small files of a backup, as a listing shows them.
type BackupFiles struct {
	Marked, Described bool
	// Marker, Description and Signature are their sizes in bytes.
	Marker, Description, Signature int64
	// Stamp is when the newest of them was written, in Unix nanoseconds.
	Stamp int64
}

// An Uncounted is a folder that looks like a backup, and does not count as one.
type Uncounted struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// MaxUncounted is how many of them are named.
const MaxUncounted = 20
