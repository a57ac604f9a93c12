package machine

// A ReasonDoc explains a rule to the person who reads the hold.
type ReasonDoc struct {
	Reason Reason
	// Means says what was seen; Do says what a person can do.
	Means, Do string
}

// Reasons returns every rule with its explanation, for docs/phases.md.
func Reasons() []ReasonDoc { return ruleDocs }

var ruleDocs = []ReasonDoc{
	{Managed, "An etcd-manager has a member to run on this machine, and two programs would work on one etcd.",
		"Tell the daemons what you want (`etcd-manager-ctl`), or take the machine from them: `etcdadm handover " +
			"from-manager`."},
	{DataPresent, "`init` found the data of a member that no `init` made here.",
		"`etcdadm reset`, if it is not needed any more. It moves the data aside."},
	{DataForeign, "`join` found the data of another cluster, or of a member that was removed from this one.",
		"The same command with `--set-aside-data`, if it is not needed any more."},
	{DataLost, "A member has run on this machine and its data is gone. Started empty it would vote again on what it " +
		"has forgotten, or found a second cluster.",
		"Check whether a volume is missing. If not: `join` with `--replace-member`; for `init`, `etcdadm reset` first."},
	{DataUnreadable, "There are files in the data directory and no write-ahead log that says whose they are.",
		"check the directory. `etcdadm reset` moves it aside."},
	{CAMissing, "A machine that joins has no `ca.crt`. `join` never makes a certificate authority: nobody would trust it.",
		"Copy `ca.crt` and `ca.key` from a member."},
	{CABroken, "The certificate authority's files cannot be used: they are of different pairs, have expired, or are " +
		"something else.",
		"Put the right ones there. For one that is not valid yet, as where a machine has just booted and its clock is " +
			"behind, the command waits two minutes."},
	{ExternalCA, "There is a `ca.crt` without its key, and a certificate must be issued.",
		"`etcdadm certs generate-csr`, have the requests signed, and put the certificates beside the keys."},
	{ClusterUnreachable, "No endpoint told the member list: nobody listens, TLS fails, or there is no leader. The text " +
		"says which.",
		"check the endpoints, `ca.crt` and the clocks. `join` asks again until `--membership-timeout`, and says once a " +
			"minute why it waits; with `--retry=false` it asks once. Where an endpoint refuses the certificates, and none is " +
			"found to accept them, it ends after two minutes, also where others are dead. A member that serves is not changed while the endpoints do not answer."},
	{EndpointsDiffer, "The endpoints that were named are of different clusters, so that nobody knows which one is meant.",
		"Name endpoints of one cluster."},
	{NameTaken, "The cluster has a member of this name at another address.",
		"Another `--name`, or `etcdadm remove` the old member."},
	{LearnerPending, "Another machine is joining; etcd has one learner at a time.",
		"Nothing, it clears by itself. A learner that has caught up gets its vote from any `join` that waits for it; one " +
			"at whose addresses nobody listens for `--orphan-timeout` (30m) is taken out. To have it sooner: `etcdadm " +
			"remove`. Of one whose etcd runs and does not catch up the text says what to run."},
	{QuorumMargin, "The step would leave fewer healthy voters than a majority, or the cluster has not enough of them " +
		"now. A command waits 15 s at most for it to clear, and not longer than `--membership-timeout`: it may be an " +
		"election.",
		"Bring the unhealthy members back first; `etcdadm status` names them."},
	{MemberHealthy, "`remove` was asked to take out a healthy member, or another machine has this machine's address.",
		"`etcdadm leave` on its machine, or `--force`."},
	{MemberUnknown, "The member list has no such member, or several.",
		"`etcdadm status` lists the members with their ids."},
	{MemberStarting, "The member runs, and has not published itself to the cluster yet.",
		"Nothing, it clears by itself."},
	{VersionStep, "etcd goes up one minor version at a time, and down only where it has prepared the data for that.",
		"Choose another `--version`. From 3.6 or 3.7 one down: `etcdctl.sh downgrade enable 3.5` (3.6), once for the cluster; " +
			"then `etcdadm join --version`, on one machine after the other."},
	{VersionHazard, "The data has something that the wanted minor version does not stand: keys of the v2 store, members " +
		"that only the database knows, or old entries in the log. Or the patch that wrote it is older than etcd " +
		"advises, and " +
		"nobody can tell. A member that joins is checked before it has its vote, and the join is taken back.",
		"What the hold says; `etcdadm upgrade check` looks again. `--accept-version-risk=REASON` goes on."},
	{SettingsInvalid, "etcd, or the init system, would not take a setting.",
		"`etcdadm config validate`."},
	{SnapshotRestored, "`init --snapshot` found data that does not come from that snapshot.",
		"Leave `--snapshot` out to go on with the data, or `etcdadm reset`."},
	{ResetUnfinished, "A `reset` was begun on this machine and not finished.",
		"`etcdadm reset`."},
	{DataElsewhere, "This machine's etcd has its data in another directory than the one that was named, or answers " +
		"while the directory is empty.",
		"Name the directory that it has: `--data-dir`."},
	{ServiceForeign, "A unit `etcd.service` that etcdadm did not write, as that of a distribution's package, runs or " +
		"is enabled.",
		"Disable it, if it is not needed."},
	{StillRunning, "The data is about to be moved or deleted, and an etcd still answers.",
		"Nothing, if it is about to end. Otherwise check who started it."},
	{NotConfigured, "A phase came before the one that adds the member to the cluster, or the cluster's members have " +
		"changed between the phase `configure` and etcd's first start.",
		"The phases that the hint names, or the whole `etcdadm join`."},
	{NotRunning, "`handover` found no member on this machine that answers.",
		"Start it: `etcdadm join` with an endpoint."},
	{NotVoter, "The member to be handed over is not in the list of its cluster.", "`etcdadm status`."},
	{MembersUnsettled, "The member list has a learner, or a member that has never started: no list to name the lease " +
		"voters by.",
		"Wait until it has its vote, or remove it."},
	{NameUnfit, "A member's name or URLs are not what the other side of the handover can have.",
		"What the hint says."},
	{DataApart, "The data cannot be renamed from one side to the other, because the directories are on different file " +
		"systems, or because its log is in a directory of its own.",
		"Choose a directory on the same file system: `--manager-data-dir`."},
	{DataBusy, "A process has the database open that is about to be moved.", "`fuser` on the file shows who it is."},
	{ManagerRuns, "etcd-manager, or another handover, has its data directory open.",
		"Stop etcd-manager on this machine."},
	{ManagerState, "etcd-manager's data directory tells of another member, or of none; or a coordinator is at work.",
		"What the hint says."},
	{CADiffers, "The certificate authorities of the two sides of a handover do not go together.",
		"Move the one that is not the cluster's away."},
	{StoreUnreachable, "The control store does not answer.", "Check `--backup-store`."},
	{StoreForeign, "The control store is that of another cluster, or its incarnations have gone on.",
		"Choose another `--backup-store`."},
	{LeaseVotersLost, "No majority of the lease voters on record runs members of this cluster any more.",
		"Hand back the machines that a daemon runs, then `--new-incarnation` on the first one."},
	{Unfinished, "A handover in the other direction was begun.", "`etcdadm handover from-manager`."},
}
