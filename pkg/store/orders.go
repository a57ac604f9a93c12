package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// maxList bounds a list of entries as it is stored, below what is read as a whole
// (maxObject): a list that could not be read again would be lost.
const maxList = 1 << 20

// MaxOrders is how many entries the list of a node's orders keeps.
const MaxOrders = 100

// maxOrderLists bounds how many nodes' lists are read.
const maxOrderLists = 64

// AppendOrders adds to the list of what was ordered of a node, of which the
// newest [MaxOrders] stay, and no more than fit into 1 MiB. The node itself is the
// only one that writes it. A list that cannot be read is moved to
// control/orders-damaged/, over an earlier one there, and a new one is begun.
func (s *Store) AppendOrders(ctx context.Context, node cluster.NodeName, entries ...HistoryEntry) error {
	if err := node.Validate(); err != nil {
		return fmt.Errorf("write the orders of a node: %w", err)
	}
	all, present, err := s.orders(ctx, ordersPrefix+string(node))
	if errors.Is(err, ErrGarbage) {
		// What is too large to read cannot be kept.
		err = nil
		if present != nil {
			err = s.Put(ctx, damagedOrdersPrefix+string(node), present)
		}
	}
	if err != nil && !errors.Is(err, ErrAbsent) {
		return fmt.Errorf("write the orders of %s: %w", node, err)
	}
	b, err := newest(append(all, entries...), MaxOrders)
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
		list, _, err := s.orders(ctx, key)
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

// orders returns the list at key, and what is there if it cannot be read.
func (s *Store) orders(ctx context.Context, key string) ([]HistoryEntry, []byte, error) {
	b, err := s.Get(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	list, err := parseHistory(b)
	if err != nil {
		return nil, b, garbage(key, "%v", err)
	}
	return list, nil, nil
}

// newest returns the JSON of the last entries of all: at most n of them, and as
// many as fit into maxList. One that does not fit by itself is left out.
func newest(all []HistoryEntry, n int) ([]byte, error) {
	list, size := []json.RawMessage{}, 0
	for _, e := range slices.Backward(all[max(0, len(all)-n):]) {
		b, err := json.MarshalIndent(e, " ", " ")
		if err != nil {
			return nil, err
		}
		if len(b) > maxList {
			continue
		}
		if size += len(b); size > maxList {
			break
		}
		list = append(list, b)
	}
	slices.Reverse(list)
	return json.MarshalIndent(list, "", " ")
}
