package machine

import "slices"

// A Phase is a part of an action that can be carried out by itself, as a
// process of its own: nothing but what is on the disk and in the cluster goes
// from one to the next.
type Phase struct {
	Name  string
	Short string
	// Network says that the cluster is asked in it.
	Network bool
	next    func(*planner) (Operation, *Hold)
}

// PostInit is the last phase of Init, which prints and changes nothing.
const PostInit = "post-init-instructions"

// Phases returns the parts of an action in the order in which they are done.
// The commands, their help and the documentation come from this list. The names
// are those of the retired etcdadm; its join asked for membership before it
// had the binaries, so that a failed download left a voter that never started.
func Phases(a Action) []Phase { return phases[a] }

// PhaseOf returns the phase of an action with that name.
func PhaseOf(a Action, name string) (Phase, bool) {
	i := slices.IndexFunc(phases[a], func(p Phase) bool { return p.Name == name })
	if i < 0 {
		return Phase{}, false
	}
	return phases[a][i], true
}

var phases = map[Action][]Phase{
	Init: {
		{Name: "install", Short: "install the etcd binaries", next: (*planner).install},
		{Name: "certificates", Short: "make the certificate authority and issue certificates", next: (*planner).certificates},
		{Name: "snapshot", Short: "restore the snapshot, if one is given", next: (*planner).snapshot},
		{Name: "configure", Short: "write the files of the init system", next: (*planner).configure},
		{Name: "start", Short: "start etcd", next: (*planner).start},
		{Name: "etcdctl", Short: "write the environment and the wrapper of etcdctl", next: (*planner).etcdctl},
		{Name: "health", Short: "wait until etcd serves", next: (*planner).health},
		{Name: RenewalPhase, Short: "have a timer of systemd renew the certificates", next: (*planner).renewal},
		{Name: PostInit, Short: "print how to join other machines", next: nothing},
	},
	Join: {
		{Name: "certificates", Short: "issue certificates (without the network)", next: (*planner).certificates},
		{Name: "install", Short: "install the etcd binaries", next: (*planner).install},
		{Name: "stop", Short: "stop an etcd that must not run", Network: true, next: (*planner).stop},
		{Name: "membership", Short: "add the machine's member to the cluster, as a learner", Network: true,
			next: (*planner).membership},
		{Name: "configure", Short: "write the files of the init system", Network: true, next: (*planner).configure},
		{Name: "start", Short: "start etcd, and promote the member if it soon catches up", Network: true,
			next: (*planner).start},
		{Name: "etcdctl", Short: "write the environment and the wrapper of etcdctl", next: (*planner).etcdctl},
		{Name: "health", Short: "wait until etcd serves, and promote the member to a voter", Network: true,
			next: (*planner).healthAndVote},
		{Name: RenewalPhase, Short: "have a timer of systemd renew the certificates", next: (*planner).renewal},
	},
	Reset: {
		{Name: "remove-member", Short: "remove the member from the cluster", Network: true, next: (*planner).leave},
		{Name: "stop", Short: "stop etcd", next: (*planner).stopService},
		{Name: "data", Short: "move the data aside, or delete it", next: (*planner).dropData},
		{Name: "files", Short: "delete configuration and certificates", next: (*planner).dropFiles},
		{Name: "binaries", Short: "delete the binaries", next: (*planner).dropBinaries},
		{Name: "record", Short: "forget the member", next: (*planner).forget},
	},
	Remove: {
		{Name: "remove-member", Short: "remove the member from the cluster", Network: true, next: (*planner).removeOther},
	},
	ToManager: {
		{Name: "certificates", Short: "make the daemon's certificate authorities", next: (*planner).copyAuthorities},
		{Name: "binaries", Short: "install etcd where the daemon looks for it", next: (*planner).managerBinaries},
		{Name: "record", Short: "record the incarnation in the control store", next: (*planner).recordIncarnation},
		{Name: "journal", Short: "record the decision", next: (*planner).writeJournal},
		{Name: "stop", Short: "stop etcd", next: (*planner).stopForManager},
		{Name: "files", Short: "delete what starts etcd", next: (*planner).dropStarters},
		{Name: "move", Short: "move the data to the daemon", next: (*planner).moveToManager},
		{Name: "assign", Short: "assign the member to the daemon", next: (*planner).assign},
		{Name: "done", Short: "record that it is done", next: (*planner).journalDone},
	},
	FromManager: {
		{Name: "certificates", Short: "make the certificate authority", next: (*planner).copyAuthorities},
		{Name: "journal", Short: "record the decision", next: (*planner).writeJournal},
		{Name: "unassign", Short: "withdraw the member from the daemon", next: (*planner).unassign},
		{Name: "move", Short: "move the data to etcdadm", next: (*planner).moveFromManager},
		{Name: "start", Short: "have etcdadm configure and start etcd", next: (*planner).runMember},
		{Name: "done", Short: "delete the traces of the handover", next: (*planner).endHandover},
	},
}

func nothing(*planner) (Operation, *Hold) { return nil, nil }
