// Package etcdproc keeps one etcd process running.
//
// A [Supervisor] starts the process, passes its output on line by line, starts
// it again when it dies, and stops it. It promises that there is never more
// than one process, that a process never outlives the daemon that started it,
// and that a process which has been stopped is gone, not only asked to go.
// DESIGN.md in this directory has the argument for that.
package etcdproc
