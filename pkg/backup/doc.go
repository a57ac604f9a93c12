// Package backup takes backups of etcd and reads them back.
//
// A backup is two objects. The data is the byte stream of etcd's Snapshot call,
// compressed with gzip: the database file and, behind it, the 32 bytes of its
// SHA-256. The marker says what it is a backup of, and is written when the data
// is complete and checked. So a backup with a marker is whole. Both are
// formats of the existing etcd-manager, which can restore what this package
// writes, and the other way round.
//
// The data is streamed: nothing is staged on the local disk, and memory does
// not grow with the database.
package backup
