package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A question is all by which a machine decides about incarnation and lease voters.
type question struct {
	now  time.Time
	self cluster.NodeName
	// id, version and voters are what the cluster says, through its quorum.
	id      cluster.ClusterID
	version etcdversion.Version
	voters  []cluster.InitialMember
	// control is what the control store says.
	control Control
	// kept is what the machine has promised when it was run by a daemon before.
	kept lease.Durable
	// renew begins a new incarnation where the lease voters on record are of no use.
	renew bool
}

// An Agreement is what all machines of a cluster have in common, and what this
// one makes of it. See package handover for why it is safe.
type Agreement struct {
	// Record is the incarnation; Create says that it is yet to be written.
	Record cluster.Incarnation `json:"record"`
	Create bool                `json:"-"`
	// LeaseVoters are those that this machine begins with, none for it to begin
	// without a record, or with the one that it has.
	LeaseVoters []cluster.NodeName `json:"leaseVoters,omitempty"`
	// Why says why there are none.
	Why string `json:"why,omitempty"`
}

// agree decides. It is a function of values.
func agree(q question) (Agreement, *Hold) {
	records := q.control.Incarnations
	if len(records) == 0 {
		if !q.control.Created.IsZero() {
			return Agreement{}, hold(StoreForeign, "choose another --backup-store",
				"the store says that a cluster was created on %s, but not which one", q.control.Created.UTC().Format(time.RFC3339))
		}
		return q.begin(1), nil
	}
	last := records[len(records)-1]
	if !q.ours(last.Token) {
		return Agreement{}, hold(StoreForeign, "choose another --backup-store; backups in the old one stay readable",
			"the store belongs to incarnation %s, but this cluster is %s", last.Token, q.id)
	}
	if q.renew && !sameNames(last.Voters, q.voters) {
		return q.begin(last.Number + 1), nil
	}
	return q.follow(last)
}

// ours says whether a token is of this cluster: it is the cluster's id, with
// the number of the incarnation behind it from the second one on.
func (q question) ours(t cluster.Token) bool {
	id := q.id.String()
	return string(t) == id || strings.HasPrefix(string(t), id+"-")
}

// begin decides for all machines.
func (q question) begin(number int) Agreement {
	token := q.id.String()
	if len(q.control.Incarnations) > 0 {
		token += fmt.Sprintf("-%d", number)
	}
	return Agreement{
		Create: true,
		Record: cluster.Incarnation{
			Number: number, Token: cluster.Token(token), Version: q.version, Voters: q.voters, At: q.now, By: q.self,
		},
		LeaseVoters: cluster.InitialMemberNames(q.voters),
	}
}

// follow takes what another machine has decided.
func (q question) follow(r cluster.Incarnation) (Agreement, *Hold) {
	a := Agreement{Record: r}
	names := cluster.InitialMemberNames(r.Voters)
	own := q.kept.LeaseVoters
	switch {
	case own.Token == r.Token && len(own.Names) > 0:
		names = own.Names
		a.Why = fmt.Sprintf("the machine already has a record of %s", namesOf(names))
	case !slices.Contains(names, q.self):
		a.Why = fmt.Sprintf("the first machine that was handed over has recorded %s; the coordinator will add this one",
			namesOf(names))
	case q.control.Created.Equal(cluster.MarkerUnknown):
		a.Why = "the store does not show whether a coordinator has been at work; it will add this machine"
	case !q.control.Created.IsZero() && !q.control.Created.Before(r.At):
		a.Why = "a coordinator has been at work, and the lease voters may have changed; it will add this machine"
	default:
		a.LeaseVoters = names
	}
	left := 0
	for _, v := range q.voters {
		if slices.Contains(names, v.Name) {
			left++
		}
	}
	if left < cluster.Quorum(len(names)) {
		return a, hold(LeaseVotersLost,
			"hand back the machines that a daemon runs, then give --new-incarnation on the first one that is handed "+
				"over again",
			"the recorded lease voters of the daemons are %s, of which %d are voters; they can elect no coordinator",
			namesOf(names), left)
	}
	return a, nil
}

func sameNames(a, b []cluster.InitialMember) bool {
	return slices.Equal(cluster.InitialMemberNames(a), cluster.InitialMemberNames(b))
}

func namesOf(names []cluster.NodeName) string {
	words := make([]string, len(names))
	for i, n := range names {
		words[i] = string(n)
	}
	return strings.Join(words, ", ")
}
