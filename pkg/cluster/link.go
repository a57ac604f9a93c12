package cluster

import "time"

// A Link says whether a node reaches the peer port of another member, by a
// connection of its own with the certificate of its member. What etcd has open
// already says nothing of a port that has been closed since, and two voters that
// reach each other only through a third lose the cluster with that one.
type Link struct {
	Member MemberID `json:"member"`
	// Tried says that a try has ended since the member had these addresses.
	Tried bool `json:"tried,omitempty"`
	// Down is for how long no try has succeeded, zero where the last one did.
	Down time.Duration `json:"down,omitempty"`
	// Why is how the last try failed, empty where it did not.
	Why string `json:"why,omitempty"`
}

// Broken reports whether the last try failed.
func (l Link) Broken() bool { return l.Why != "" }

// Link returns how the node reaches a member; ok is false where it does not say.
func (n Node) Link(id MemberID) (Link, bool) {
	for _, l := range n.Links {
		if l.Member == id {
			return l, true
		}
	}
	return Link{}, false
}
