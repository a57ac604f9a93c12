package cluster

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A VersionRisk is an operator's word that members may change to a version despite
// what is in their data. It counts as long as the spec asks for exactly that version.
type VersionRisk struct {
	Version etcdversion.Version `json:"version"`
	Reason  string              `json:"reason"`
}

// maxReason bounds a reason: it stands in each command line of the change.
const maxReason = 200

// Validate reports what is wrong with r; the zero value is no word at all.
func (r VersionRisk) Validate() error {
	switch {
	case r == VersionRisk{}:
		return nil
	case r.Version.IsZero():
		return errors.New("it is for no version")
	case strings.TrimSpace(r.Reason) == "":
		return errors.New("it has no reason")
	case len(r.Reason) > maxReason:
		return fmt.Errorf("the reason has %d bytes, at most %d are allowed", len(r.Reason), maxReason)
	case strings.ContainsFunc(r.Reason, func(c rune) bool { return !unicode.IsPrint(c) }):
		return errors.New("the reason is not one line of printable characters")
	}
	return nil
}

// A VersionChange is one node's change of the etcd version of its member. It is
// on the node's disk from before the member is stopped until the new version
// serves.
type VersionChange struct {
	Token Token               `json:"token"`
	From  etcdversion.Version `json:"from"`
	To    etcdversion.Version `json:"to"`
	// Order is the order by which it began, see Order in package plan.
	Order string `json:"order,omitempty"`
	// Failed says why the new version did not come up, with etcd's last words; empty
	// as long as the change is under way.
	Failed string `json:"failed,omitempty"`
	// Back says that the node runs the old version again.
	Back bool `json:"back,omitempty"`
}

// A BrokenBinary is a binary of etcd that cannot run, or is another minor version than
// it is called after, or that the node is yet to fetch.
type BrokenBinary struct {
	Version etcdversion.Version `json:"version"`
	Why     string              `json:"why"`
	// Fetch says that the node fetches it, and Why says so.
	Fetch bool `json:"fetch,omitempty"`
}

// LostSettings are settings of etcd that its member has from an operator, and that a
// minor version does not know, under any name.
type LostSettings struct {
	// Version is the minor version.
	Version etcdversion.Version `json:"version"`
	// What is one text for each: the variable, its value, and why.
	What []string `json:"what"`
}

// LostBefore returns what a node's member would lose of its settings with a version.
func (n Node) LostBefore(v etcdversion.Version) []string {
	for _, l := range n.Lost {
		if l.Version.Major == v.Major && l.Version.Minor == v.Minor {
			return l.What
		}
	}
	return nil
}

// Pending reports whether the change is under way.
func (c *VersionChange) Pending() bool { return c != nil && c.Failed == "" }

// HidesDowngrade reports whether a downgrade may be enabled that no member reports: etcd 3.5, which
// all of them run or will, does not. It ends it by itself, but only while it hears from all members.
// Those whose version is unknown do not count.
func HidesDowngrade(runs ...etcdversion.Version) bool {
	hides := false
	for _, v := range runs {
		if !v.IsZero() && !v.AtLeast(3, 5) {
			return false // it knows no downgrades, and is asked nothing of them
		}
		hides = hides || v.Major == 3 && v.Minor == 5
	}
	return hides
}
