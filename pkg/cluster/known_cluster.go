package cluster

import "time"

// Known is what a daemon knows of its cluster besides its own machine. It sends it to
// persons only, who may have reached no other daemon, and may not reach the store.
type Known struct {
	// Peers are the daemons that it knows, without itself, by name.
	Peers []KnownPeer `json:"peers,omitempty"`
	// Spec is the spec that it works by, zero where it knows none.
	Spec Spec `json:"spec"`
	// Store is what it last read from the store, StoreAge ago; Records are the nodes that have
	// published themselves there. StoreProblem says why it cannot read the store now.
	Store        Store         `json:"store"`
	StoreAge     time.Duration `json:"storeAge,omitempty"`
	Records      []KnownPeer   `json:"records,omitempty"`
	StoreProblem string        `json:"storeProblem,omitempty"`
}

// A KnownPeer is a daemon that another one knows.
type KnownPeer struct {
	Name    NodeName `json:"name"`
	Address string   `json:"address"`
	// Boot is the token in its record in the store.
	Boot Token `json:"boot,omitempty"`
	// Unreachable says that it is not expected to answer.
	Unreachable bool `json:"unreachable,omitempty"`
}
