package machine

import (
	"fmt"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
)

// A Step is one change, in the phase that it belongs to.
type Step struct {
	Phase string
	Do    Operation
}

// Text says in a line what the step does.
func (s Step) Text() string { return s.Do.text() }

// An Operation is one change of this machine, or of the cluster from here. It
// is one of the structs below.
type Operation interface{ text() string }

// Remember writes the machine's record.
type Remember struct{ Record Record }

// InstallBinaries puts etcd, etcdctl and etcdutl into a directory.
type InstallBinaries struct {
	Version etcdversion.Version
	Dir     string
}

// CreateCA makes the certificate authority.
type CreateCA struct{ Dir string }

// IssueCertificates issues the pairs that are missing or not what they must
// be.
type IssueCertificates struct {
	Dir   string
	Pairs []WrongPair
}

// RestoreSnapshot makes the data directory from a snapshot.
type RestoreSnapshot struct {
	File          string
	DataDir       string
	Token         cluster.Token
	InitialMember cluster.InitialMember
	// SkipHashCheck takes a database file without its digest.
	SkipHashCheck bool
	// BumpRevision is by how much the revision is raised.
	BumpRevision int
}

// MakeDataDir makes the data directory, or gives it the right owner.
type MakeDataDir struct{ Path string }

// SetDataAside moves the data out of the way.
type SetDataAside struct {
	Path     string
	MemberID cluster.MemberID
}

// DiscardData deletes the data.
type DiscardData struct {
	Path     string
	MemberID cluster.MemberID
}

// WriteFiles writes files as a whole.
type WriteFiles struct{ Files []initfiles.File }

// RemoveFiles deletes files.
type RemoveFiles struct{ Paths []string }

// StartService starts etcd and has the init system keep it running.
type StartService struct {
	// Restart says that a process runs, with other settings.
	Restart bool
	// Manifest is what the kubelet is given, empty for the other init systems.
	Manifest string
}

// StopService stops etcd and has the init system leave it alone.
type StopService struct{}

// AwaitHealth waits until this machine's etcd serves.
type AwaitHealth struct {
	// Bootstrap says that it is about to bootstrap its cluster: it is not waited for any
	// longer once it is [Stuck].
	Bootstrap bool
}

// ForceSnapshot has this machine's etcd take a raft snapshot, so that its log has nothing
// from before it.
type ForceSnapshot struct{}

// Membership changes the member list, or who leads.
type Membership struct{ Operation plan.Operation }

func (o *Remember) text() string {
	if o.Record == (Record{}) {
		return "forget the member"
	}
	switch {
	case o.Record.Undoing:
		return "record that the join is undone"
	case o.Record.Others != "":
		return "record the other members"
	case o.Record.Served:
		return "record that the member has data"
	}
	switch o.Record.Action {
	case Init:
		return "record that a cluster is bootstrapped here"
	case Reset:
		if o.Record.Last {
			return "record that the last member of the cluster leaves"
		}
		return "record that nothing is left to do in the cluster"
	}
	return "record that the member joins"
}

func (o *InstallBinaries) text() string {
	return fmt.Sprintf("install etcd %s into %s", o.Version, o.Dir)
}

func (o *CreateCA) text() string { return "create a certificate authority in " + o.Dir }

func (o *IssueCertificates) text() string {
	words := make([]string, len(o.Pairs))
	for i, p := range o.Pairs {
		words[i] = fmt.Sprintf("%s (%s)", p.Name, p.Why)
	}
	return fmt.Sprintf("issue certificates in %s: %s", o.Dir, strings.Join(words, ", "))
}

func (o *RestoreSnapshot) text() string {
	return fmt.Sprintf("restore the snapshot %s into %s", o.File, o.DataDir)
}

func (o *MakeDataDir) text() string { return "make the data directory " + o.Path }

func (o *SetDataAside) text() string {
	return fmt.Sprintf("move the data of %s in %s aside", ofMember(o.MemberID), o.Path)
}

func (o *DiscardData) text() string {
	return fmt.Sprintf("delete the data of %s in %s", ofMember(o.MemberID), o.Path)
}

func ofMember(id cluster.MemberID) string {
	if id == 0 {
		return "an unknown member"
	}
	return "member " + id.String()
}

func (o *WriteFiles) text() string {
	paths := make([]string, len(o.Files))
	for i, f := range o.Files {
		paths[i] = f.Path
	}
	return "write " + strings.Join(paths, ", ")
}

func (o *RemoveFiles) text() string { return "delete " + strings.Join(o.Paths, ", ") }

func (o *StartService) text() string {
	if o.Restart {
		return "restart etcd"
	}
	return "start etcd"
}

func (o *StopService) text() string { return "stop etcd" }

func (o *AwaitHealth) text() string { return "wait until etcd serves" }

func (o *ForceSnapshot) text() string {
	return "have etcd take a raft snapshot: its log has entries that the next minor version cannot read"
}

func (o *Membership) text() string { return plan.Line(o.Operation) }

// Promotes says whether op gives a learner its vote, which may have to wait
// until it has caught up.
func Promotes(op *Membership) bool {
	_, ok := op.Operation.(*plan.Promote)
	return ok
}

// MovesLeader says whether op has another member lead.
func MovesLeader(op *Membership) bool {
	_, ok := op.Operation.(*plan.MoveLeader)
	return ok
}
