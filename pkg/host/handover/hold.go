package handover

import "fmt"

// A Rule names a kind of [Hold]. Scripts may depend on it.
type Rule string

// The rules that can hold.
const (
	// NotRunning: the member to be handed over does not answer.
	NotRunning Rule = "not-running"
	// NotVoter: the machine's member has no vote yet.
	NotVoter Rule = "not-voter"
	// ClusterSilent: nobody tells the member list through the quorum.
	ClusterSilent Rule = "cluster-silent"
	// MembersUnsettled: the list has a learner, or a member that has never started.
	MembersUnsettled Rule = "members-unsettled"
	// QuorumMargin: not all voters are healthy.
	QuorumMargin Rule = "quorum-margin"
	// NameUnfit: the member's name or URLs are not what the other side can have.
	NameUnfit Rule = "name-unfit"
	// DataForeign: the data is not the member's, or there is data on both sides.
	DataForeign Rule = "data-foreign"
	// DataApart: the data directories are on different file systems.
	DataApart Rule = "data-apart"
	// DataBusy: a process has the database open.
	DataBusy Rule = "data-busy"
	// ManagerRuns: etcd-manager has its data directory open.
	ManagerRuns Rule = "manager-runs"
	// ManagerState: the daemon's data directory tells of something else.
	ManagerState Rule = "manager-state"
	// CADiffers: the certificate authorities do not go together.
	CADiffers Rule = "ca-differs"
	// StoreForeign: the control store is that of another cluster.
	StoreForeign Rule = "store-foreign"
	// ElectorsLost: the electors on record are no majority of anything any more.
	ElectorsLost Rule = "electors-lost"
	// Unfinished: a handover the other way round was begun.
	Unfinished Rule = "unfinished"
)

// A Hold is a reason for not going on: nothing was changed by the step that it
// holds. It is an error too.
type Hold struct {
	Rule Rule
	Text string
	// Next is the hint: a command, or what to look at.
	Next string
}

func hold(rule Rule, next, format string, args ...any) *Hold {
	return &Hold{Rule: rule, Text: fmt.Sprintf(format, args...), Next: next}
}

func (h *Hold) Error() string { return fmt.Sprintf("%s: %s", h.Rule, h.Text) }

// Hint says what to do about it.
func (h *Hold) Hint() string { return h.Next }

// Kind is the kind of exit code.
func (h *Hold) Kind() string {
	if h.Rule == QuorumMargin {
		return "quorum-lost"
	}
	return "held"
}
