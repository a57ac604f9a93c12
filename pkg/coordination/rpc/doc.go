// Package rpc is the daemon's one port: a gRPC server with mutual TLS, and the
// connections to the other daemons.
//
// The service etcdadm.v1.Node has five methods, with messages in JSON: Hello,
// Observe, Execute, Lease and Standing; see [Permits] for who may call which.
// Execute takes an argument vector, which must parse
// as one of the operations of package plan; nothing else can be asked for.
// Other services, in whatever encoding, can be registered beside it; each of
// their calls has a known caller too, see [CallerFrom].
package rpc
