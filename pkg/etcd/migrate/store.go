package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/hazards"
)

// A v2Key is one of the v2 store.
type v2Key struct {
	name, value       string
	created, modified int64
	// expires is zero for never. That of a directory counts for what is in it.
	expires time.Time
}

// A v2Store is the content of one.
type v2Store struct {
	keys        []v2Key
	directories int
	users       int
	// index is that of the last change.
	index int64
}

// A v2Node is how etcd saves a node. A directory has children, maybe none of them.
type v2Node struct {
	CreatedIndex, ModifiedIndex int64
	ExpireTime                  time.Time
	Value                       string
	Children                    map[string]*v2Node
}

// readStore reads the v2 store of a raft snapshot, hidden keys included.
func readStore(snap string) (v2Store, error) {
	b, _, err := hazards.V2Store(snap)
	if err != nil {
		return v2Store{}, err
	}
	return parseStore(b)
}

func parseStore(b []byte) (v2Store, error) {
	var saved struct {
		Root         *v2Node
		CurrentIndex int64
	}
	if err := json.Unmarshal(b, &saved); err != nil {
		return v2Store{}, err
	}
	if saved.Root == nil {
		return v2Store{}, errors.New("it has no root")
	}
	s := v2Store{index: saved.CurrentIndex}
	for _, top := range slices.Sorted(maps.Keys(saved.Root.Children)) {
		node := saved.Root.Children[top]
		switch {
		case top == "0" && node.Children != nil: // etcd's own
		case top == "1" && node.Children != nil:
			s.add("", node)
			s.directories-- // the root
		case top == "2" && node.Children != nil:
			s.users = leaves(node)
		default:
			return v2Store{}, fmt.Errorf("it has /%s, which etcd never makes", top)
		}
	}
	return s, nil
}

func (s *v2Store) add(name string, n *v2Node) {
	if n.Children == nil {
		s.keys = append(s.keys, v2Key{name, n.Value, n.CreatedIndex, n.ModifiedIndex, n.ExpireTime})
		return
	}
	s.directories++
	for _, base := range slices.Sorted(maps.Keys(n.Children)) {
		child := n.Children[base]
		if !n.ExpireTime.IsZero() && (child.ExpireTime.IsZero() || n.ExpireTime.Before(child.ExpireTime)) {
			child.ExpireTime = n.ExpireTime
		}
		s.add(name+"/"+base, child)
	}
}

func leaves(n *v2Node) (count int) {
	if n.Children == nil {
		return 1
	}
	for _, c := range n.Children {
		count += leaves(c)
	}
	return count
}
