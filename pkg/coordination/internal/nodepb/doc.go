// Package nodepb is the protocol between daemons: node.proto and the code that is generated from it by
// hack/generate-proto. Package rpc serves and calls Node, package gossip serves and calls Gossip.
package nodepb
