package machine

import (
	"fmt"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// An Action is what a command is to achieve on the machine.
type Action string

// The actions.
const (
	// Init makes the machine's member the first one of a new cluster.
	Init Action = "init"
	// Join makes it one more member of a running cluster.
	Join Action = "join"
	// Reset takes the member out of its cluster, and its traces off the machine.
	Reset Action = "reset"
	// Remove takes another member, which is dead, out of the cluster.
	Remove Action = "remove"
	// ToManager hands the member over to the daemon etcd-manager.
	ToManager Action = "to-manager"
	// FromManager takes it over again.
	FromManager Action = "from-manager"
)

// A Goal is what a command is to achieve, with what it may do for it.
type Goal struct {
	Action Action
	// Phase, if not empty, is the one phase to carry out; see [Phases].
	Phase string
	// Skip are phases that are left out.
	Skip []string
	// SetAsideData lets Join move data out of the way that is not of the cluster.
	SetAsideData bool
	// ReplaceMember lets Join remove the member that had this machine's address
	// and whose data is gone.
	ReplaceMember bool
	// AcceptVersionRisk is why a person lets Init or Join go on despite what a newer
	// version may not stand in the data; empty for not.
	AcceptVersionRisk string
	// SkipRemoveMember makes Reset leave the cluster's member list alone.
	SkipRemoveMember bool
	// DiscardData makes Reset delete the data instead of moving it aside.
	DiscardData bool
	// RemoveCA makes Reset delete the certificate authority too.
	RemoveCA bool
	// KeepFiles makes Reset take only the member away: its entry in the list, its
	// process and its data. That is how a join that cannot finish is undone.
	KeepFiles bool
	// Target is the member to remove, by name or id.
	Target string
	// TargetID is that member, once it was found; see [Settle].
	TargetID cluster.MemberID
	// Force lets Remove take a member out that is healthy.
	Force bool
	// AnyPeerPorts lets Join give its member a vote although not all members reach its peer
	// port.
	AnyPeerPorts bool
	// Manager is the daemon that takes a member over, or gives one back.
	Manager Manager
}

// A Reason names a kind of [Hold]. Scripts may depend on it.
type Reason string

// The reasons of holds.
const (
	Managed            Reason = "managed"
	DataPresent        Reason = "data-present"
	DataForeign        Reason = "data-foreign"
	DataLost           Reason = "data-lost"
	DataUnreadable     Reason = "data-unreadable"
	CAMissing          Reason = "ca-missing"
	CABroken           Reason = "ca-broken"
	ExternalCA         Reason = "external-ca"
	ClusterUnreachable Reason = "cluster-unreachable"
	LastMember         Reason = "last-member"
	EndpointsDiffer    Reason = "endpoints-differ"
	NameTaken          Reason = "name-taken"
	LearnerPending     Reason = "learner-pending"
	QuorumMargin       Reason = "quorum-margin"
	MemberHealthy      Reason = "member-healthy"
	MemberUnknown      Reason = "member-unknown"
	MemberStarting     Reason = "member-starting"
	VersionStep        Reason = "version-step"
	VersionHazard      Reason = "version-hazard"
	Alarm              Reason = "alarm"
	DataDiffers        Reason = "data-differs"
	NotCompared        Reason = "not-compared"
	DiskFull           Reason = "disk-full"
	NotYet             Reason = "not-yet"
	SettingsInvalid    Reason = "settings-invalid"
	SnapshotRestored   Reason = "snapshot-restored"
	ResetUnfinished    Reason = "reset-unfinished"
	DataElsewhere      Reason = "data-elsewhere"
	ServiceForeign     Reason = "service-foreign"
	StillRunning       Reason = "still-running"
	NotConfigured      Reason = "not-configured"
	PeerPortClosed     Reason = "peer-port-closed"
	InitSystemMissing  Reason = "init-system-missing"

	NotRunning       Reason = "not-running"
	NotVoter         Reason = "not-voter"
	MembersUnsettled Reason = "members-unsettled"
	NameUnfit        Reason = "name-unfit"
	DataApart        Reason = "data-apart"
	DataBusy         Reason = "data-busy"
	ManagerRuns      Reason = "manager-runs"
	ManagerState     Reason = "manager-state"
	CADiffers        Reason = "ca-differs"
	StoreUnreachable Reason = "store-unreachable"
	StoreForeign     Reason = "store-foreign"
	LeaseVotersLost  Reason = "lease-voters-lost"
	Unfinished       Reason = "unfinished"
)

// A Hold is a reason for not going on, with what a person can do about it. It
// is an error too.
type Hold struct {
	Reason Reason `json:"reason"`
	Text   string `json:"text"`
	// Next is the hint: a command, or what to check.
	Next string `json:"next,omitempty"`
	// Wait says that it clears by itself: another join that is under way, a
	// cluster that elects a leader.
	Wait bool `json:"wait,omitempty"`
	// Others says that other machines have to clear it, which may take them hours: the
	// first member is still being installed, or another joins with a slow disk.
	Others bool `json:"others,omitempty"`
	// Momentary says that it may be no more than a moment: voters count as healthy
	// by one observation, which an election or a slow disk spoils.
	Momentary bool `json:"momentary,omitempty"`
}

func hold(reason Reason, next, format string, args ...any) *Hold {
	return &Hold{Reason: reason, Text: fmt.Sprintf(format, args...), Next: next}
}

// lacking holds what there are too few healthy voters for.
func lacking(format string, args ...any) *Hold {
	h := hold(QuorumMargin, "repair the unhealthy members first; etcdadm status lists them", format, args...)
	h.Momentary = true
	return h
}

func (h *Hold) Error() string { return fmt.Sprintf("%s: %s", h.Reason, h.Text) }

// Hint says what to do about it.
func (h *Hold) Hint() string { return h.Next }

// HoldReason is the reason, for programs.
func (h *Hold) HoldReason() string { return string(h.Reason) }

// Kind is the kind of exit code.
func (h *Hold) Kind() string {
	switch h.Reason {
	case QuorumMargin:
		return "quorum-lost"
	case SettingsInvalid:
		return "usage"
	case ClusterUnreachable:
		return "failed"
	case StoreUnreachable:
		return "store-unreachable"
	}
	return "held"
}
