// Package nodestate keeps what a node remembers on its disk, below its data
// directory:
//
//	etcdadm.json          what the node was ordered and has promised (this package's file)
//	etcdadm.lock          held by the one process that may write
//	state                 the same assignment, as the existing etcd-manager writes and reads it
//	myid                  the node's name, where nothing else names it
//	data/<token>/         etcd's data directory of one incarnation
//	restore/<token>/      data that was restored and waits for the record that decides on it
//	data-trashcan/<name>/ data that was set aside
//	pki/<token>/          key pairs of one incarnation's member
//
// A promise that is made to another node (a term seen, a lease granted, a
// bootstrap prepared) is on the disk before [File.Update] returns, so a crash
// or a power cut cannot undo it.
//
// # Two files, one assignment
//
// The assignment stands in etcdadm.json and in state. etcdadm.json is written
// first and holds the digests of every content that state can have if this
// package wrote it. On [Open], a state file with one of these digests is ours,
// at worst one write behind, and is written again. Any other state file was
// written by the existing etcd-manager, which was in charge in the meantime,
// and its assignment is taken over. So a machine can go from one to the other
// and back, and a crash between the two writes is not taken for that.
package nodestate
