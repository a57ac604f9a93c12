// Package machine tests etcdadm on machines: init, join, reset and what else a
// person types, with the real program, real etcd and real files.
//
// Each test has machines of its own on the one that it runs on: a [host] of the
// tests is a directory for all paths, ports of its own, and the init system
// "process". Nothing but loopback is used, and nothing is downloaded.
package machine
