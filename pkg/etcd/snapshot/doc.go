// Package snapshot writes and reads files with etcd snapshots.
//
// A snapshot is the byte stream of etcd's Snapshot call: a database file of
// bbolt and, behind it, the 32 bytes of its SHA-256. A file with it is what
// "etcdctl snapshot save" writes and "etcdutl snapshot restore" reads. A
// database that was copied from a data directory has no digest; it can be read
// here, but nothing says that it is whole.
package snapshot
