package store

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A NodeRecord is what a daemon publishes about itself. Seeing it proves that
// the node uses this very store.
type NodeRecord struct {
	Name cluster.NodeName `json:"name"`
	// Address is where the daemon listens, host:port.
	Address string `json:"address"`
	// Boot is a random token of this run of the daemon.
	Boot cluster.Token `json:"boot"`
	// At is when the record was written, by the node's clock.
	At time.Time `json:"at"`
	// Cluster is the name of the cluster that the node is of, "" where nobody has said.
	Cluster string `json:"cluster,omitempty"`
}

func parseNode(key string, b []byte) (NodeRecord, error) {
	var n NodeRecord
	if err := json.Unmarshal(b, &n); err != nil {
		return NodeRecord{}, garbage(key, "%v", err)
	}
	if key != nodePrefix+string(n.Name) {
		return NodeRecord{}, garbage(key, "it is the record of node %q", n.Name)
	}
	if err := n.Name.Validate(); err != nil {
		return NodeRecord{}, garbage(key, "%v", err)
	}
	if _, _, err := net.SplitHostPort(n.Address); n.Address != "" && err != nil {
		return NodeRecord{}, garbage(key, "address %q is not of the form host:port", n.Address)
	}
	return n, nil
}

// PutNode publishes a node's record, over its last one.
func (s *Store) PutNode(ctx context.Context, n NodeRecord) error {
	if err := n.Name.Validate(); err != nil {
		return fmt.Errorf("publish node: %w", err)
	}
	b, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return fmt.Errorf("publish node %s: %w", n.Name, err)
	}
	if err := s.Put(ctx, nodePrefix+string(n.Name), b); err != nil {
		return fmt.Errorf("publish node %s: %w", n.Name, err)
	}
	return nil
}
