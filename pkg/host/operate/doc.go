// Package operate checks one machine whose etcd is run by hand, and carries
// out on it what package machine decides: observe, take the first step, observe
// again, until nothing is left to do.
//
// It is what the commands init, join, reset and remove of etcdadm stand on, and
// what a program that provisions machines calls instead of them.
package operate
