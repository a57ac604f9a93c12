package plan

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A Kind describes one operation: its command line and its contract. The
// commands of etcdadm, their help and docs/operations.md come from this list.
type Kind struct {
	// Path is the command below etcdadm: "member start".
	Path string
	// Short is one line for help.
	Short string
	// Needs is what must hold when it begins; the executor checks it.
	Needs string
	// Done is what holds when it has succeeded; doing it again then is harmless.
	Done string
	// Destructive says that it takes something away.
	Destructive bool
	// New returns a pointer to a zero operation.
	New func() Operation
}

// Kinds returns every operation there is, in the order of the documentation.
func Kinds() []Kind {
	return kinds
}

var kinds = []Kind{
	{
		Path: "member prepare", Short: "promise to take part in a bootstrap",
		Needs: "The node has no etcd data and no assignment, has binaries of the version, and is one of the voters.",
		Done:  "The promise is on the node's disk. A later promise replaces it as long as nothing has started.",
		New:   func() Operation { return &MemberPrepare{} },
	},
	{
		Path: "incarnation create", Short: "write an incarnation record unless one has that number",
		Needs: "The store can create an object only if it is absent. No record of that number with another token exists.",
		Done:  "The record exists with this token. If two daemons try at once, exactly one succeeds.",
		New:   func() Operation { return &IncarnationCreate{} },
	},
	{
		Path: "incarnation mark", Short: "write the marker that says a cluster exists",
		Needs: "The incarnation has a record.",
		Done:  "control/etcd-cluster-created exists.",
		New:   func() Operation { return &IncarnationMark{} },
	},
	{
		Path: "restore stage", Short: "fetch a backup and make a data directory from it, beside the one in use",
		Needs: "The node has binaries of the version, is one of the voters, and has nothing staged but what --replaces " +
			"says. With --lost, no majority of its lease voters is left without those nodes.",
		Done: "The restored data is on the node's disk, beside the data in use. It stays until an order replaces it " +
			"by name.",
		New: func() Operation { return &RestoreStage{} },
	},
	{
		Path: "restore switch", Short: "switch from the running incarnation to the restored one", Destructive: true,
		Needs: "The incarnation has a record, and a voter of it has its data ready. The node runs the expected incarnation.",
		Done: "etcd is stopped, its data is below data-trashcan/, and a voter has promised to take part in the restored " +
			"incarnation.",
		New: func() Operation { return &RestoreSwitch{} },
	},
	{
		Path: "restore discard", Short: "delete what was staged for a restore", Destructive: true,
		Needs: "The incarnation has no record, or the node is not in it.",
		Done:  "The staged data is gone.",
		New:   func() Operation { return &RestoreDiscard{} },
	},
	{
		Path: "request close", Short: "remove a request from the queue",
		Needs: "The store is reachable.",
		Done:  "The request is not queued. One that was refused is in control/closed/ with the reason.",
		New:   func() Operation { return &RequestClose{} },
	},
	{
		Path: "spec write", Short: "write the remembered spec into a store that has lost it, or the spec of a restore",
		Needs: "The store is reachable and has no spec, or the running incarnation was restored for the request.",
		Done:  "control/etcd-cluster-spec exists.",
		New:   func() Operation { return &SpecWrite{} },
	},
	{
		Path: "member start", Short: "start a node's etcd process",
		Needs: "Mode new: the node has promised this token and has never started it. Mode join: the disk is empty. Mode " +
			"restart: the data on the disk is of this token. Binaries of the version are there; data is started with the " +
			"version that wrote it.",
		Done: "The etcd process runs with this token and version.",
		New:  func() Operation { return &MemberStart{} },
	},
	{
		Path: "member stop", Short: "stop a node's etcd process and keep it stopped",
		Needs: "The node runs the expected incarnation as the expected member.",
		Done:  "No etcd process runs on the node, and its daemon starts none by itself.",
		New:   func() Operation { return &MemberStop{} },
	},
	{
		Path: "member change-version", Short: "run a node's member with another etcd version",
		Needs: "The node runs the expected incarnation as the expected member, with the expected version, and has " +
			"binaries of the new one. All voters serve, without an alarm, the others are a majority without it, and no other " +
			"member is between versions. The new version is a patch of the same minor, the next minor, or the one before, " +
			"while another voter still runs that, or etcd has prepared all data for it. The member is not the leader of others.",
		Done: "The new version serves. If it does not come up, the node runs the old one again, the order fails, and " +
			"observe says why.",
		New: func() Operation { return &MemberChangeVersion{} },
	},
	{
		Path:  "member force-snapshot",
		Short: "have a member take a raft snapshot, by entries that change nothing",
		Needs: "The node runs the expected incarnation as the expected member, and the member serves. All members run its " +
			"minor version.",
		Done: "The member's log has nothing after its last raft snapshot that the next minor version could not read: " +
			"requests of the v2 store before 3.6, those of etcd 3.5 itself before 3.7. etcd takes a raft snapshot every 100,000 " +
			"entries, and from 3.6 on every 10,000; what is behind the last one is that much less to propose. Until then the " +
			"node's hazards say how many have been proposed.",
		New: func() Operation { return &MemberForceSnapshot{} },
	},
	{
		Path: "member drain", Short: "have a member finish what clients have asked of it, right before it is removed",
		Needs: "The node runs the expected incarnation as the expected member, with etcd 3.5.21 or later and one client " +
			"URL, and the member may be removed now. The processes of all voters that serve have run for 10 seconds: etcd " +
			"refuses removals before. member remove gives this order by itself where it can be carried out.",
		Done: "The member's client port is closed, and what was asked there is answered. It votes for up to 5 seconds more, " +
			"then its process ends; where it has not been removed until then, its node starts it again.",
		New: func() Operation { return &MemberDrain{} },
	},
	{
		Path: "downgrade enable", Short: "have etcd prepare the cluster for the previous minor version",
		Needs: "The cluster version is the expected one, all members run it, serve, and have raised no alarm, all nodes have " +
			"binaries of the previous minor version, and the spec asks for that or an earlier one. It is 3.5 or later.",
		Done: "The cluster version is the earlier one, and so is the version of each member's data.",
		New:  func() Operation { return &DowngradeEnable{} },
	},
	{
		Path: "downgrade cancel", Short: "end a downgrade that is under way",
		Needs: "The downgrade is to the expected version, and no member is between two versions.",
		Done: "No downgrade is enabled. Where all members run the later version, etcd raises the cluster version again " +
			"within seconds.",
		New: func() Operation { return &DowngradeCancel{} },
	},
	{
		Path: "member add-learner", Short: "add a node's member as a learner",
		Needs: "The cluster has quorum, the expected number of voters and no other learner.",
		Done:  "The member list has a learner with these peer URLs.",
		New:   func() Operation { return &AddLearner{} },
	},
	{
		Path: "member promote", Short: "promote a learner to a voter",
		Needs: "The member is a started, healthy learner and has caught up; the cluster has the expected number of voters. " +
			"The learner and each voter that serves reach each other's peer port, by what their daemons report; it waits " +
			"for the first try, and 10 seconds for one that fails. --accept-unreached=NAME goes on without a voter, as long as " +
			"a leader would reach a majority.",
		Done: "The member is a voter.",
		New:  func() Operation { return &Promote{} },
	},
	{
		Path: "member remove", Short: "remove a member from the cluster", Destructive: true,
		Needs: "The member has the expected name, the cluster the expected number of voters, and those left have quorum.",
		Done:  "The member list has no member with that ID.",
		New:   func() Operation { return &Remove{} },
	},
	{
		Path: "member update", Short: "change a member's peer URLs in etcd to those that its node serves",
		Needs: "etcd has the expected peer URLs on record for the member, all voters are healthy, there is no learner, and " +
			"no other member has yet to be restarted with its new URLs. TLS is not given up, and all members " +
			"have keys where it is switched on. The names in the URLs resolve.",
		Done: "etcd has these peer URLs on record for the member.",
		New:  func() Operation { return &MemberUpdate{} },
	},
	{
		Path: "member move-leader", Short: "make another voter the raft leader",
		Needs: "The member is a healthy voter.",
		Done:  "The member is the raft leader.",
		New:   func() Operation { return &MoveLeader{} },
	},
	{
		Path: "lease-voters write", Short: "record on disk who may grant the coordinator's lease",
		Needs: "The present record has the expected names; the new one differs from it by one name.",
		Done:  "A majority of the old and of the new lease voters has the record on disk.",
		New:   func() Operation { return &LeaseVotersWrite{} },
	},
	{
		Path:  "lease-voters recover",
		Short: "make the voters of a serving cluster its lease voters, if most of the recorded ones are lost",
		Needs: "etcd's quorum, asked through the node, names these voters. Without the lost nodes no majority of the " +
			"recorded lease voters is left, the node has granted nobody a lease that still runs, and the term is above all " +
			"that it has seen.",
		Done: "The node has the record on disk.",
		New:  func() Operation { return &LeaseVotersRecover{} },
	},
	{
		Path:  "lease-voters adopt",
		Short: "make a node a lease voter of a cluster that is taken over from the existing etcd-manager",
		Needs: "The newest incarnation record in the store names these voters, and no coordinator has been at work since " +
			"it was written. Etcd's quorum, asked through the node, names the same ones, and the node runs one of them. All " +
			"their nodes answer, and none has another record.",
		Done: "The node has the record of these lease voters on disk.",
		New:  func() Operation { return &LeaseVotersAdopt{} },
	},
	{
		Path: "data set-aside", Short: "move a node's etcd data aside", Destructive: true,
		Needs: "No etcd process runs on the node; the data on the disk is of the expected incarnation and member, and of " +
			"no current member.",
		Done: "The data is below data-trashcan/, and the node has no assignment.",
		New:  func() Operation { return &DataSetAside{} },
	},
	{
		Path: "data discard", Short: "delete data that was set aside", Destructive: true,
		Needs: "The name is one directory below data-trashcan/, and was set aside at the expected time.",
		Done:  "The directory is gone.",
		New:   func() Operation { return &DataDiscard{} },
	},
	{
		Path: "quarantine set", Short: "keep clients away from a member",
		Needs: "The node has an assignment.",
		Done:  "The member listens on its quarantine URLs instead of its client URLs.",
		New:   func() Operation { return &QuarantineSet{} },
	},
	{
		Path: "quarantine lift", Short: "open a member to clients",
		Needs: "The node has an assignment. Its restart does not break the quorum, or all voters are healthy. With " +
			"--expect-revision, all members have the same data at the same revision, and at least that one.",
		Done: "The member listens on its client URLs.",
		New:  func() Operation { return &QuarantineLift{} },
	},
	{
		Path: "backup take", Short: "write a backup to the store",
		Needs: "The node's member is healthy; the store is reachable.",
		Done:  "A new backup with its metadata file is in the store.",
		New:   func() Operation { return &BackupTake{} },
	},
	{
		Path: "backup verify", Short: "read a whole backup and check all of it",
		Needs: "The store is reachable, and the node has room for the snapshot.",
		Done:  "The backup's record in the store says when it was verified, or that it is damaged.",
		New:   func() Operation { return &BackupVerify{} },
	},
	{
		Path: "backup drill", Short: "restore a backup as a trial, into a private etcd",
		Needs: "The store is reachable, and the node has binaries of the backup's etcd and room for two snapshots.",
		Done:  "The backup's record in the store says when it was restored, and how long that took, or that it is damaged.",
		New:   func() Operation { return &BackupDrill{} },
	},
	{
		Path: "backup prune", Short: "delete backups that the retention rules do not keep", Destructive: true,
		Needs: "None of the names is the newest backup.",
		Done:  "The backups are gone from the store.",
		New:   func() Operation { return &BackupPrune{} },
	},
}

// KindOf returns the description of op.
func KindOf(op Operation) Kind { return kindOf(op) }

func kindOf(op Operation) Kind {
	for _, k := range kinds {
		if k.Path == op.kind() {
			return k
		}
	}
	panic(fmt.Sprintf("plan: %s is not in the list of kinds", reflect.TypeOf(op)))
}

// Validate reports what op lacks to be carried out: a required flag, or a
// value outside its range.
func Validate(op Operation) error {
	k := kindOf(op)
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s", k.Path, fmt.Sprintf(format, args...))
	}
	v := reflect.ValueOf(op).Elem()
	for _, f := range k.Flags() {
		field := v.Field(f.index)
		if field.IsZero() || f.Repeated && field.Len() == 0 {
			if optional[k.Path+" "+f.Name] {
				continue
			}
			return fail("--%s is missing", f.Name)
		}
		if err := validateFlag(k.Path+" "+f.Name, f, field); err != nil {
			return fail("--%s: %v", f.Name, err)
		}
	}
	if s, ok := op.(*MemberStart); ok {
		switch s.Mode {
		case StartNew, StartJoin, StartRestart:
		default:
			return fail("--mode=%s is not new, join or restart", s.Mode)
		}
	}
	if c, ok := op.(*MemberChangeVersion); ok && (c.AcceptRisk == "") != (len(c.AcceptHazards) == 0) {
		return fail("--accept-version-risk and --accept-hazard go together")
	}
	if c, ok := op.(*RequestClose); ok && c.Outcome != OutcomeDone && c.Outcome != OutcomeRefused {
		return fail("--outcome=%s is not done or refused", c.Outcome)
	}
	return nil
}

// validateFlag asks the value of a flag, or each of its values, for what is
// wrong with it.
func validateFlag(name string, f Flag, v reflect.Value) error {
	if f.Repeated {
		f.Repeated = false
		for i := range v.Len() {
			if err := validateFlag(name, f, v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}
	switch name {
	case "member remove expect-name":
		return nil // it is only compared: a member may have been named by others
	case "member add-learner peer-url":
		return cluster.ValidatePeerURL(v.String())
	case "backup prune remove", "backup verify name", "backup drill name", "data discard name", "restore stage backup",
		"restore stage request", "request close name",
		"incarnation create backup", "incarnation create request", "spec write request":
		return validateComponent(v.String())
	}
	if c, ok := v.Interface().(interface{ Validate() error }); ok {
		return c.Validate()
	}
	return nil
}

// validateComponent makes sure that a name below a directory does not leave it.
func validateComponent(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\\x00") {
		return fmt.Errorf("%q is not a plain file name", name)
	}
	return nil
}

// optional lists the flags that may be missing: a member that never started
// has no name, a node may not know its member id, an incarnation need not be
// restored from anything.
var optional = map[string]bool{
	"member remove expect-name":       true,
	"member stop expect-member-id":    true,
	"data set-aside expect-member-id": true,
	"data set-aside token":            true,
	"member start peer":               true,
	"member start accept-data":        true,
	"member promote accept-unreached": true,

	"member change-version accept-version-risk": true,
	"member change-version accept-hazard":       true,
	"lease-voters write expect":                 true,
	"lease-voters recover expect":               true,
	"lease-voters recover lost":                 true,
	"incarnation create request":                true,
	"incarnation create backup":                 true,
	"incarnation create revision":               true,
	"incarnation create before":                 true,
	"restore stage lost":                        true,
	"restore stage replaces":                    true,
	"restore switch expect-token":               true,
	"request close reason":                      true,
	"spec write request":                        true,
	"quarantine lift expect-revision":           true,
}
