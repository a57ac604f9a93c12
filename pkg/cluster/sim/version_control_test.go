package sim

import (
	"slices"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// versionControls are planners with a bug in what they do about versions, on purpose: see
// controls.
var versionControls = []struct {
	name, checked, trusting string
	next                    planner
}{
	{"overlooks a hazard", "check", "zombies", seeing(func(n *cluster.Node) { n.Hazards = cluster.NoHazards() }, nil)},
	{"takes what nobody knows for absent", "check", "", seeing(func(n *cluster.Node) {
		n.Hazards = slices.Clone(n.Hazards)
		for i := range n.Hazards {
			if n.Hazards[i].State == cluster.HazardUnknown {
				n.Hazards[i].State = cluster.HazardAbsent
			}
		}
	}, nil)},
	{"overlooks old entries in the log", "check", "", seeing(func(n *cluster.Node) {
		n.OldLog = cluster.Hazard{Kind: cluster.HazardOldLog, State: cluster.HazardAbsent}
	}, nil)},
	{"overlooks requests of the v2 store in the log", "check", "", seeing(func(n *cluster.Node) {
		v2log := func(h cluster.Hazard) bool { return h.Kind == cluster.HazardV2Log }
		n.Hazards = append(slices.DeleteFunc(slices.Clone(n.Hazards), v2log),
			cluster.Hazard{Kind: cluster.HazardV2Log, State: cluster.HazardAbsent})
	}, nil)},
	{"changes the leader first", "check", "version",
		func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
			op, holds := plan.Next(spec, obs)
			if c, ok := op.(*plan.MemberChangeVersion); ok {
				for _, n := range obs.Nodes {
					if n.Assigned != nil && n.Disk.MemberID == obs.Leader && n.Assigned.Version == c.ExpectVersion {
						first := *c
						first.Node, first.ExpectMemberID = n.Name, obs.Leader
						return &first, holds
					}
				}
			}
			return op, holds
		}},
	{"changes two at once", "check", "between quorum", seeing(func(n *cluster.Node) {
		if n.Change.Pending() {
			n.Change, n.Process.State = nil, cluster.ProcessRunning
		}
	}, func(obs *cluster.Observation) {
		for i := range obs.Members {
			m := &obs.Members[i]
			m.Healthy, m.Condition, m.Served, m.Applied = true, cluster.Serving, true, 1<<40
		}
	})},
	{"overlooks a learner", "check", "version", seeing(nil, func(obs *cluster.Observation) {
		obs.Members = slices.DeleteFunc(obs.Members, func(m cluster.Member) bool { return m.Learner })
	})},
	{"goes down without a downgrade", "check", "older-data", seeing(nil, func(obs *cluster.Observation) {
		obs.ClusterVersion, obs.Downgrade = older(obs.ClusterVersion), older(obs.ClusterVersion)
		for i := range obs.Members {
			obs.Members[i].Storage = obs.ClusterVersion
		}
	})},
	{"does not wait until the data is older", "check", "older-data", seeing(nil, func(obs *cluster.Observation) {
		if !obs.Downgrade.IsZero() {
			obs.ClusterVersion = obs.Downgrade
			for i := range obs.Members {
				obs.Members[i].Storage = obs.Downgrade
			}
		}
	})},
	{"skips a minor version", "check", "version",
		func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
			op, holds := plan.Next(spec, obs)
			if c, ok := op.(*plan.MemberChangeVersion); ok && c.To != spec.EtcdVersion {
				far := *c
				far.To = spec.EtcdVersion
				return &far, holds
			}
			return op, holds
		}},
	{"does not wait for the cluster version", "check", "version", seeing(nil, func(obs *cluster.Observation) {
		for _, n := range obs.Nodes {
			if n.Assigned != nil && n.Assigned.Version.Compare(obs.ClusterVersion) > 0 {
				obs.ClusterVersion = minor(n.Assigned.Version)
			}
		}
	})},
	{"takes the word for another version", "check", "zombies",
		func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
			if spec.Risk.Reason != "" {
				spec.Risk.Version = spec.EtcdVersion
			}
			return plan.Next(spec, obs)
		}},
	{"tries on a second member what has failed", "check", "risk", seeing(func(n *cluster.Node) {
		if n.Change != nil && n.Change.Back {
			n.Change = nil
		}
	}, nil)},
	{"changes where none can be spared", "check", "",
		func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
			if len(obs.Members) == 2 {
				spec.MemberCount = 2
			}
			return plan.Next(spec, obs)
		}},
	{"takes binaries for granted", "check", "", seeing(func(n *cluster.Node) { n.Versions = universe }, nil)},
	{"does not look ahead", "check", "",
		func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
			near := slices.ContainsFunc(obs.Nodes, func(n cluster.Node) bool {
				return n.Assigned != nil && abs(n.Assigned.Version.Minor-spec.EtcdVersion.Minor) < 2
			})
			return seeing(func(n *cluster.Node) {
				if !near {
					n.Versions = append(slices.Clone(n.Versions), spec.EtcdVersion)
				}
			}, nil)(spec, obs)
		}},
	{"takes no backup first", "check", "", seeing(nil, func(obs *cluster.Observation) {
		if len(obs.Members) > 0 {
			obs.Store.Backups = append([]cluster.Backup{{Name: "dream", At: obs.At}}, obs.Store.Backups...)
		}
	})},
	{"restores another backup than the request's own", "check", "data-lost", seeing(nil, withAnotherBackup)},
	{"takes the backup before clients are kept away", "check", "data-lost", seeing(nil, withAllClosed)},
	{"carries out what was cancelled", "cancelled", "cancelled", stubborn},
	{"opens members while a restore may be decided", "check", "data-lost", seeing(nil, withoutStaged)},
	{"never forces a raft snapshot", "stuck", "", without[*plan.MemberForceSnapshot]()},
	{"never cancels a downgrade", "stuck", "", without[*plan.DowngradeCancel]()},
	{"never moves the leader", "stuck", "", without[*plan.MoveLeader]()},
}

// rareVersions has the seeds to begin with, with Check and without, for those that few
// histories catch: a little before one that does.
var rareVersions = map[string][2]uint64{
	"overlooks a hazard":                       {0, 70},
	"takes the word for another version":       {40, 1310},
	"does not wait for the cluster version":    {70, 1380},
	"overlooks a learner":                      {0, 35},
	"changes two at once":                      {105, 1700},
	"tries on a second member what has failed": {710, 710},
	"does not look ahead":                      {355, 0},
	"never forces a raft snapshot":             {25, 0},

	"takes the backup before clients are kept away": {0, 240},
	"opens members while a restore may be decided":  {0, 5840},
	"never cancels a downgrade":                     {10, 0},
}

// aboutRestores are those that show where operators allow restores.
var aboutRestores = []string{
	"restores another backup than the request's own", "takes the backup before clients are kept away",
	"carries out what was cancelled", "opens members while a restore may be decided",
}

func abs(n int) int { return max(n, -n) }

// older is the minor version before.
func older(v etcdversion.Version) etcdversion.Version {
	return etcdversion.Version{Major: v.Major, Minor: v.Minor - 1}
}

// seeing is the planner with another view of the nodes, or of the rest.
func seeing(node func(*cluster.Node), rest func(*cluster.Observation)) planner {
	return func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
		obs.Nodes, obs.Members = slices.Clone(obs.Nodes), slices.Clone(obs.Members)
		for i := range obs.Nodes {
			if node != nil {
				node(&obs.Nodes[i])
			}
		}
		if rest != nil {
			rest(&obs)
		}
		return plan.Next(spec, obs)
	}
}

func TestBugsAboutVersionsAreCaught(t *testing.T) {
	for _, c := range versionControls {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			first, sealed := rareVersions[c.name], slices.Contains(aboutRestores, c.name)
			catch(t, Config{Next: c.next, Versions: true, Sealed: sealed}, first[0], c.checked)
			if c.trusting != "" {
				catch(t, Config{Next: c.next, Versions: true, Sealed: sealed, Trusting: true}, first[1], c.trusting)
			}
		})
	}
}

// TestVersionRegressions replays what the simulator has found about versions.
func TestVersionRegressions(t *testing.T) {
	tests := []struct {
		name  string
		seeds []uint64
	}{
		{"a machine that is gone checks nothing", []uint64{79, 3296}},
		{"a learner that the leader's keys of the v2 store would end is not added", []uint64{67262431611061779}},
		{"a start for another version than the member runs is refused", []uint64{3054}},
		{"what failed in a downgrade that was cancelled is tried again behind another", []uint64{3137, 3210}},
		{"what failed on a member that leads by now is tried again behind a move", []uint64{1024, 1184, 4241}},
		{"no patch takes keys of the v2 store away", []uint64{4143}},
		{"the cluster version rises when all members answer", []uint64{2001, 2060, 4690}},
		{"a machine that is gone is between no versions", []uint64{100696}},
		{"etcd ends a downgrade when it has heard from all members", []uint64{17969551769700091}},
		{"data that is older already is old enough", []uint64{5964214279170}},
		{"nothing goes down where the cluster version may rise", []uint64{1277126915902}},
		{"data that is older than it has to be is prepared", []uint64{26173211411648}},
		{"a machine that is gone needs no binaries", []uint64{19303321526330}},
		{"the cluster version rises before the last member changes", []uint64{25427430371170}},
		{"what does not serve takes no requests of the v2 store", []uint64{22013531548766}},
		{"an order that comes late finds the other voters gone", []uint64{7072625547866}},
		{"an order that comes late finds a downgrade enabled", []uint64{91250000001129}},
		{"a downgrade by hand over two minor versions is cancelled", []uint64{91250000600001}},
		{"an order that comes late is from when there were more voters", []uint64{91250000902680}},
		{"an order that comes late is from when the spec asked for one voter", []uint64{45655188786481901}},
		{"time without the others is no time to come up", []uint64{91260000402358}},
		{"what is well for a moment before its disk hangs was not seen", []uint64{91280000100070}},
		{"a machine that is gone changes nothing", []uint64{91250000500552}},
		{"nobody goes back to a version that dies on the data", []uint64{44612341126755569}},
		{"a downgrade is cancelled when what is between two versions is replaced", []uint64{28642542245467381}},
		{"a daemon has to know its member first", []uint64{1240, 3883, 4899}},
	}
	for _, tt := range tests {
		for _, seed := range tt.seeds {
			if _, err := Run(seed, Config{Versions: true, Record: true}); err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
	}
}
