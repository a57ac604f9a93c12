// Package gossip says which daemons are alive. It runs hashicorp/memberlist
// over the daemon's own gRPC server, so that there is one port, one identity
// and no shared password. What it says is a hint, never a proof.
//
// Packets, which may be lost, ride one long stream from each node to each
// other; memberlist's connections are one short stream each. The service is
// etcdadm.v1.Gossip of package nodepb.
//
// A sender says its name in the stream's metadata, and a stream is refused
// unless that is the name that the caller proved. News about third nodes is
// taken from everybody, as gossip does.
package gossip
