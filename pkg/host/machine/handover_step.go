package machine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// CopyCA makes certificate authorities that are the same as another one.
type CopyCA struct {
	From  Authority
	Dir   string
	Names []string
}

// RecordIncarnation writes an incarnation into the control store, unless another
// machine was faster. Before that the move has to be possible.
type RecordIncarnation struct {
	Record cluster.Incarnation
	Move   MoveData
}

// WriteJournal writes the journal of a handover. Before the first time the move, if
// there is one, has to be possible.
type WriteJournal struct {
	Path    string
	Journal Journal
	Move    MoveData
}

// MoveData renames etcd's data from one data directory into another.
type MoveData struct {
	From, To string
	MemberID cluster.MemberID
	// ChangeOwner has etcdadm see that the data is to be given to the user that
	// runs etcd.
	ChangeOwner bool
}

// AssignMember assigns the member of the journal to the daemon.
type AssignMember struct {
	Dir     string
	Journal Journal
}

// UnassignMember withdraws the member from the daemon.
type UnassignMember struct{ Dir string }

// RunMember has etcdadm configure and start the member. Action is Init where no other
// member is to be asked.
type RunMember struct {
	Action  Action
	Token   cluster.Token
	Version etcdversion.Version
}

// EndHandover deletes the journal, and the daemon's empty data directory.
type EndHandover struct{ Journal, DataDir string }

func (o *CopyCA) text() string {
	return fmt.Sprintf("copy the certificate authority %s in %s to %s in %s", o.From.Name, o.From.Dir,
		strings.Join(o.Names, ", "), o.Dir)
}

func (o *RecordIncarnation) text() string {
	r := o.Record
	return fmt.Sprintf("record in the store: incarnation %d, %s, of %s", r.Number, r.Token,
		namesOf(cluster.InitialMemberNames(r.Voters)))
}

func (o *WriteJournal) text() string {
	if o.Journal.Done {
		return "record that it is done"
	}
	return "record the decision in " + o.Path
}

func (o *MoveData) text() string {
	return fmt.Sprintf("move the data of member %s from %s to %s", o.MemberID, o.From, o.To)
}

func (o *AssignMember) text() string { return fmt.Sprintf("assign it to etcd-manager in %s", o.Dir) }

func (o *UnassignMember) text() string {
	return fmt.Sprintf("withdraw it from etcd-manager in %s", o.Dir)
}

func (o *RunMember) text() string {
	return "have etcdadm configure and start etcd " + o.Version.String()
}

func (o *EndHandover) text() string { return "delete " + o.Journal }

// predictHandover is [Predict] for the daemon's side of the machine.
func predictHandover(cfg Config, obs Observation, op Operation) Observation {
	h := *obs.Handover
	switch op := op.(type) {
	case *CopyCA:
		h.Others = slices.Clone(h.Others)
		for i := range h.Others {
			if h.Others[i].State == CAAbsent {
				h.Others[i].State = CAReady
			}
		}
	case *InstallBinaries:
		h.Etcd = true
	case *RecordIncarnation:
		c := *h.Control
		c.Incarnations = append(slices.Clone(c.Incarnations), op.Record)
		h.Control = &c
	case *WriteJournal:
		h.Journal = &op.Journal
	case *StopService:
		obs.Service, obs.Local = ServiceStatus{State: ServiceStopped}, nil
	case *RemoveFiles:
		h.Starters = nil
	case *MoveData:
		data := MemberData{Present: true, MemberID: h.Journal.MemberID, ClusterID: h.Journal.ClusterID}
		if op.To == cfg.Paths.Data {
			h.Here, h.There = data, nil
		} else {
			h.Here, h.There = MemberData{}, map[cluster.Token]MemberData{h.Journal.Token: data}
		}
	case *AssignMember:
		h.Assigned = &cluster.Assigned{Token: op.Journal.Token, Version: op.Journal.Version}
	case *UnassignMember:
		h.Assigned = nil
	case *RunMember:
		j := *h.Journal
		j.Done = true
		h.Journal = &j
	case *EndHandover:
		h.Journal = nil
	}
	obs.Handover = &h
	return obs
}
