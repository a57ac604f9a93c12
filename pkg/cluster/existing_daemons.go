package cluster

// Neighbours is what a node knows of daemons that are none of ours, and of machines that
// may have one.
type Neighbours struct {
	// Existing are daemons of the existing etcd-manager, sorted: by name, or by address
	// where the name is not known. Each has called the node lately, or answers at an
	// address that discovery reports.
	Existing []string `json:"existing,omitempty"`
	// Unreachable are the machines that discovery reports and where no daemon answers: each
	// by its address, or by all of them with "or" between. Daemons of other releases know
	// them by the older name in JSON.
	Unreachable []string `json:"silent,omitempty"`
	// Listened says that the node has listened for as long as one of them may take to find
	// it and to call it, and has asked at all addresses.
	Listened bool `json:"listened,omitempty"`
}
