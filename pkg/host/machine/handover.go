package machine

import (
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A Manager is the etcd-manager to which a member is handed over, or from which it
// is handed back.
type Manager struct {
	// ManagerDir and PKIDir are the daemon's directories.
	ManagerDir, PKIDir string
	// EtcdDir is where the daemon finds binaries, in etcd-v<version>.
	EtcdDir string
	// ClusterName, BackupStore and GRPCPort are what the daemon is given. They are
	// not needed when it is handed back.
	ClusterName, BackupStore string
	GRPCPort                 int
	// NewIncarnation lets the daemons begin again where the lease voters on record are
	// of no use any more. By it the operator says that no daemon runs a member of
	// this cluster.
	NewIncarnation bool
	// Endpoints are client URLs of other members, when it is handed back; by default
	// those that were seen when it was handed over, or that follow from the peer URLs.
	Endpoints []string
	// Alone starts the member, when it is handed back, although no other one answers.
	Alone bool
}

// A Journal is what was decided before anything was changed. It is written
// beside etcdadm's data directory, and one that is done stays there as long as
// the daemon has the data: it says where.
type Journal struct {
	// Direction is ToManager or FromManager.
	Direction Action `json:"direction"`
	// Done says that only the traces of the handover are left.
	Done bool `json:"done,omitempty"`
	// ManagerDir is the daemon's data directory.
	ManagerDir string `json:"managerDir"`

	Node      cluster.NodeName    `json:"node"`
	MemberID  cluster.MemberID    `json:"memberID"`
	ClusterID cluster.ClusterID   `json:"clusterID"`
	Version   etcdversion.Version `json:"version"`
	// Token is the incarnation, and names the directory of the data.
	Token cluster.Token `json:"token"`
	// Peers is the membership, the machine's own member included.
	Peers []cluster.InitialMember `json:"peers"`
	// URLs are those of the machine's member, Others the client URLs of the other
	// members.
	URLs   cluster.URLs `json:"urls"`
	Others []string     `json:"others,omitempty"`

	// Agreement is about the lease voters, on the way to the daemon.
	Agreement Agreement `json:"agreement,omitzero"`
	// Environment are the operator's variables of etcd.
	Environment []string `json:"environment,omitempty"`
	// MetricsURLs and EtcdAddress are what etcd listens on besides.
	MetricsURLs []string `json:"metricsURLs,omitempty"`
	EtcdAddress string   `json:"etcdAddress,omitempty"`

	// Alone says, when it is handed back, that no other member is needed for etcd to
	// serve.
	Alone bool `json:"alone,omitempty"`
}

// A Handover is what is seen of the daemon's side of the machine.
type Handover struct {
	// Journal is that of an earlier run, nil for none.
	Journal *Journal
	// Busy says that a daemon, or another handover, has the daemon's directory open.
	Busy bool
	// Assigned and Peers are the member that the daemon is to run, and Kept is what the
	// node has promised as a lease voter.
	Assigned *cluster.Assigned
	Peers    []cluster.InitialMember
	Kept     lease.Durable
	// Here is the data in etcdadm's directory, There that in the daemon's, by the
	// incarnation, below DataRoot.
	Here     MemberData
	There    map[cluster.Token]MemberData
	DataRoot string
	// Source is the certificate authority of the program that has the member, Others are
	// those of the other one; when it is handed back, first that of the daemon's peers.
	Source Authority
	Others []Authority
	// Etcd says that the daemon finds the binaries of the version that runs.
	Etcd bool
	// Starters are the files that are there from which etcdadm starts etcd, with its
	// record of the member: by that, an init in the empty directory would bootstrap
	// its cluster again.
	Starters []string
	// Control is what the control store says, nil where it does not answer.
	Control *Control
	// Asked says, when it is handed back, that the other members were asked for the list.
	Asked bool
}

// MemberData is what is in the place of etcd's data.
type MemberData struct {
	Present   bool
	MemberID  cluster.MemberID
	ClusterID cluster.ClusterID
	// Problem says why the data does not show whose it is.
	Problem string
	// Busy says that a process has the database open.
	Busy bool
}

// is says whether the data is that of the member.
func (d MemberData) is(j Journal) bool {
	return d.Problem == "" && d.MemberID == j.MemberID && d.ClusterID == j.ClusterID
}

// An Authority is the files of a certificate authority, compared with the source.
type Authority struct {
	// Dir and Name say where the files are: Name.crt and Name.key.
	Dir, Name string
	// State is CAReady where it is the same as the source, CAOther where it is
	// another one.
	State CAState
	// Problem says why it cannot be used.
	Problem string
}

// Control is what the control store says about incarnations.
type Control struct {
	Incarnations []cluster.Incarnation
	// Unreadable says why a record cannot be understood.
	Unreadable string
	// Created is when a coordinator was first at work, zero for never.
	Created time.Time
	// Seeded says that there is a spec.
	Seeded bool
	// Coordinator is who published the last status, at StatusAt.
	Coordinator cluster.NodeName
	StatusAt    time.Time
}

// AsksCluster says whether the members are to be asked in an observation for a
// handover. After the data is on its way, only the journal is needed to go on.
func (h *Handover) AsksCluster(goal Goal) bool {
	if goal.Action == ToManager {
		return h.Here.Present
	}
	known := len(h.Others) > 1 && h.Others[1].State != CAAbsent
	begun := h.Journal != nil && h.Journal.Direction == FromManager
	return known && !begun && !goal.Manager.Alone && len(FromManagerJournal(goal, h).Peers) > 1
}

// StarterAndRecordPaths returns the files from which etcdadm starts etcd, and its record of the
// member.
func StarterAndRecordPaths(cfg Config) []string {
	return append([]string{cfg.Paths.Record()}, starterPaths(cfg)...)
}

// DecideHandover returns the journal of a handover as the observation has it.
func DecideHandover(goal Goal, cfg Config, obs Observation) (Journal, *Hold) {
	p := &planner{goal: goal, cfg: cfg, obs: obs}
	why := p.decideHandover()
	return p.decided.Journal, why
}

// A handoverDecision is what was decided about a handover.
type handoverDecision struct {
	Journal
	// fresh says that the journal was decided on now: nothing has happened to the
	// member yet.
	fresh bool
	// over says that an earlier run came to the end.
	over bool
}

// flag names where the daemon's directory comes from.
const flag = "--manager-data-dir"

// decideHandover finds out where a handover is, and decides what is not decided yet, or holds
// it.
func (p *planner) decideHandover() *Hold {
	h := p.obs.Handover
	if j := h.Journal; j != nil && j.ManagerDir != p.goal.Manager.ManagerDir && (!h.Here.Present || !j.Done) {
		return hold(ManagerState, flag+"="+j.ManagerDir, "the member was handed over to %s", j.ManagerDir)
	}
	if p.goal.Action == ToManager {
		return p.handToManager()
	}
	return p.takeFromManager()
}

// managerRuns holds a handover while the daemon's directory is open.
func (p *planner) managerRuns() *Hold {
	if !p.obs.Handover.Busy {
		return nil
	}
	return ManagerOpen(p.goal.Manager)
}

// ManagerOpen is the hold for a daemon's directory that somebody else has open.
func ManagerOpen(m Manager) *Hold {
	return hold(ManagerRuns,
		"stop etcd-manager on this machine, and do not let it start until the handover is done",
		"an etcd-manager, or another handover, has %s open", m.ManagerDir)
}

// DataTwice is the hold for data that is in two places.
func DataTwice(a, b string) *Hold {
	return hold(DataForeign, "find out which one is the member's, and move the other one away",
		"there is data both in %s and in %s", a, b)
}
