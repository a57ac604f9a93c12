package cluster

import "github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"

// A VersionChange is one node's change of the etcd version of its member. It is
// on the node's disk from before the member is stopped until the new version
// serves.
type VersionChange struct {
	Token Token               `json:"token"`
	From  etcdversion.Version `json:"from"`
	To    etcdversion.Version `json:"to"`
	// Failed says why the new version did not come up, with etcd's last words; empty
	// as long as the change is under way.
	Failed string `json:"failed,omitempty"`
	// Back says that the node runs the old version again.
	Back bool `json:"back,omitempty"`
}

// Pending reports whether the change is under way.
func (c *VersionChange) Pending() bool { return c != nil && c.Failed == "" }
