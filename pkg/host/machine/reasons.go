package machine

// A ReasonDoc explains a reason to the person who reads the hold.
type ReasonDoc struct {
	Reason Reason
	// Means says what was seen; Do says what a person can do.
	Means, Do string
}

// Reasons returns every reason with its explanation, for docs/phases.md.
func Reasons() []ReasonDoc {
	return reasonDocs
}

var reasonDocs = []ReasonDoc{
	{Managed, "An etcd-manager runs a member on this machine, and two programs must not manage one etcd.",
		"Use `etcd-manager-ctl`, or take the machine from the daemons: `etcdadm handover " +
			"from-manager`."},
	{DataPresent, "`init` found the data of a member that no `init` on this machine has made.",
		"`etcdadm reset`, if it is no longer needed. It moves the data aside."},
	{DataForeign, "`join` found the data of another cluster, or of a member that was removed from this one.",
		"The same command with `--set-aside-data`, if it is no longer needed."},
	{DataLost, "A member has run on this machine, but its data is gone. Started empty, it would vote again on entries that it " +
		"has forgotten, or bootstrap a second cluster.",
		"Check whether a volume is missing. If not: `join` with `--replace-member`; for `init`, `etcdadm reset` first."},
	{DataUnreadable, "There are files in the data directory, but no write-ahead log that says whose they are.",
		"Check the directory. `etcdadm reset` moves it aside."},
	{CAMissing, "A machine that joins has no `ca.crt`. `join` never makes a certificate authority: no other member would trust it.",
		"Copy `ca.crt` and `ca.key` from a member."},
	{CABroken, "The certificate authority's files cannot be used: they do not belong together, have expired, or are " +
		"something else.",
		"Install the right ones. If the authority is not valid yet, as on a machine that has just booted and whose clock is " +
			"behind, the command waits two minutes."},
	{ExternalCA, "There is a `ca.crt` without its key, but a certificate must be issued.",
		"`etcdadm certs generate-csr`, have the requests signed, and put the certificates beside the keys."},
	{ClusterUnreachable, "No endpoint returned the member list: nothing listens, TLS fails, or there is no leader. The text " +
		"says which.",
		"Check the endpoints, `ca.crt` and the clocks. `join` retries until `--membership-timeout`, and says once a " +
			"minute why it waits; with `--retry=false` it asks once. If an endpoint rejects the certificates and none " +
			"accepts them, it ends at once, even if other endpoints are dead; where a clock may be why, after two minutes. A member that serves is not changed while the endpoints do not answer."},
	{EndpointsDiffer, "The endpoints belong to different clusters, so it is unclear which one is meant.",
		"Name endpoints of one cluster."},
	{NameTaken, "The cluster has a member of this name at another address.",
		"Another `--name`, or `etcdadm remove` the old member."},
	{LearnerPending, "Another machine is joining; etcd has one learner at a time.",
		"Nothing, it clears by itself. A learner that has caught up is promoted by any `join` that waits for it; one " +
			"from which the leader has no message, or that takes no snapshot, for `--orphan-timeout` (30m) is removed. " +
			"To remove it sooner: `etcdadm remove`. If its etcd runs but does not catch up, the text says what to run."},
	{QuorumMargin, "The step would leave fewer healthy voters than a majority, or the cluster already has too few " +
		"now. A command waits 15 s at most for it to clear, and not longer than `--membership-timeout`: it may be an " +
		"election.",
		"Repair the unhealthy members first; `etcdadm status` lists them."},
	{LastMember, "`reset --discard-data` was asked to delete the data of the cluster's last member, and with it the cluster.",
		"Save it first: `etcdadm snapshot save`; without `--discard-data` it is moved aside. `--force` deletes it."},
	{MemberHealthy, "`remove` was asked to remove a healthy member, or another machine has this machine's address.",
		"`etcdadm leave` on its machine, or `--force`."},
	{MemberUnknown, "The member list has no such member, or several.",
		"`etcdadm status` lists the members with their IDs."},
	{MemberStarting, "The member runs, but has not published itself to the cluster yet.",
		"Nothing, it clears by itself."},
	{VersionStep, "etcd can be upgraded by one minor version at a time, and downgraded only after it has prepared the data.",
		"Choose another `--version`. To downgrade 3.6 or 3.7 by one minor version: `etcdctl.sh downgrade enable 3.5` (3.6), once for the cluster; " +
			"then `etcdadm join --version`, on one machine after the other."},
	{VersionHazard, "The data has something that the requested minor version does not tolerate: keys of the v2 store, members " +
		"that only the database knows, or, where etcd does not serve, entries in the log that a raft snapshot would " +
		"take away. Or the patch that wrote it is older than etcd advises, and it is unknown. A member that joins is " +
		"checked before it is promoted, and the join is undone.",
		"Do what the text says; `etcdadm upgrade check` checks again. `--accept-version-risk=REASON` continues anyway."},
	{Alarm, "A member has raised an alarm, and a member that serves is not restarted with another version before it is " +
		"disarmed.",
		"`etcdadm alarm list` shows it, and `etcdadm alarm disarm` clears it when its cause is gone."},
	{DataDiffers, "Before the first member is changed to another version, the digests of all members' data are compared at " +
		"one revision, and they differ. Afterwards they would be of two versions, and prove nothing.",
		"Find out which is right, and have the others join again with an empty data directory. The command asks again for 15 s."},
	{NotCompared, "Before the first member is changed to another version, a member did not give the digest of its data, or gave " +
		"one that covers another part of the history. The text says which.",
		"Run the command again; it has tried for two minutes. `--accept-version-risk=REASON` goes on without."},
	{DiskFull, "The disk of this machine has too little room to change the version.", "Make room."},
	{NotYet, "etcd does something by itself first: its leader raises the cluster version, or ends a downgrade, within seconds. " +
		"Or a downgrade is enabled, and a machine is to join.",
		"Nothing: the command waits. To join during a downgrade, end it or cancel it first."},
	{SettingsInvalid, "etcd, or the init system, would reject a setting.",
		"`etcdadm config validate`."},
	{SnapshotRestored, "`init --snapshot` found data that does not come from that snapshot.",
		"Omit `--snapshot` to continue with the data, or `etcdadm reset`."},
	{ResetUnfinished, "A `reset` was begun on this machine but not finished.",
		"`etcdadm reset`."},
	{DataElsewhere, "This machine's etcd has its data in another directory than the given one, or answers " +
		"while the directory is empty.",
		"Give its directory: `--data-dir`."},
	{ServiceForeign, "A unit `etcd.service` that etcdadm did not write, such as that of a distribution's package, runs or " +
		"is enabled.",
		"Disable it, if it is not needed."},
	{StillRunning, "The data is about to be moved or deleted, and an etcd still answers.",
		"Nothing, if it is about to end. Otherwise find out who started it."},
	{NotConfigured, "A phase came before the one that adds the member to the cluster, or the cluster's members have " +
		"changed between the phase `configure` and etcd's first start.",
		"Run the phases that the hint names, or the whole `etcdadm join`."},
	{InitSystemMissing, "The machine does not run the init system that is to keep etcd running: systemd by default.",
		"`--init-system=kubelet` on a machine with a kubelet, `--init-system=process` if there is neither; or " +
			"`--skip-phases=start,health` to only write the files."},
	{PeerPortClosed, "A voter that answers does not reach the peer port of the machine that joins. With a vote, the new member " +
		"would count for a quorum whose members may not reach each other. Where its etcd does not run yet, it is not " +
		"started. A whole `join` is undone; a phase that is run by itself leaves the learner.",
		"Open the port, as the text says, and run `join` again. `--ignore-preflight-errors=PeerPorts` goes on without."},
	{NotRunning, "`handover` found no member on this machine that answers.",
		"Start it: `etcdadm join` with an endpoint."},
	{NotVoter, "The member to hand over is not in the member list of its cluster.", "`etcdadm status`."},
	{MembersUnsettled, "The member list has a learner, or a member that has never started: it cannot determine the lease " +
		"voters.",
		"Wait until it is a voter, or remove it."},
	{NameUnfit, "The member cannot be run under its name or its URLs where it is handed over to.",
		"Do what the hint says."},
	{DataApart, "The data cannot be renamed to the new directory, because that is on another file system, " +
		"or because its log is in a directory of its own.",
		"Choose a directory on the same file system: `--manager-data-dir`."},
	{DataBusy, "A process has the database open that would be moved.", "`fuser` on the file shows which process."},
	{ManagerRuns, "etcd-manager, or another handover, has its data directory open.",
		"Stop etcd-manager on this machine."},
	{ManagerState, "etcd-manager's data directory belongs to another member, or to none; or a coordinator is at work.",
		"Do what the hint says."},
	{CADiffers, "The certificate authorities of etcdadm and of etcd-manager do not match.",
		"Move the one that is not the cluster's away."},
	{StoreUnreachable, "The control store does not answer.", "Check `--backup-store`."},
	{StoreForeign, "The control store belongs to another cluster, or has a newer incarnation.",
		"Choose another `--backup-store`."},
	{LeaseVotersLost, "No majority of the recorded lease voters runs members of this cluster any more.",
		"Hand back the machines that a daemon runs, then `--new-incarnation` on the first one."},
	{Unfinished, "A handover in the other direction was begun.", "`etcdadm handover from-manager`."},
}
