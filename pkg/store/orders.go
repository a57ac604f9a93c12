package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// MaxOrders is how many entries the list of a node's orders keeps.
const MaxOrders = 100

// maxOrderLists bounds how many nodes' lists are read.
const maxOrderLists = 64

// AppendOrders adds to the list of what was ordered of a node, of which the
// newest [MaxOrders] stay. The node itself is the only one that writes it. A list
// that cannot be read is begun anew.
func (s *Store) AppendOrders(ctx context.Context, node cluster.NodeName, entries ...HistoryEntry) error {
	if err := node.Validate(); err != nil {
		return fmt.Errorf("write the orders of a node: %w", err)
	}
	all, err := s.orders(ctx, ordersPrefix+string(node))
	if err != nil && !errors.Is(err, ErrAbsent) && !errors.Is(err, ErrGarbage) {
		return fmt.Errorf("write the orders of %s: %w", node, err)
	}
	all = append(all, entries...)
	b, err := json.MarshalIndent(all[max(0, len(all)-MaxOrders):], "", " ")
	if err == nil {
		err = s.Put(ctx, ordersPrefix+string(node), b)
	}
	if err != nil {
		return fmt.Errorf("write the orders of %s: %w", node, err)
	}
	return nil
}

// Orders returns what was ordered of the nodes, as they have written it down
// themselves: oldest first. At most 64 nodes' lists are read; one that cannot be
// read is left out.
func (s *Store) Orders(ctx context.Context) (map[cluster.NodeName][]HistoryEntry, error) {
	listed, err := s.list(ctx, ordersPrefix)
	if err != nil {
		return nil, fmt.Errorf("list the orders of nodes: %w", err)
	}
	all := map[cluster.NodeName][]HistoryEntry{}
	for _, o := range listed[:min(len(listed), maxOrderLists)] {
		key := o.key
		name, ok := child(key, ordersPrefix)
		if !ok || cluster.NodeName(name).Validate() != nil {
			continue
		}
		list, err := s.orders(ctx, key)
		if errors.Is(err, ErrAbsent) || errors.Is(err, ErrGarbage) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the orders of %s: %w", name, err)
		}
		all[cluster.NodeName(name)] = slices.Clone(list[max(0, len(list)-MaxOrders):])
	}
	return all, nil
}

func (s *Store) orders(ctx context.Context, key string) ([]HistoryEntry, error) {
	b, err := s.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	var list []HistoryEntry
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, garbage(key, "%v", err)
	}
	return list, nil
}
