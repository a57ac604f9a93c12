package plan

import (
	"fmt"
	"regexp"
)

// A Hold is a reason for not acting.
type Hold struct {
	Reason Reason `json:"reason"`
	Text   string `json:"text"`
}

// StoreFlag stands in the texts of holds, of explanations and of what nodes report for the flag with the
// location of the store, which the planner does not know.
const StoreFlag = "--backup-store=STORE"

// placeholder is that flag.
var placeholder = regexp.MustCompile(`--backup-store=STORE\b`)

// AtStore returns text with flag in place of [StoreFlag], so that its command lines can be pasted. An
// empty flag leaves the text as it is.
func AtStore(text, flag string) string {
	if flag == "" {
		return text
	}
	return placeholder.ReplaceAllLiteralString(text, flag)
}

func (h Hold) String() string {
	return fmt.Sprintf("hold %s: %s", h.Reason, h.Text)
}

// A Reason names a kind of hold. The list is closed, see [Reasons].
type Reason string

// The reasons of holds.
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
	BackupsForeign    Reason = "backups-foreign"
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
	VersionSettings   Reason = "version-settings"
	VersionFailed     Reason = "version-failed"
	DiskUnreadable    Reason = "disk-unreadable"
	DiskFull          Reason = "disk-full"
	DiskHung          Reason = "disk-hung"
	DiskSlow          Reason = "disk-slow"
	NotServing        Reason = "not-serving"
	NeverStarted      Reason = "never-started"
	PeerURLDiffers    Reason = "peer-url-differs"
	PeerUnreachable   Reason = "peer-unreachable"
	AccessDenied      Reason = "access-denied"
	NoReport          Reason = "no-report"
	Alarm             Reason = "alarm"
	DataDiffers       Reason = "data-differs"
	LeaseVotersDiffer Reason = "lease-voters-differ"
	LeaseVotersLost   Reason = "lease-voters-lost"
	NodeUnreachable   Reason = "node-unreachable"
	NoCoordinator     Reason = "no-coordinator"
	TakingOver        Reason = "taking-over"
	ExistingDaemon    Reason = "existing-daemon"
	NotYet            Reason = "not-yet"
	OperationFailed   Reason = "operation-failed"
)

// A ReasonDoc explains a reason to the person who reads the hold.
type ReasonDoc struct {
	Reason Reason
	// Means says what the daemon saw; Do says what a person can do.
	Means, Do string
}

// Reasons returns every reason with its explanation, in the order of the
// documentation. docs/holds.md and "etcd-manager-ctl explain" print it.
func Reasons() []ReasonDoc { return reasonDocs }

// Explain returns the explanation of r; ok is false for an unknown reason.
func Explain(r Reason) (ReasonDoc, bool) {
	for _, d := range reasonDocs {
		if d.Reason == r {
			return d, true
		}
	}
	return ReasonDoc{}, false
}

var reasonDocs = []ReasonDoc{
	{SpecMissing,
		"The control store has no spec (control/etcd-cluster-spec). A running cluster is kept as its nodes remember " +
			"the spec; a new one is not bootstrapped.",
		"Write one: etcd-manager-ctl --backup-store=STORE --member-count=3 --etcd-version=VERSION configure-cluster."},
	{SpecInvalid,
		"The spec in the store cannot be read, or has an impossible value. Nothing is changed until it is fixed.",
		"The text names the field. Write the spec again with etcd-manager-ctl --backup-store=STORE configure-cluster."},
	{Paused,
		"An operator has asked the coordinator to change nothing. Nodes still restart their own etcd processes.",
		"Run etcd-manager-ctl --backup-store=STORE resume when you are done."},
	{Restoring,
		"A requested restore is under way: nodes fetch the backup and make data directories from it beside the ones " +
			"in use, or the restored cluster is coming up. The old cluster keeps running until the incarnation's record " +
			"is written. Or a restore may have begun on nodes that do not answer.",
		"Wait; the text says how far each node is, or what went wrong. To cancel it before the record is written: " +
			"etcd-manager-ctl --backup-store=STORE delete-command BACKUP. Bring back nodes that the text names; remove " +
			"those that are gone for good: etcd-manager-ctl --backup-store=STORE forget-node NAME."},
	{ClusterName,
		"Daemons answer, but they belong to a cluster of another name than the requested one, and report nothing but " +
			"that. The state of their cluster is unknown.",
		"Use the name in the text as --cluster-name. If a daemon has the wrong name or the wrong --seeds, start it " +
			"with the right ones."},
	{NameConflict,
		"Two daemons at different addresses use the same node name, or a node has the data of a member with another " +
			"name. It is unclear which one is meant, so nothing is planned that involves the name.",
		"Stop one of them, or give it another --node-name (or another myid file in its data directory). If a machine " +
			"has changed its name, give it its old one."},
	{ClockSkew,
		"A node's clock differs from the coordinator's by more than the policy allows, or the newest backup is dated " +
			"in the future. Nothing is deleted by age. Repairs and backups continue; backups are taken by nodes with a " +
			"correct clock.",
		"Fix time synchronisation on the node that the text names."},
	{BackupsGone,
		"The newest backup in the store is older than one that was there before: the store was rolled back, or newer " +
			"backups were deleted or no longer count. A restore would lose more than it seems. Everything continues; the " +
			"next backup ends this hold.",
		"Find out what happened to the backup that the text names before you restore anything: check the bucket's " +
			"versions and deleted objects, copies of the store, and who can write to it."},
	{BackupsUncounted,
		"The store has folders of backups, but none of them counts as a backup: no trusted signer has signed them, or " +
			"they cannot be read. There is nothing to restore from. Everything continues; the next backup that counts " +
			"ends this hold.",
		"The text says why. If signers are trusted, give the daemons the key of one of them, or trust the key that " +
			"signed the backups."},
	{BackupsForeign,
		"Another cluster writes its backups into this store. They do not count as backups of this cluster, and are not " +
			"deleted. Everything continues.",
		"Give each cluster a store of its own with --backup-store. Then move the backups that the text names, and " +
			"those like it, to the store of their cluster."},
	{StoreUnreachable,
		"The control store does not answer. The cluster keeps running and processes are restarted, but no step is " +
			"taken that needs a backup first or has to be recorded in the store.",
		"Restore access to the store; the text has the error. Nothing needs to be restarted."},
	{StoreNotShared,
		"A cluster is about to be bootstrapped, a backup to be taken, or a member to be opened to clients, but the " +
			"records of the nodes involved do not appear in the store that the coordinator reads. Each node seems to have " +
			"a store of its own. Then the store cannot decide between two bootstraps, a backup would not be found, " +
			"and another store may have a restore for which the member was closed. Or a node has promised a bootstrap " +
			"that may have been decided in another store.",
		"Point every node's --backup-store to the same place. For bootstrap it is also enough to name all nodes with " +
			"--seeds, so that a majority of the list can decide."},
	{RecordInvalid,
		"An incarnation record in the store (control/incarnations/) cannot be read. The cluster is maintained and " +
			"backed up, but no record is written and no initial member is started. Or a restore waits: the store's " +
			"control/revision cannot be read, or it, a backup or a record reports a revision so high that a cluster " +
			"restored above it could not be backed up or restored again.",
		"The text names the record, and what to do. Run a release that can read it, or fix it, or delete it if it " +
			"belongs to no incarnation that ever existed. control/revision may be deleted: it is written again from what " +
			"the members report."},
	{WaitingForNodes,
		"A cluster is to be bootstrapped, but there are too few nodes, or a known node has not answered and might " +
			"hold data.",
		"Start the missing nodes. If a machine is gone for good, remove its record with etcd-manager-ctl " +
			"--backup-store=STORE forget-node NAME."},
	{ClusterLost,
		"There are traces of a cluster (a marker, an incarnation record, a backup), but no reachable node has its " +
			"data. A new cluster is never made automatically where another one existed.",
		"Bring back a node that has the data. If all are lost, request a restore: etcd-manager-ctl " +
			"--backup-store=STORE restore-backup NAME. If the remains are of no value, use an empty store."},
	{NewCluster,
		"No node has data, and no node has the file that asks for a new cluster. The daemons were started with " +
			"--static-config or --volume-provider=external. Then an empty store does not prove that there never was a " +
			"cluster: an empty disk may be all that is left of one.",
		"Mount the disk that has the data. If there never was any, create the empty file please-create-new-cluster in " +
			"the data directory of one node; it is removed when the cluster is bootstrapped."},
	{Bootstrap,
		"The initial members have been started, or are about to be, and are not healthy yet.",
		"Wait; if it persists, check the log lines of the members that the text names. An initial member that never " +
			"comes back needs its machine or, before any data exists, an empty store."},
	{QuorumLost,
		"Fewer voters are healthy than a majority needs, so etcd can neither write nor change its members. Nothing is " +
			"removed.",
		"Bring back machines that host voters: their members start by themselves from their own disks. Where voters " +
			"run but do not serve, follow what disk-hung, not-serving and no-report say about them. If they are gone for " +
			"good, a remaining member has lost less than any backup: save its database with etcdadm snapshot save " +
			"STORE-URL (it needs no quorum), then etcd-manager-ctl --backup-store=STORE restore-backup NAME " +
			"--lost=NODE,NODE --skip-backup. Where the text names a record of a restore that nobody asked for, restore " +
			"nothing: delete that record from the store, and what runs is maintained again."},
	{QuorumMargin,
		"The next membership change would leave the cluster without a healthy majority.",
		"Bring the unhealthy voters back first."},
	{MemberStarting,
		"A member was started and is not healthy yet.",
		"Wait; if it persists, check its log lines in etcd-manager-ctl --backup-store=STORE status."},
	{Grace,
		"A voter is unhealthy, but not yet for the whole grace time. It may come back by itself.",
		"Wait, or bring the machine back. The time is set by --replace-grace."},
	{NoSpare,
		"The cluster needs another member, but no node is free to run it. A node is free if it is reachable, has no " +
			"member, has an empty or stale disk with room for the data, and has the binaries.",
		"Where the text names a node, put that right on it: make room on its disk (what lies in data-trashcan is earlier " +
			"data of the cluster, which may be deleted once nobody wants it back), or add the binaries. Otherwise start " +
			"another node, or lower the member count."},
	{LearnerBehind,
		"A new member has not caught up with the leader. It is removed again if it takes longer than the learner " +
			"timeout.",
		"Wait. If it happens again and again, check the node's disk and network."},
	{BinaryMissing,
		"A node has no binaries of the etcd version that it would have to run, or that a change over several minor " +
			"versions leads through or to, or none whose tool raises the revision of what it would have to restore.",
		"Install the version on the node in one of the directories of --etcd-dir, or have its daemon fetch it " +
			"(--etcd-release), or change the spec."},
	{VersionDiffers,
		"The members run another etcd version than the spec says, and the next step towards it is not possible: a " +
			"running cluster cannot get there, or something has to be fixed first. The text says what.",
		"Fix what the text names. Where a backup and a restore lead there, the text has the command that allows them. " +
			"docs/versions.md lists the possible changes of version, and how they are made. To give up the change, set " +
			"the spec back to the version that runs."},
	{VersionHazard,
		"A member's data has something that the next minor version of etcd does not tolerate: keys of the v2 store, " +
			"or members that only the database knows. docs/versions.md explains each.",
		"The text says what to do. The node checks again within half a minute; etcdadm upgrade check checks at once. To " +
			"continue a change of version despite the hazard: etcd-manager-ctl --backup-store=STORE --etcd-version=VERSION " +
			"--accept-version-risk=REASON configure-cluster. A new member that could not run with the data waits all the same."},
	{VersionSettings,
		"A member has settings, from ETCD_* variables of its daemon, that the next etcd version, or one after it on the way, " +
			"does not know under any name: it would run without them, or not start. Settings that only have another name, or became " +
			"feature gates, are translated and not listed.",
		"Remove the variables that the text names from the environment of that node's daemon, or switch them off, and " +
			"restart it; or set the spec back."},
	{VersionFailed,
		"A member did not come up with the new etcd version. Its node has returned to the old one if that was still " +
			"possible, and no other member is changed.",
		"The text has etcd's last log lines. Fix what they report, and try that member again with the command in the " +
			"text; or set the spec back: etcd-manager-ctl --backup-store=STORE configure-cluster --etcd-version=OLD."},
	{DiskUnreadable,
		"A node's data directory holds something that cannot be read. It is left alone.",
		"The text says what. Fix it, or move it away by hand."},
	{DiskFull,
		"A node has too little free space. etcd allocates each file of its log (64 MiB) in advance, and ends if it " +
			"cannot. So the hold comes before that: the member is not made leader, is removed first when the cluster " +
			"shrinks, and no new member goes there. To restore a backup, a node needs room for the snapshot and for the " +
			"database that is made from it, beside the old data. An etcd that crashes because its disk is full has lost " +
			"nothing: it is replaced only if another node has the room.",
		"Make room below its data directory (old data is in data-trashcan/): an etcd that crashed starts again on its " +
			"own data. A restore may also use fewer nodes, with --member-count."},
	{DiskHung,
		"A write to a node's disk hangs or fails. etcd keeps answering from memory there but cannot commit anything, " +
			"so its member does not count for a majority. It is replaced after the grace time if a node is free to take " +
			"its place. A node whose disk hangs gets no orders.",
		"The text names the machine and the directory. Check the disk: dmesg, smartctl, the cloud's console, the " +
			"server of the mount. If it never recovers, restart the machine, or start a spare node."},
	{DiskSlow,
		"Several writes in a row to a node's disk took half a second or more. Its member serves, but is not made " +
			"leader and is the last choice for backups. A leader with a slow disk hands over to a voter with a good one.",
		"Find out who else uses the disk, or what limits it (burst credits, a RAID rebuild). etcd wants less than 10 " +
			"ms for a write."},
	{NotServing,
		"A member answers, but serves no linearizable read or does not keep up with the log. Nothing relies on it " +
			"meanwhile. After ten seconds it counts as unhealthy, and it is replaced after the grace time or, if its disk " +
			"is good, after the learner timeout: it may be receiving the whole database, or be defragmented.",
		"Wait; if it persists, check the load, the network between the members, and the log lines of its etcd."},
	{NeverStarted,
		"The member list has a voter that somebody else added (etcdctl member add) and that has never started. It " +
			"counts for the majority that etcd needs. It is removed after the grace time if the others are a majority " +
			"without it.",
		"Start it, or remove it: etcdctl member remove ID. If etcd refuses that for lack of a majority, start an etcd " +
			"with the peer URL that the text names. Next time use etcdctl member add --learner, or leave adding members " +
			"to the daemons."},
	{PeerURLDiffers,
		"etcd's member list has another peer URL for a member than the one that its node serves: the machine's " +
			"address has changed since the member was added. The other members look for it in the wrong place; it may or " +
			"may not reach them. The member list is updated automatically, one member at a time, when all voters are " +
			"healthy and there is no learner. But TLS is not given up, and it is switched on only when all members have " +
			"keys for it.",
		"Bring the unhealthy voters back. Or give the machine its old address back. Or run the command in the text, " +
			"on a machine that can reach etcd and has its certificates: one member at a time, and only while a majority " +
			"is healthy. Where the text is about TLS, do what it says on the machine that it names."},
	{PeerUnreachable,
		"A node does not reach the peer port of another voter that serves. Two voters that talk to a third one only " +
			"cannot go on without it, though all three look healthy. No member is promoted, removed or stopped as long as " +
			"that would leave no leader that reaches a majority. A learner that the leader does not reach " +
			"receives no log entries: another voter that reaches it is made the leader.",
		"Open the peer port of the second machine in the text for the first one: a firewall, a security group, a " +
			"route. The text has the error of the last try; it is tried again every few seconds. Where that is of an " +
			"unknown authority, the authorities were changed, and etcd reads them only when it starts: restart etcd-manager " +
			"on one machine after the other."},
	{AccessDenied,
		"etcd runs with authentication enabled and denies access to the daemon, which cannot determine the state of its " +
			"member, nor take backups there; or it will once authentication is enabled, since etcd already has the user " +
			"root. The cluster itself may be healthy: nothing is restored or replaced.",
		"Give the daemons' certificates the role root, by their common names: etcdctl --user=root user add " +
			"etcd-manager-NODE --no-password and etcdctl --user=root user grant-role etcd-manager-NODE root, for each " +
			"node (the text has the lines; root is etcd's user of that name). Without TLS, etcd cannot recognise the " +
			"daemons: etcdctl auth disable."},
	{NoReport,
		"A node's etcd process runs, but its daemon got no answer from it: certificates are rejected, nothing " +
			"listens, the answer takes too long, or another etcd answers at its URL.",
		"The text has the reason. Certificates: check their dates and both clocks. Connection refused: is etcd still " +
			"starting? Another cluster: find out what else runs on the machine."},
	{Alarm,
		"etcd has raised an alarm. NOSPACE: the database has reached its quota. CORRUPT: members disagree about the " +
			"data.",
		"NOSPACE: compact, defragment each member, then disarm with etcdctl. CORRUPT: replace the member that the " +
			"text names."},
	{DataDiffers,
		"A member's data differs from that of the others, as their hashes at one revision show: a disk is faulty, or " +
			"somebody has changed the data. If a majority of the voters with the same etcd version agrees, and still does " +
			"ten seconds later, the member that differs is stopped, is not started again, and is replaced after the grace " +
			"time like one that is down. If no majority agrees, the members that differ count as unhealthy, and no step " +
			"relies on them.",
		"Check the disk of the node that the text names before its member is replaced on it. If no majority agrees, " +
			"bring back the other voters so that there is one, or restore an earlier backup. If the member's data is " +
			"right after all, start it again before it is replaced: etcdadm member start --mode=restart " +
			"--accept-data=MEMBER-ID, with --node, --token and --version as in etcdadm observe. It is then compared " +
			"again."},
	{LeaseVotersDiffer,
		"Too few of the nodes that host voters have recorded the present voters on disk, so no further membership " +
			"change is made. A new voter that went away before it was recorded is removed after the grace time.",
		"Bring back the nodes that the text names."},
	{LeaseVotersLost,
		"etcd serves, but no majority of the nodes that may grant the coordinator's lease (the lease voters) can do " +
			"so: they do not answer, or have lost their record. So nobody coordinates: no member is replaced, and no " +
			"backup is taken.",
		"Bring back the nodes that the text names. If they are gone for good, make the present voters the lease " +
			"voters with the command in the text; each node checks them against etcd's quorum."},
	{NodeUnreachable,
		"A node that the next step needs does not answer.",
		"Start its daemon, or fix the network between the nodes."},
	{NoCoordinator,
		"No daemon holds the coordinator's lease, so nobody plans. The lease takes a majority of the nodes that host " +
			"voters.",
		"Start the daemons on the voters' nodes; the text says which ones answer."},
	{TakingOver,
		"The existing etcd-manager has run this cluster, and the daemons have not agreed yet to coordinate it. They do " +
			"when each voter's node, and each other known one, runs this etcd-manager and answers, and when for some time " +
			"no daemon of the existing one was heard. Until then each node runs its member, and nobody changes members " +
			"or carries requests out. Backups go on: where the existing one takes none, a node takes them of its member.",
		"Exchange the image on the machines in the text. Where the existing etcd-manager is gone everywhere, wait: about a " +
			"minute and a quarter, with the default of --discovery-poll-interval."},
	{ExistingDaemon,
		"A daemon of the existing etcd-manager has called a node lately, or answers at an address that discovery reports. " +
			"It may change members, so this one does not; nor does it begin a restore, or change the etcd version. " +
			"Backups go on: where nobody coordinates yet and the existing one takes none, a node takes them of its member.",
		"Exchange the image on the machines in the text, or stop the daemon there. One that was stopped counts for a " +
			"minute and a quarter more, with the default of --discovery-poll-interval. The text says which node heard it: " +
			"where there is none, stop that node's daemon, and find out who called it."},
	{NotYet,
		"etcd refuses the next membership change for now: each member has to be connected to the others for five " +
			"seconds first. Or the next step waits for a running backup, or for a node that takes long to read its disk: " +
			"its report may predate the last step.",
		"Wait. If etcd keeps refusing, a member restarts again and again, or the network between members is unstable; " +
			"see their log lines."},
	{OperationFailed,
		"The last operation failed. It is retried after a pause that grows to a minute; meanwhile other nodes are " +
			"maintained.",
		"The text has the error and the command line, which can also be run by hand."},
}
