// Package rpc is the daemon's one port: a gRPC server with mutual TLS, and the
// connections to the other daemons.
//
// The service is etcdadm.v1.Node of package nodepb; see [Permits] for who may call
// which method. Execute takes an argument vector, which must parse as one of the
// operations of package plan; nothing else can be asked for. Other services can be
// registered beside it; each of their calls has a known caller too, see
// [CallerFrom].
package rpc
