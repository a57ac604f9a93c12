// Package store is the control and backup store: a bucket, or a directory, in
// which a cluster's backups lie and through which its operators and daemons
// speak.
//
// # What is in it
//
//	<backup name>/etcd.backup.gz          a backup's data
//	<backup name>/_etcd_backup.meta       its marker, written last, deleted first
//	control/etcd-cluster-spec             the spec
//	control/etcd-cluster-created          the marker that a cluster was bootstrapped
//	control/<time>-000000/_command.json   a queued command of the existing etcd-manager
//	control/incarnations/<n>              each life of the cluster
//	control/nodes/<name>                  what each daemon publishes about itself
//	control/requests/<name>               an operator's queued request
//	control/history                       what the coordinators did
//	control/audit/<time>-<digest>         what a user asked for, and who
//	control/history.damaged               a history that could not be read, set aside
//	control/orders-damaged/NODE           a node's list of orders that could not be read, set aside
//	control/status                        what the coordinator last published
//	control/revision                      the highest revision ever reached
//	control/closed/<name>                 how a request or command ended
//	control/changed                       written with each change, so that one request finds all
//	control/conditional-write             a trial of what the store does with create-if-absent
//
// The first five are formats of the existing etcd-manager, which ignores the others.
//
// # Directories
//
// A store in a directory does not go through gocloud.dev/blob/fileblob (read at
// v0.47.0), which does four things that this store must not do:
//
//   - its listing skips what it cannot read, so that a stale mount looks like an
//     empty store, and an empty store is one on which a cluster may be bootstrapped;
//   - its IfNotExist asks os.Stat and then renames, under a lock of one process;
//     two daemons could both win the bootstrap of one cluster;
//   - it does not call fsync, so that a record may be lost after it was acted on;
//   - its files are open to everyone (0666 less the umask), and these hold secrets.
//
// So files are written beside their place, synced, and then either renamed over
// the old file or, to create only if absent, hard-linked, which fails if the
// name is taken, on NFS also. A reader sees a whole file or none. Names that begin
// with a dot are never objects.
//
// # Hanging
//
// A file system can hang (a lost NFS server) beyond the reach of any context.
// So each call runs in a goroutine of its own, and the caller gets the
// context's error in time, while the goroutine stays until the file system
// lets go. At most 16 calls and 4 streams run or hang at a time; more wait for a
// place until their own deadline. A call that timed out may have had its
// effect, or have it later: only repeat what may be repeated.
package store
