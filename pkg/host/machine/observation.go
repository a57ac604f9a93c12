package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// An Observation is one observation of the machine, and at the cluster from there.
type Observation struct {
	At time.Time `json:"at"`
	// Nonce is a fresh random token, for a new cluster.
	Nonce    cluster.Token `json:"-"`
	Host     Host          `json:"host"`
	Record   Record        `json:"record"`
	Binaries Binary        `json:"binaries"`
	PKI      PKI           `json:"pki"`
	Data     Data          `json:"data"`
	// Files holds the contents of the files that etcdadm writes, by path, as far
	// as they are there.
	Files map[string]string `json:"-"`
	// Written are the variables of etcd in the file that its process gets them
	// from, empty if there is none.
	Written map[string]string `json:"written,omitempty"`
	Service ServiceStatus     `json:"service"`
	Renewal Renewal           `json:"-"`
	// Snapshot is the file to begin with, with its size and time, empty where it is
	// not there.
	Snapshot string `json:"snapshot,omitempty"`
	// VersionOpen says that nobody has said which version is wanted, and that the
	// cluster, whose version is taken then, did not report its own.
	VersionOpen bool `json:"versionOpen,omitempty"`
	// Local is what this machine's etcd says, nil if it does not answer.
	Local  *cluster.Report `json:"local,omitempty"`
	Remote Remote          `json:"remote"`
	// Left says that this command has taken the machine's member out of its cluster. Where
	// all leave at once, nobody may be left to ask.
	Left bool `json:"left,omitempty"`
	// Handover is the daemon's side, nil where nothing is handed over.
	Handover *Handover `json:"-"`
}

// A Host is the machine.
type Host struct {
	Name string `json:"name"`
	OS   string `json:"os"`
	Arch string `json:"arch"`
	// Root says that the command runs as root.
	Root bool `json:"root"`
	// Addresses are the machine's own IP addresses.
	Addresses []string `json:"addresses,omitempty"`
	// Manager is the data directory of an etcd-manager that runs the machine's
	// etcd, empty for none.
	Manager string `json:"manager,omitempty"`
	// Ports are those of the ports that etcd wants which are taken, with whom.
	Ports []Port `json:"ports,omitempty"`
	// FreeBytes is the free space where the data goes, 1 where there is none and 0 where it
	// is not known; MemoryBytes is the memory.
	FreeBytes   int64 `json:"freeBytes"`
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	// InitSystem says that the wanted init system is there.
	InitSystem bool `json:"initSystem"`
	// SyncTime is how long it took to put a small file on the data's disk.
	SyncTime time.Duration `json:"syncTime,omitempty"`
	// ReadOnly are directories to which etcdadm writes and cannot.
	ReadOnly []string `json:"readOnly,omitempty"`
	// Forbidden are those of them to which root could write.
	Forbidden []string `json:"forbidden,omitempty"`
	// UID and GID are those of the wanted user and group, nil where none is wanted.
	UID *int64 `json:"uid,omitempty"`
	GID *int64 `json:"gid,omitempty"`
	// SnapshotProblem says why the snapshot to begin with cannot be used.
	SnapshotProblem string `json:"snapshotProblem,omitempty"`
	// Leftovers are other units or pods that run an etcd.
	Leftovers []string `json:"leftovers,omitempty"`
}

// A Port that is taken.
type Port struct {
	Port int `json:"port"`
	// Ours says that this machine's etcd has it.
	Ours bool `json:"ours"`
}

// A Record is what etcdadm remembers on the machine from one command to the
// next, beside the data directory.
type Record struct {
	// Token is the cluster token of a cluster that was, or is being, bootstrapped here.
	Token cluster.Token `json:"token,omitempty"`
	// Action is init where the data was bootstrapped here, join where it joined, and
	// reset where the member has left its cluster.
	Action Action `json:"action,omitempty"`
	// Served says that the member has served here. With an empty disk, it has lost
	// its data since.
	Served bool `json:"served,omitempty"`
	// Restored is the snapshot that the data came from; see Observation.Snapshot.
	Restored string `json:"restored,omitempty"`
	// VersionRisk is why a person accepted the risk of a change of the version.
	VersionRisk string `json:"versionRisk,omitempty"`
	// Reached are the IDs of this machine's learner, and of the voters that were seen to reach
	// its peer port, with commas in between.
	Reached string `json:"reached,omitempty"`
	// Undoing says that a join is being undone.
	Undoing bool `json:"undoing,omitempty"`
	// Others are client URLs of the other members, with commas in between, while
	// this one leaves: its own file may name nobody else.
	Others string `json:"others,omitempty"`
	// Last says that the member which has left was the last of its cluster.
	Last bool `json:"last,omitempty"`
}

// A Binary is what is installed.
type Binary struct {
	// Etcd, Etcdctl and Etcdutl are the versions found, zero where none runs.
	Etcd    etcdversion.Version `json:"etcd,omitzero"`
	Etcdctl etcdversion.Version `json:"etcdctl,omitzero"`
	Etcdutl etcdversion.Version `json:"etcdutl,omitzero"`
	// Problem says what is wrong with a file that is there.
	Problem string `json:"problem,omitempty"`
	// Paths are the files that are there.
	Paths []string `json:"paths,omitempty"`
}

// A CAState says what is there of the certificate authority.
type CAState string

// The states of a CA.
const (
	CAAbsent CAState = "missing"
	CAReady  CAState = "ok"
	// CAExternal: the certificate without its key.
	CAExternal CAState = "external"
	CABad      CAState = "broken"
	// CAOther: one that is not the same as where it is compared with.
	CAOther CAState = "other"
)

// A PKI is the key pairs on the machine.
type PKI struct {
	CA      CAState `json:"ca"`
	Problem string  `json:"problem,omitempty"`
	// Fingerprint of the CA certificate.
	Fingerprint string `json:"fingerprint,omitempty"`
	// NotAfter is when the CA ends.
	NotAfter time.Time `json:"notAfter,omitzero"`
	// ValidFrom is when a CA that cannot be used yet will be valid.
	ValidFrom time.Time `json:"validFrom,omitzero"`
	// Wrong are the pairs that are missing or not what they must be, with why.
	Wrong []WrongPair `json:"wrong,omitempty"`
	// Expiring are certificates that have expired or soon will, the most urgent first.
	Expiring []Expiring `json:"expiring,omitempty"`
	// Paths are the files that are there, without the CA's.
	Paths []string `json:"paths,omitempty"`
	// CAPaths are the CA's files that are there.
	CAPaths []string `json:"caPaths,omitempty"`
	// Warnings are names that certificates cannot hold.
	Warnings []string `json:"warnings,omitempty"`
}

// A WrongPair is a certificate that has to be issued.
type WrongPair struct {
	Name string `json:"name"`
	Why  string `json:"why"`
	// OtherKey says that the cipher suites are for keys of the other kind.
	OtherKey bool `json:"otherKey,omitempty"`
}

// An Expiring is a certificate that has expired, or is in the last third of its life; the
// CA's is one when certificates that are issued now end with it.
type Expiring struct {
	// Name is that of the pair, or "ca".
	Name     string    `json:"name"`
	NotAfter time.Time `json:"notAfter"`
	Expired  bool      `json:"expired,omitempty"`
}

// Data is what is in etcd's data directory.
type Data struct {
	State cluster.DiskState `json:"state"`
	// Problem says why it is unreadable.
	Problem string `json:"problem,omitempty"`
	// MemberID and ClusterID are whose data it is, zero where it does not say.
	MemberID  cluster.MemberID  `json:"memberID,omitzero"`
	ClusterID cluster.ClusterID `json:"clusterID,omitzero"`
	// Uncommitted says that the member was cut off in its first start, before it had
	// bootstrapped its cluster.
	Uncommitted bool `json:"uncommitted,omitempty"`
	// Version is that of the cluster or of the storage format, as far as the data says
	// it, without a patch: nothing older may be started on it. VersionProblem says why it
	// cannot be read.
	Version        etcdversion.Version `json:"version,omitzero"`
	VersionProblem string              `json:"versionProblem,omitempty"`
	// Hazards is what the version that is wanted may not stand in the data, empty where
	// it has not been checked.
	Hazards []cluster.Hazard `json:"hazards,omitempty"`
	// Ready says that the directory exists with the right owner and mode.
	Ready bool `json:"ready"`
	// Foreign says that it exists and belongs to somebody else.
	Foreign bool `json:"foreign,omitempty"`
	// Discarded says that data is there whose deletion was begun.
	Discarded bool `json:"discarded,omitempty"`
	// SetAside are the directories of data that was moved out of the way.
	SetAside []string `json:"setAside,omitempty"`
}

// A ServiceState says how the init system keeps etcd.
type ServiceState string

// The states of the service.
const (
	ServiceAbsent   ServiceState = "absent"
	ServiceStopped  ServiceState = "stopped"
	ServiceStarting ServiceState = "starting"
	ServiceRunning  ServiceState = "running"
	ServiceCrashing ServiceState = "crashing"
	// ServiceUnknown: the init system does not answer.
	ServiceUnknown ServiceState = "unknown"
)

// ServiceStatus is how the init system keeps etcd.
type ServiceStatus struct {
	State   ServiceState `json:"state"`
	Enabled bool         `json:"enabled"`
	Detail  string       `json:"detail,omitempty"`
	// Uptime is how long the process has run, zero where that is not known.
	Uptime time.Duration `json:"uptime,omitempty"`
	// Foreign is the file of the unit where it is not ours.
	Foreign string `json:"foreign,omitempty"`
	// Outdated says that the process runs with other settings, or from another
	// binary, than the files say now.
	Outdated  bool     `json:"outdated,omitempty"`
	LastLines []string `json:"lastLines,omitempty"`
}

// Active says that a process runs or will run again by itself.
func (s ServiceStatus) Active() bool {
	return s.State != ServiceAbsent && s.State != ServiceStopped
}

// Remote is the cluster as its members report.
type Remote struct {
	// Problem says why nobody answered, empty if somebody did.
	Problem string `json:"problem,omitempty"`
	// Differ says that the endpoints that were named are of different clusters, now
	// or earlier in the same run.
	Differ bool `json:"differ,omitempty"`
	// Untrusted says that an endpoint and this machine do not accept each other's
	// certificates, and that no other one was found to.
	Untrusted bool `json:"untrusted,omitempty"`
	// Clock says that this may be because of a clock, which may be set meanwhile.
	Clock bool `json:"clock,omitempty"`
	// Answered says that a member list was read through the quorum.
	Answered  bool              `json:"answered"`
	ClusterID cluster.ClusterID `json:"clusterID,omitzero"`
	Leader    cluster.MemberID  `json:"leader,omitzero"`
	// Members is the list, with how each member does.
	Members []cluster.Member `json:"members,omitempty"`
	// Lowest and Highest are the versions that the members run.
	Lowest  etcdversion.Version `json:"lowest,omitzero"`
	Highest etcdversion.Version `json:"highest,omitzero"`
	// ClusterVersion is the cluster version, Downgrade the version to which etcd lets the
	// cluster be downgraded now, zero where nobody says.
	ClusterVersion etcdversion.Version `json:"clusterVersion,omitzero"`
	Downgrade      etcdversion.Version `json:"downgrade,omitzero"`
	// Compared is what the voters' digests say, nil where they were not asked.
	Compared *Comparison `json:"compared,omitempty"`
	// Learner is what this command has seen so far of the cluster's learner.
	Learner Learner `json:"learner,omitzero"`
	// ClockSkew is the cluster's clock minus the machine's, as far as a TLS
	// handshake or a response shows; zero where nothing does.
	ClockSkew time.Duration `json:"clockSkew,omitempty"`
	// Unreachable are the endpoints that a person has named and that do not answer, where
	// another one does. Scripts that read JSON know them by the older name.
	Unreachable []UnreachableEndpoint `json:"silent,omitempty"`
	// ClosedPeers are the members that answer clients, and whose peer port this machine
	// does not reach. Only the checks before init and join try them.
	ClosedPeers []ClosedPeer `json:"closedPeers,omitempty"`
	// Apart are the pairs of members of which one does not reach the other's peer port. Only
	// status, and the checks before a join, ask.
	Apart []Apart `json:"apart,omitempty"`
}

// An Apart is two members of which From does not reach the peer port of To, at URLs.
type Apart struct {
	From string   `json:"from"`
	To   string   `json:"to"`
	URLs []string `json:"urls"`
}

func (a Apart) String() string {
	return fmt.Sprintf("member %s does not reach the peer port of member %s (%s)", a.From, a.To, strings.Join(a.URLs, ","))
}

// An UnreachableEndpoint is a client URL that does not say which cluster it is of.
type UnreachableEndpoint struct {
	URL string `json:"url"`
	Why string `json:"why"`
}

// A ClosedPeer is a member whose peer port takes no connection from this machine.
type ClosedPeer struct {
	Name cluster.NodeName `json:"name"`
	ID   cluster.MemberID `json:"id"`
	URLs []string         `json:"urls"`
	Why  string           `json:"why"`
}

// A Learner is how a learner has done for as long as one command has watched it.
type Learner struct {
	ID cluster.MemberID `json:"id,omitzero"`
	// Ready is for how long it has served, Absent for how long nobody has listened at
	// any of its addresses, Behind for how long somebody has who does not serve, while
	// the voters had a quorum.
	Ready  time.Duration `json:"ready,omitempty"`
	Absent time.Duration `json:"absent,omitempty"`
	Behind time.Duration `json:"behind,omitempty"`
	// Unheard is for how long the leader has had no message of it, while it did not serve:
	// zero where the leader does not say. A learner that copies answers each heartbeat, and
	// one that the leader hears is not absent.
	Unheard time.Duration `json:"unheard,omitempty"`
	// Refused is for how long the leader has tried to send it the database, at least every
	// five minutes, and could not: nobody takes it, or its disk is full.
	Refused time.Duration `json:"refused,omitempty"`
}

// Voters is how many voters the list has.
func (r Remote) Voters() int {
	voters, _ := r.voters()
	return voters
}

// voters returns how many voters there are, and how many of them are healthy.
func (r Remote) voters() (voters, healthy int) {
	for _, m := range r.Members {
		if m.Learner {
			continue
		}
		voters++
		if m.Healthy {
			healthy++
		}
	}
	return voters, healthy
}

func (r Remote) member(id cluster.MemberID) (cluster.Member, bool) {
	i := slices.IndexFunc(r.Members, func(m cluster.Member) bool { return m.ID == id })
	if id == 0 || i < 0 {
		return cluster.Member{}, false
	}
	return r.Members[i], true
}

// started says whether a member has ever run: etcd publishes its name and
// client URLs then.
func started(m cluster.Member) bool { return m.Name != "" || len(m.ClientURLs) > 0 }

// named returns how to call a member in a text.
func named(m cluster.Member) string {
	if m.Name != "" {
		return string(m.Name)
	}
	return m.ID.String() + " (" + strings.Join(m.PeerURLs, ",") + ")"
}
