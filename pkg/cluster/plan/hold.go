package plan

import "fmt"

// A Hold is a reason for not acting.
type Hold struct {
	Reason Reason `json:"reason"`
	Text   string `json:"text"`
}

func (h Hold) String() string { return fmt.Sprintf("hold %s: %s", h.Reason, h.Text) }

// A Reason names a kind of hold. The list is closed, see [Reasons].
type Reason string

// The rules that can hold.
const (
	SpecMissing       Reason = "spec-missing"
	SpecInvalid       Reason = "spec-invalid"
	Paused            Reason = "paused"
	Restoring         Reason = "restoring"
	ClusterName       Reason = "cluster-name"
	NameConflict      Reason = "name-conflict"
	ClockSkew         Reason = "clock-skew"
	BackupsGone       Reason = "backups-gone"
	BackupsUncounted  Reason = "backups-uncounted"
	StoreUnreachable  Reason = "store-unreachable"
	StoreNotShared    Reason = "store-not-shared"
	RecordInvalid     Reason = "record-invalid"
	WaitingForNodes   Reason = "waiting-for-nodes"
	ClusterLost       Reason = "cluster-lost"
	NewCluster        Reason = "new-cluster"
	Bootstrap         Reason = "bootstrap"
	QuorumLost        Reason = "quorum-lost"
	QuorumMargin      Reason = "quorum-margin"
	MemberStarting    Reason = "member-starting"
	Grace             Reason = "grace"
	NoSpare           Reason = "no-spare"
	LearnerBehind     Reason = "learner-behind"
	BinaryMissing     Reason = "binary-missing"
	VersionDiffers    Reason = "version-differs"
	VersionHazard     Reason = "version-hazard"
	VersionFailed     Reason = "version-failed"
	DiskUnreadable    Reason = "disk-unreadable"
	DiskFull          Reason = "disk-full"
	DiskHung          Reason = "disk-hung"
	DiskSlow          Reason = "disk-slow"
	NotServing        Reason = "not-serving"
	NeverStarted      Reason = "never-started"
	PeerURLDiffers    Reason = "peer-url-differs"
	AccessDenied      Reason = "access-denied"
	NoReport          Reason = "no-report"
	Alarm             Reason = "alarm"
	DataDiffers       Reason = "data-differs"
	LeaseVotersDiffer Reason = "lease-voters-differ"
	LeaseVotersLost   Reason = "lease-voters-lost"
	NodeUnreachable   Reason = "node-unreachable"
	NoCoordinator     Reason = "no-coordinator"
	NotYet            Reason = "not-yet"
	OperationFailed   Reason = "operation-failed"
)

// A ReasonDoc explains a rule to the person who reads the hold.
type ReasonDoc struct {
	Reason Reason
	// Means says what the daemon saw; Do says what a person can do.
	Means, Do string
}

// Reasons returns every rule with its explanation, in the order of the
// documentation. docs/holds.md and "etcd-manager-ctl explain" print it.
func Reasons() []ReasonDoc { return ruleDocs }

// Explain returns the explanation of r; ok is false for an unknown rule.
func Explain(r Reason) (ReasonDoc, bool) {
	for _, d := range ruleDocs {
		if d.Reason == r {
			return d, true
		}
	}
	return ReasonDoc{}, false
}

var ruleDocs = []ReasonDoc{
	{SpecMissing,
		"The control store has no spec (control/etcd-cluster-spec). A cluster that runs is kept as its nodes remember the " +
			"spec; a new one is not bootstrapped.",
		"Write one: etcd-manager-ctl --backup-store=STORE --member-count=3 --etcd-version=VERSION configure-cluster."},
	{SpecInvalid,
		"The spec in the store cannot be understood or asks for something that cannot be. Until it is fixed nothing is " +
			"changed.",
		"The text says which field. Write it again with etcd-manager-ctl --backup-store=STORE configure-cluster."},
	{Paused,
		"An operator asked the coordinator to leave the cluster alone. Nodes still restart their own etcd processes.",
		"Run etcd-manager-ctl --backup-store=STORE resume when you are done."},
	{Restoring,
		"A restore that was asked for is under way: nodes fetch the backup and make data directories of it, beside what " +
			"runs, or the restored cluster is coming up. Until the incarnation's record is written, everything runs on as " +
			"it was.",
		"Wait; the text says how far each node is, or what went wrong. To give it up before the record is written: " +
			"etcd-manager-ctl --backup-store=STORE delete-command BACKUP."},
	{ClusterName,
		"Daemons answer, and belong to a cluster of another name than the one that was asked for, so they tell nothing " +
			"more. That says nothing of how their cluster is.",
		"Give the name that the text has as --cluster-name. Where a daemon has the wrong name or the wrong --seeds, start " +
			"it with the right ones."},
	{NameConflict,
		"Two daemons at different addresses use the same node name, or a node has the data of a member that goes by " +
			"another name. Which of them is meant cannot be known, so nothing is planned that involves the name.",
		"Stop one of them, or give it another --node-name (or another myid file in its data directory); give a machine " +
			"that changed its name the old one."},
	{ClockSkew,
		"A node's clock differs from the coordinator's by more than the policy allows, or the newest backup lies in the " +
			"future. Nothing is deleted by its age; repairs and backups go on, the latter from nodes with the right time.",
		"Fix time synchronisation on the node that the text names."},
	{BackupsGone,
		"The newest backup in the store is older than one that was there: the store was rolled back, or newer backups " +
			"were deleted, or do not count any more. A restore would lose more than it seems. Everything goes on; the next " +
			"backup ends this.",
		"Find out what became of the backup that the text names, before anything is restored: versions and undelete of " +
			"the bucket, a copy of the store, who can write to it."},
	{BackupsUncounted,
		"The store has folders of backups, and none of them counts as a backup: they are signed by nobody who is trusted, " +
			"or cannot be understood. There is nothing to restore from. Everything goes on; the next backup that counts " +
			"ends this.",
		"The text says why. Where signers are trusted, give the daemons the key of one of them, or trust who signed."},
	{StoreUnreachable,
		"The control store does not answer. The cluster keeps running and processes are restarted, but no step is taken " +
			"that must be preceded by a backup or recorded in the store.",
		"Restore access to the store; the text has the error. Nothing needs to be restarted."},
	{StoreNotShared,
		"A cluster is about to be bootstrapped or a backup to be taken, but the records of the nodes that it needs do not " +
			"appear in the store that the coordinator reads. Each node seems to have a store of its own, so the store cannot " +
			"decide between two initial members, and a backup would not be found. Or a node has promised a bootstrap that may " +
			"have been decided in another store.",
		"Point every node's --backup-store to the same place. For bootstrap it is also enough to name all nodes with " +
			"--seeds, so that a majority of the list can decide."},
	{RecordInvalid,
		"An incarnation record in the store (control/incarnations/) cannot be understood. The cluster is maintained and " +
			"backed up, but no record is written and no initial member is started.",
		"The text says which. Run a release that knows it, or fix the record, or delete it if it is of no incarnation " +
			"that ever was."},
	{WaitingForNodes,
		"A cluster is to be bootstrapped and too few nodes are there, or a known node has not answered and might hold data.",
		"Start the missing nodes. If a machine is gone for good, remove its record with etcd-manager-ctl " +
			"--backup-store=STORE forget-node NAME."},
	{ClusterLost,
		"Something says that a cluster existed (a marker, an incarnation record, a backup), but no reachable node has its " +
			"data. A new cluster is never made over the remains of another by itself.",
		"Bring back a node that has the data. If all are lost, request a restore: etcd-manager-ctl --backup-store=STORE " +
			"restore-backup NAME; if the remains are of no value, use an empty store."},
	{NewCluster,
		"No node has data, and none is asked for a new cluster. The daemons were started with --static-config or " +
			"--volume-provider=external, where an empty store does not tell that there never was a cluster: an empty disk may " +
			"be all that is left of one.",
		"Mount the disk that has the data. If there never was any, make the empty file please-create-new-cluster in the data " +
			"directory of one node; it is removed when the cluster has begun."},
	{Bootstrap,
		"The initial member have been started, or are about to be, and are not healthy yet.",
		"Wait; if it stays, check the log lines of the members that the text names. An initial member that never comes " +
			"back needs its machine or, before any data exists, an empty store."},
	{QuorumLost,
		"Fewer voters are healthy than a majority needs, so etcd can neither write nor change its members. Nothing is " +
			"taken away.",
		"Bring back machines that hold voters: their members start by themselves from their own disks. Where voters run " +
			"and do not serve, see to what disk-hung, not-serving and no-report say of them. If they are gone for good, a " +
			"member that is left has lost less than any backup: save its database with etcdadm snapshot save STORE-URL (it " +
			"needs no quorum), then etcd-manager-ctl --backup-store=STORE restore-backup NAME --lost=NODE,NODE " +
			"--member-count=N."},
	{QuorumMargin,
		"The next membership change would leave the cluster without a healthy majority.",
		"Bring the unhealthy voters back first."},
	{MemberStarting,
		"A member was started and is not healthy yet.",
		"Wait; if it stays, check its log lines in etcd-manager-ctl --backup-store=STORE status."},
	{Grace,
		"A voter is unhealthy, but not yet for as long as the grace time. It may come back by itself.",
		"Wait, or bring the machine back. The time is set by --replace-grace."},
	{NoSpare,
		"The cluster needs another member, and no node is free to run it: free is a reachable node without a member, with " +
			"an empty or stale disk and the binaries.",
		"Start another node, or lower the member count."},
	{LearnerBehind,
		"A new member has not caught up with the leader. It is removed again when it takes longer than the learner timeout.",
		"Wait. If it comes again and again, check the node's disk and network."},
	{BinaryMissing,
		"A node has no binaries of the etcd version that it would have to run.",
		"Install the version on the node in one of the places of --etcd-dir, or change the spec."},
	{VersionDiffers,
		"The members run another etcd version than the spec says, and the next step towards it cannot be made: there is " +
			"no way for a running cluster, or something has to be right first. The text says what.",
		"The text says what is in the way. docs/versions.md has what can become what, and how. Setting the spec back to " +
			"the version that runs ends it."},
	{VersionHazard,
		"The data of a member has something that the next minor version of etcd does not stand: keys of the v2 store, " +
			"members that only the database knows, or old entries in the log. docs/versions.md says what each is.",
		"The text has the cure. The node looks again within half a minute; etcdadm upgrade check looks at once. To go on " +
			"in spite of it: etcd-manager-ctl --backup-store=STORE --etcd-version=VERSION --accept-version-risk=REASON " +
			"configure-cluster."},
	{VersionFailed,
		"A member did not come up with the new etcd version. Its node has gone back to the old one where that was still " +
			"possible, and no other member is changed.",
		"The text has etcd's last words. Put right what they say, and try that member again with the command in the text; " +
			"or set the spec back: etcd-manager-ctl --backup-store=STORE configure-cluster --etcd-version=OLD."},
	{DiskUnreadable,
		"A node's data directory holds something that cannot be read or understood. It is left alone.",
		"The text says what. Fix it, or move it away by hand."},
	{DiskFull,
		"A node has too little space. etcd makes each file of its log (64 MB) beforehand and ends where it cannot, so a " +
			"member is named before that: it is not made leader, is removed first when the cluster shrinks, and no new " +
			"member goes there. To restore a backup a node needs room for the snapshot and for the database that is made of " +
			"it, while the old data stays. An etcd that crashes because its disk is full has lost nothing: it is replaced " +
			"only where another node has the room.",
		"Make room below its data directory (old data is in data-trashcan/): an etcd that crashed starts again on its own " +
			"data. A restore may also go on fewer nodes, with --member-count."},
	{DiskHung,
		"A write to the disk of a node does not end, or fails. etcd goes on to answer from memory there, and cannot " +
			"commit anything, so its member does not count for a majority. It is replaced after the grace time where a node " +
			"is free to take its place; nothing is ordered from a node whose disk hangs.",
		"The text names the machine and the directory. Check the disk: dmesg, smartctl, the cloud's console, the mount's " +
			"server. What hangs for good ends with a restart of the machine; or start a spare node."},
	{DiskSlow,
		"Several writes in a row to a node's disk took half a second or more. Its member serves, but is not made leader, " +
			"and is read for a backup last; a leader with a slow disk hands over to a voter with a good one.",
		"Find out who else uses the disk, or what limits it (burst credits, a rebuild of a RAID). etcd wants less than 10 " +
			"ms for a write."},
	{NotServing,
		"A member answers and serves no read through the quorum, or does not follow the log. Nothing relies on it " +
			"meanwhile; after ten seconds it counts as unhealthy, and it is replaced after the grace time, or, where its " +
			"disk is good, after the learner timeout: it may be receiving the whole database, or be defragmented.",
		"Wait; if it stays, check the load, the network between the members, and the log lines of its etcd."},
	{NeverStarted,
		"The member list has a voter that somebody else added (etcdctl member add) and that has never started. It counts " +
			"for the majority that etcd needs. It is removed after the grace time where the others are a majority without it.",
		"Start it, or remove it: etcdctl member remove ID. Where etcd refuses that for want of a majority, start an etcd " +
			"with the peer URL that the text names; use etcdctl member add --learner, or leave adding to the daemons."},
	{PeerURLDiffers,
		"etcd's member list has another peer URL for a member than the one that its node serves: the machine has another " +
			"address than when the member was added. The other members look for it in the wrong place; it may reach them, " +
			"or not. The record follows by itself, one member at a time, when all voters are healthy and no learner is there; " +
			"not where TLS would be given up.",
		"Bring the unhealthy voters back. Or give the machine its old address back, or change the record with the command that " +
			"the text has, on a machine " +
			"that can reach etcd and with its certificates. One member at a time, and only while a majority is healthy."},
	{AccessDenied,
		"etcd runs, has authentication on, and denies the daemon, which cannot tell how its member does, nor take backups " +
			"there. The cluster itself may be in order: nothing is restored or replaced.",
		"Give the daemons' certificates the role root, by their common names: etcdctl --user=root user add " +
			"etcd-manager-NODE --no-password and etcdctl --user=root user grant-role etcd-manager-NODE root, for each node " +
			"(the text has the lines; root is etcd's user of that name). Without TLS, etcd cannot know the daemons: etcdctl " +
			"auth disable."},
	{NoReport,
		"A node's etcd process runs, and its daemon got no answer out of it: certificates are not accepted, nothing " +
			"listens, no answer comes in time, or another etcd answers at its URL.",
		"The text has the reason. Certificates: check their dates and both clocks. A port that refuses: is etcd still " +
			"starting? Another cluster: find out what else runs on the machine."},
	{Alarm,
		"etcd has raised an alarm. NOSPACE: the database is at its quota. CORRUPT: members disagree about the data.",
		"NOSPACE: compact, defragment each member, then disarm with etcdctl. CORRUPT: replace the member that the " +
			"text names."},
	{DataDiffers,
		"A member's data is not that of the others, as their digests at one revision show: a disk has gone wrong, or " +
			"somebody has changed it. Where a majority of the voters with the same etcd version agrees, and still does ten " +
			"seconds later, the member that differs is stopped, is not started again, and is replaced after the grace time " +
			"like one that is down. Where no majority agrees, the members that differ count as unhealthy, and nothing is " +
			"built on them.",
		"check the disk of the node that the text names, before its member is replaced on it. Where no majority agrees, " +
			"bring back the other voters, so that one is found; or restore a backup from before. Where the member's data is " +
			"right all the same, start it again before it is replaced: etcdadm member start --mode=restart " +
			"--accept-data=MEMBER-ID, with --node, --token and --version as etcdadm observe has them. It is compared anew."},
	{LeaseVotersDiffer,
		"Too few of the nodes that host voters have recorded the present voters on disk, so no further membership change " +
			"is made. A new voter that went away before it was recorded is removed after the grace time.",
		"Bring back the nodes that the text names."},
	{LeaseVotersLost,
		"Etcd serves, and no majority of the nodes that may grant the coordinator's lease (the lease voters) can: they do " +
			"not answer, or have lost their record. So nobody coordinates: no member is replaced, no backup is taken.",
		"Bring back the nodes that the text names. If they are gone for good, make the present voters the lease voters " +
			"with the command that the text has; each node compares them with what etcd's quorum says."},
	{NodeUnreachable,
		"A node that the next step needs does not answer.",
		"Start its daemon, or fix the network between the nodes."},
	{NoCoordinator,
		"No daemon holds the coordinator's lease, so nobody plans. It takes a majority of the nodes that host voters.",
		"Start the daemons on the voters' nodes; the text says which answer."},
	{NotYet,
		"etcd refuses the next membership change for the moment: each member has to be connected to the others for five " +
			"seconds first. Or the next step waits for a backup that is under way, or for a node that takes long to read its " +
			"disk: it may tell of the time before the last step.",
		"Wait. If etcd goes on refusing, a member restarts again and again, or the network between members breaks; see " +
			"their log lines."},
	{OperationFailed,
		"The last operation failed. It is tried again after a pause that grows to a minute; meanwhile other nodes are " +
			"maintained.",
		"The text has the error and the command line, which can be run by hand."},
}
