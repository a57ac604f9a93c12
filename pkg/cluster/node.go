package cluster

import (
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A Node is a machine with our daemon.
type Node struct {
	Name NodeName `json:"name"`
	// Address is where its daemon listens, host:port.
	Address string `json:"address"`
	// Reachable says that its daemon answered this observation. Where it did not, the
	// fields from Boot on are what it said last, or empty.
	Reachable bool `json:"reachable"`
	// LastSeen is when it last answered, zero for never.
	LastSeen time.Time `json:"lastSeen,omitzero"`
	// Boot is a random token of this run of the daemon.
	Boot Token `json:"boot,omitempty"`
	// Conflict names the address of a second daemon that uses the same name.
	Conflict string `json:"conflict,omitempty"`
	// OtherCluster is the name of the cluster to which its daemon belongs, where the
	// daemon answered just that: it says no more to who asks for another cluster. It
	// is there, though not Reachable.
	OtherCluster string `json:"otherCluster,omitempty"`
	// Published says that the control store holds this node's record with the
	// same Boot token, which proves that the node and the observer use one and
	// the same store.
	Published bool `json:"published,omitempty"`

	// FactsAge is how old the fields from Disk on are that the node reads from its
	// disk, zero where it has read them for this observation: its disk was slow.
	FactsAge time.Duration `json:"factsAge,omitempty"`

	URLs URLs `json:"urls"`
	Disk Disk `json:"disk"`
	// Prepared is what the node has promised to bootstrap, nil for nothing.
	Prepared *Prepared `json:"prepared,omitempty"`
	// Assigned is what the node's state file has it run, nil for nothing.
	Assigned *Assigned `json:"assigned,omitempty"`
	Process  Process   `json:"process"`
	// Change is a change of the etcd version that the node is carrying out, or that
	// has failed; nil for none.
	Change *VersionChange `json:"change,omitempty"`
	// OldLog says whether its member's log has entries behind the last raft snapshot
	// that the next minor version cannot read: see [HazardOldLog]. It is looked for as
	// soon as all members run the minor version before that, and empty until then.
	OldLog Hazard `json:"oldLog,omitzero"`
	// Differs says how the data of the node's member differs from that of the
	// others, "" where that is not known. Where a majority of the voters holds
	// other data, the node does not start the member again.
	Differs string `json:"differs,omitempty"`
	// Comparing says that the data of its member has not been compared with that of a
	// majority of the voters since etcd started. False, too, where no etcd runs, and
	// from daemons that do not report.
	Comparing bool `json:"comparing,omitempty"`
	// Hazards is what the node has found in its member's data that a later minor
	// version cannot run with, or has proved absent; empty where it has not checked.
	Hazards []Hazard `json:"hazards,omitempty"`
	// LeaseVoters is the lease voter record on the node's disk.
	LeaseVoters LeaseVoters `json:"leaseVoters"`
	// Lease is the last coordinator's lease that the node granted or heard of.
	Lease Lease `json:"lease"`
	// Versions are the etcd versions that the node has binaries of, ascending. Broken are
	// those whose binaries are there, and are not what they are called, and those that it
	// fetches.
	Versions []etcdversion.Version `json:"versions,omitempty"`
	Broken   []BrokenBinary        `json:"broken,omitempty"`
	// Lost are the operator's settings that its member would lose with another minor
	// version of which the node has binaries.
	Lost []LostSettings `json:"lostSettings,omitempty"`
	// Storage is how the disk below its data directory takes writes.
	Storage Storage `json:"storage,omitzero"`
	// FreeBytes is the free space below its data directory, zero where that is not
	// known.
	FreeBytes int64 `json:"freeBytes,omitempty"`
	// ClockSkew is the node's clock minus the observer's.
	ClockSkew time.Duration `json:"clockSkew,omitempty"`
	// CertNotAfter is when the first of its leaf certificates ends.
	CertNotAfter time.Time `json:"certNotAfter,omitzero"`
	// Pause is the pause that the node remembers from when it last read the store,
	// nil for none.
	Pause *Request `json:"pause,omitempty"`
	// SetAside is the old data that the node keeps, oldest first.
	SetAside []SetAside `json:"setAside,omitempty"`
	// Staged is a restore that the node prepares beside what it runs, nil for
	// none.
	Staged *Staged `json:"staged,omitempty"`
	// Revision is the node's high-water mark: its member has reported no revision
	// above it, in any incarnation.
	Revision Revision `json:"revision,omitempty"`
	// Serving are the peer URLs that its member was last started for, nil where that is
	// not known: those that etcd has on record, which may be older than the node's own.
	Serving []string `json:"serving,omitempty"`
	// PeerKeys says that its member was last started with keys for its peers: it can call
	// those that have TLS, also where it has none itself.
	PeerKeys bool `json:"peerKeys,omitempty"`
	// Links are how the node reaches the peer ports of the other members that have
	// started, and of learners, by ID; nil where it does not report.
	Links []Link `json:"links,omitempty"`
	// NewCluster says that an operator has left word on its disk that a new cluster
	// is wanted.
	NewCluster bool `json:"newCluster,omitempty"`
	// Neighbours are the daemons that are none of ours, as far as the node knows.
	Neighbours Neighbours `json:"neighbours,omitzero"`
}

// URLs are the addresses that a member on a node has or would have.
type URLs struct {
	Peer []string `json:"peer"`
	// Client URLs are open to clients, Quarantine URLs stand in for them while
	// clients are kept away.
	Client     []string `json:"client"`
	Quarantine []string `json:"quarantine,omitempty"`
}

// A DiskState says what is in a node's data directory.
type DiskState string

// The disk states.
const (
	// DiskEmpty: no etcd data of any incarnation.
	DiskEmpty DiskState = "empty"
	// DiskData: an etcd data directory, of the incarnation in Disk.Token.
	DiskData DiskState = "data"
	// DiskUnreadable: something is there that cannot be read or understood.
	DiskUnreadable DiskState = "unreadable"
)

// A Disk is what a node found in its data directory.
type Disk struct {
	State DiskState `json:"state"`
	// Token is the incarnation whose data it holds.
	Token Token `json:"token,omitempty"`
	// MemberID is the member whose data it holds, zero where the node does not
	// know (the member never ran here).
	MemberID MemberID `json:"memberID,omitempty"`
	// Problem says why the disk is unreadable.
	Problem string `json:"problem,omitempty"`
}

// Prepared is a node's promise, on its disk, to take part in a bootstrap. It
// stays until the node's etcd has written its first data, so a node with a
// promise and an empty disk has never voted in that incarnation.
type Prepared struct {
	Token   Token               `json:"token"`
	Version etcdversion.Version `json:"version"`
	Voters  []InitialMember     `json:"voters"`
	// Backup is the backup that the node has restored for this bootstrap, empty
	// for a cluster that begins with nothing. The restored data takes the place
	// of the empty disk: without it the node never starts.
	Backup string `json:"backup,omitempty"`
	// Earlier are the incarnations that the node promised before, and never began, the
	// oldest first. They go with the promise, and with the disk.
	Earlier []Token `json:"earlier,omitempty"`
}

// maxEarlier is how many earlier promises a node remembers.
const maxEarlier = 16

// After returns the promise p as one that takes the place of another, nil for none.
// That of a restore is not remembered: the node may have voted before it.
func (p Prepared) After(before *Prepared) Prepared {
	p.Earlier = nil
	if before == nil || before.Backup != "" || p.Backup != "" {
		return p
	}
	for _, token := range append(slices.Clone(before.Earlier), before.Token) {
		if token != p.Token {
			p.Earlier = append(p.Earlier, token)
		}
	}
	p.Earlier = p.Earlier[max(0, len(p.Earlier)-maxEarlier):]
	return p
}

// Of reports whether the node promised the incarnation, with this promise or with
// one that it took the place of, and has not lost its disk since.
func (p *Prepared) Of(token Token) bool {
	return p != nil && (p.Token == token || slices.Contains(p.Earlier, token))
}

// Same reports whether two promises are of the same, whatever came before.
func (p *Prepared) Same(o Prepared) bool {
	return p != nil && p.Token == o.Token && p.Version == o.Version && p.Backup == o.Backup &&
		slices.EqualFunc(p.Voters, o.Voters, func(a, b InitialMember) bool {
			return a.Name == b.Name && slices.Equal(a.PeerURLs, b.PeerURLs)
		})
}

// An InitialMember is a voter of a new incarnation: a name and where its peers find it.
type InitialMember struct {
	Name     NodeName `json:"name"`
	PeerURLs []string `json:"peerURLs"`
}

// Assigned is what a node's state file has it run.
type Assigned struct {
	Token   Token               `json:"token"`
	Version etcdversion.Version `json:"version"`
	// Quarantined says that clients are kept away.
	Quarantined bool `json:"quarantined,omitempty"`
	// Stopped says that an operation stopped the member; the node does not
	// start it by itself.
	Stopped bool `json:"stopped,omitempty"`
}

// SetAside is old etcd data that a node keeps, out of the way.
type SetAside struct {
	// Name is its directory below data-trashcan/.
	Name  string    `json:"name"`
	At    time.Time `json:"at"`
	Bytes int64     `json:"bytes"`
}

// Of reports whether the data is of an incarnation: its directory is named after
// the token, with .1 and so on where there are more.
func (s SetAside) Of(token Token) bool {
	rest, ok := strings.CutPrefix(s.Name, string(token))
	return ok && token != "" && (rest == "" || rest[0] == '.')
}

// A HostEntry is one line of a hosts file.
type HostEntry struct {
	Address string `json:"address"`
	Name    string `json:"name"`
}
