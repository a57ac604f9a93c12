package handover

import "fmt"

// A Reason names a kind of [Hold]. Scripts may depend on it.
type Reason string

// The rules that can hold.
const (
	// NotRunning: the member to be handed over does not answer.
	NotRunning Reason = "not-running"
	// NotVoter: the machine's member has no vote yet.
	NotVoter Reason = "not-voter"
	// ClusterUnreachable: nobody tells the member list through the quorum.
	ClusterUnreachable Reason = "cluster-unreachable"
	// MembersUnsettled: the list has a learner, or a member that has never started.
	MembersUnsettled Reason = "members-unsettled"
	// QuorumMargin: not all voters are healthy.
	QuorumMargin Reason = "quorum-margin"
	// NameUnfit: the member's name or URLs are not what the other side can have.
	NameUnfit Reason = "name-unfit"
	// DataForeign: the data is not the member's, or there is data on both sides.
	DataForeign Reason = "data-foreign"
	// DataApart: the data directories are on different file systems.
	DataApart Reason = "data-apart"
	// DataBusy: a process has the database open.
	DataBusy Reason = "data-busy"
	// ManagerRuns: etcd-manager has its data directory open.
	ManagerRuns Reason = "manager-runs"
	// ManagerState: the daemon's data directory tells of something else.
	ManagerState Reason = "manager-state"
	// CADiffers: the certificate authorities do not go together.
	CADiffers Reason = "ca-differs"
	// StoreForeign: the control store is that of another cluster.
	StoreForeign Reason = "store-foreign"
	// LeaseVotersLost: the lease voters on record are no majority of anything any more.
	LeaseVotersLost Reason = "lease-voters-lost"
	// Unfinished: a handover the other way round was begun.
	Unfinished Reason = "unfinished"
)

// A Hold is a reason for not going on: nothing was changed by the step that it
// holds. It is an error too.
type Hold struct {
	Reason Reason
	Text   string
	// Next is the hint: a command, or what to check.
	Next string
}

func hold(rule Reason, next, format string, args ...any) *Hold {
	return &Hold{Reason: rule, Text: fmt.Sprintf(format, args...), Next: next}
}

func (h *Hold) Error() string { return fmt.Sprintf("%s: %s", h.Reason, h.Text) }

// Hint says what to do about it.
func (h *Hold) Hint() string { return h.Next }

// Kind is the kind of exit code.
func (h *Hold) Kind() string {
	if h.Reason == QuorumMargin {
		return "quorum-lost"
	}
	return "held"
}
