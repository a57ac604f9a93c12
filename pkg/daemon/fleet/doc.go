// Package fleet is a cluster's nodes, store and members as one thing to observe
// at and to act on. The daemon uses it for its coordinator, etcdadm for a
// person; both see and do the same.
package fleet
