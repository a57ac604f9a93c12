package volumes

import (
	"errors"
	"fmt"
	"strings"
)

// A Tag is one value of --volume-tag: a key, or a key and its value.
type Tag struct {
	Key, Value string
	// Any says that every value will do.
	Any bool
}

// ParseTags reads values of --volume-tag. The key ends at the first of the
// separators, each of which is one character.
func ParseTags(texts []string, separators string) []Tag {
	var tags []Tag
	for _, t := range texts {
		i := strings.IndexAny(t, separators)
		if i < 0 {
			tags = append(tags, Tag{Key: t, Any: true})
			continue
		}
		tags = append(tags, Tag{Key: t[:i], Value: t[i+1:]})
	}
	return tags
}

// Tagged says whether what has is tagged with all of the tags.
func Tagged(tags []Tag, has map[string]string) bool {
	for _, t := range tags {
		if v, ok := has[t.Key]; !ok || !t.Any && v != t.Value {
			return false
		}
	}
	return true
}

// Need returns an error where there are no tags: every volume of the account
// would be the cluster's.
func (o Options) Need() error {
	if len(o.Tags) == 0 {
		return errors.New("no --volume-tag says which volumes are the cluster's")
	}
	return nil
}

// NodeName returns the name of the node of a volume whose name tag has this
// value, which is MEMBER/ALL,MEMBERS; other is the name where it has none.
func (o Options) NodeName(value, other string) string {
	if member, _, _ := strings.Cut(value, "/"); member != "" {
		return o.ClusterName + "-" + member
	}
	return other
}

// NodesOf returns the machines that have volumes, with their addresses. A
// machine without a known address is left out.
func NodesOf(found []Volume, addresses map[string][]string) []Node {
	var nodes []Node
	for _, v := range found {
		if a := addresses[v.Machine]; v.Machine != "" && len(a) > 0 {
			nodes = append(nodes, Node{Name: v.Node, Addresses: a})
		}
	}
	return nodes
}

// ErrMachineGone is in the error of a question about a machine that does not exist any more.
var ErrMachineGone = errors.New("the machine does not exist")

// NodesBy returns the machines that have volumes, with the addresses that ask gives for each. One that
// is gone (ErrMachineGone) is left out. What is how the cloud calls a machine, for errors.
func (o Options) NodesBy(found []Volume, what string, ask func(machine string) ([]string, error)) ([]Node, error) {
	addresses := map[string][]string{}
	for _, id := range Machines(found) {
		a, err := ask(id)
		if errors.Is(err, ErrMachineGone) {
			o.Log.Info("a machine with a volume of the cluster is gone", "machine", id, "error", err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", what, id, err)
		}
		addresses[id] = a
	}
	return NodesOf(found, addresses), nil
}

// Machines returns the machines that have volumes, each once.
func Machines(found []Volume) []string {
	var all []string
	seen := map[string]bool{"": true}
	for _, v := range found {
		if !seen[v.Machine] {
			seen[v.Machine] = true
			all = append(all, v.Machine)
		}
	}
	return all
}
