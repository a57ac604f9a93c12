// Package certs loads certificate authorities, issues the certificates of the
// daemon and of etcd from them, keeps those in files, and renews them while
// the process runs.
//
// The names of the files and the contents of the certificates are those of
// the existing etcd-manager, so that nodes of both talk to each other and a
// node can go from one to the other and back.
package certs
