// Package fleet is a cluster's nodes, store and members to observe and act on
// as one thing. The daemon uses it for its coordinator, etcdadm for a
// person; both see and do the same.
package fleet
