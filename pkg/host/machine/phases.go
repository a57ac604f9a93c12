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
	next    func(*world) (Operation, *Hold)
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
		{Name: "install", Short: "install the etcd binaries", next: (*world).install},
		{Name: "certificates", Short: "make the certificate authority and issue certificates", next: (*world).certificates},
		{Name: "snapshot", Short: "restore the snapshot, if one is given", next: (*world).snapshot},
		{Name: "configure", Short: "write the files of the init system", next: (*world).configure},
		{Name: "start", Short: "start etcd", next: (*world).start},
		{Name: "etcdctl", Short: "write the environment and the wrapper of etcdctl", next: (*world).etcdctl},
		{Name: "health", Short: "wait until etcd serves", next: (*world).health},
		{Name: RenewalPhase, Short: "have a timer of systemd renew the certificates", next: (*world).renewal},
		{Name: PostInit, Short: "print how to join other machines", next: nothing},
	},
	Join: {
		{Name: "certificates", Short: "issue certificates (without the network)", next: (*world).certificates},
		{Name: "install", Short: "install the etcd binaries", next: (*world).install},
		{Name: "stop", Short: "stop an etcd that must not run", Network: true, next: (*world).stop},
		{Name: "membership", Short: "add the machine's member to the cluster, as a learner", Network: true,
			next: (*world).membership},
		{Name: "configure", Short: "write the files of the init system", Network: true, next: (*world).configure},
		{Name: "start", Short: "start etcd, and promote the member if it soon catches up", Network: true,
			next: (*world).start},
		{Name: "etcdctl", Short: "write the environment and the wrapper of etcdctl", next: (*world).etcdctl},
		{Name: "health", Short: "wait until etcd serves, and promote the member to a voter", Network: true,
			next: (*world).healthAndVote},
		{Name: RenewalPhase, Short: "have a timer of systemd renew the certificates", next: (*world).renewal},
	},
	Reset: {
		{Name: "remove-member", Short: "remove the member from the cluster", Network: true, next: (*world).leave},
		{Name: "stop", Short: "stop etcd", next: (*world).stopService},
		{Name: "data", Short: "move the data aside, or delete it", next: (*world).dropData},
		{Name: "files", Short: "delete configuration and certificates", next: (*world).dropFiles},
		{Name: "binaries", Short: "delete the binaries", next: (*world).dropBinaries},
		{Name: "record", Short: "forget the member", next: (*world).forget},
	},
	Remove: {
		{Name: "remove-member", Short: "remove the member from the cluster", Network: true, next: (*world).removeOther},
	},
	ToManager: {
		{Name: "certificates", Short: "make the daemon's certificate authorities", next: (*world).copyAuthorities},
		{Name: "binaries", Short: "install etcd where the daemon looks for it", next: (*world).managerBinaries},
		{Name: "record", Short: "record the incarnation in the control store", next: (*world).recordIncarnation},
		{Name: "journal", Short: "record the decision", next: (*world).writeJournal},
		{Name: "stop", Short: "stop etcd", next: (*world).stopForManager},
		{Name: "files", Short: "delete what starts etcd", next: (*world).dropStarters},
		{Name: "move", Short: "move the data to the daemon", next: (*world).moveToManager},
		{Name: "assign", Short: "assign the member to the daemon", next: (*world).assign},
		{Name: "done", Short: "record that it is done", next: (*world).journalDone},
	},
	FromManager: {
		{Name: "certificates", Short: "make the certificate authority", next: (*world).copyAuthorities},
		{Name: "journal", Short: "record the decision", next: (*world).writeJournal},
		{Name: "unassign", Short: "withdraw the member from the daemon", next: (*world).unassign},
		{Name: "move", Short: "move the data to etcdadm", next: (*world).moveFromManager},
		{Name: "start", Short: "have etcdadm configure and start etcd", next: (*world).runMember},
		{Name: "done", Short: "delete the traces of the handover", next: (*world).endHandover},
	},
}

func nothing(*world) (Operation, *Hold) { return nil, nil }
