package plan_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

const threeInitialMembers = "--voter=a=https://a:2380 --voter=b=https://b:2380 --voter=c=https://c:2380"

// bootstrapOf is a world in which three nodes have promised n1.
const bootstrapOf = `
node a promised=n1:a,b,c
node b promised=n1:a,b,c
node c promised=n1:a,b,c
`

// recordOf is the record of that bootstrap.
const recordOf = `
incarnation 1 token=n1 voters=a,b,c
token n1
`

// neverBegan is a bootstrap behind whose record is that of a restore of which nobody has
// anything.
const neverBegan = recordOf + "node a data=1/n1\nnode b promised=n2:a,b,c earlier=n1\nnodes c\n" +
	"incarnation 2 token=n3 voters=c restored=r1"

// lostLeaseVoter is a cluster of three whose record names two, of which one is gone.
const lostLeaseVoter = "cluster a b c\nlease-voters a,b on=a,c\nnode b down\nmember b down=1h"

// refused breaks each invariant once or more, in worlds made by hand. "stale"
// stands for a StaleError. Each world without its flaw is in TestCheckAllows.
var refused = []struct{ name, invariant, world, line string }{
	{"record again what a restore has ended", "restore",
		"cluster a b c\ncreated\nincarnation 1 token=t1 voters=a,b,c\nincarnation 2 token=n1 voters=a,b,c " +
			"restored=r1\nnode b staged=n1/r1:a,b,c\nnode c staged=n1/r1:a,b,c",
		"incarnation create --number=3 --token=t1 --version=3.6.16 " + threeInitialMembers},
	{"write lease voters where nobody knows any", "lease-voters", "cluster a b c\nbare",
		"lease-voters write --token=t1 --name=a --name=b --name=c"},
	{"promote before an even number of voters is recorded", "lease-voters",
		"cluster a b\nnode c data=3 running\nmember c id=3 learner=1m", "member promote --name=c --expect-voters=2"},
	{"remove before an even number of voters is recorded", "lease-voters", "cluster a b c d",
		"member remove --id=4 --expect-name=d --expect-voters=4"},
	{"record a learner beside an odd number of voters", "lease-voters",
		"cluster a\nnode b data=2 running\nmember b id=2 learner=1m",
		"lease-voters write --token=t1 --name=a --name=b --expect=a"},
	{"recover lease voters of whom a majority can grant", "lease-voters", "cluster a b c",
		"lease-voters recover --node=a --token=t1 --term=1 --name=a --name=b --name=c --expect=a --expect=b --expect=c"},
	{"recover lease voters while one that may grant is unreachable", "lease-voters", lostLeaseVoter + "\nnode z down",
		"lease-voters recover --node=a --token=t1 --term=1 --name=a --name=b --name=c --expect=a --expect=b --lost=b"},
	{"recover lease voters and call one lost that answers", "lease-voters", lostLeaseVoter,
		"lease-voters recover --node=a --token=t1 --term=1 --name=a --name=b --name=c --expect=a --expect=b --lost=a " +
			"--lost=b"},
	{"recover lease voters on a node without a voter", "lease-voters", lostLeaseVoter + "\nnodes d",
		"lease-voters recover --node=d --token=t1 --term=1 --name=a --name=b --name=c --expect=a --expect=b --lost=b"},
	{"recover lease voters without etcd's quorum", "quorum", lostLeaseVoter + "\nmember c down=1h\nleader none",
		"lease-voters recover --node=a --token=t1 --term=1 --name=a --name=b --name=c --expect=a --expect=b --lost=b"},
	{"recover lease voters while one of three voters is healthy", "quorum", lostLeaseVoter + "\nmember c down=1h\nleader a",
		"lease-voters recover --node=a --token=t1 --term=1 --name=a --name=b --name=c --expect=a --expect=b --lost=b"},
	{"recover other lease voters than the voters", "stale", lostLeaseVoter,
		"lease-voters recover --node=a --token=t1 --term=1 --name=a --name=c --expect=a --expect=b --lost=b"},
	{"recover from another record", "stale", lostLeaseVoter,
		"lease-voters recover --node=a --token=t1 --term=1 --name=a --name=b --name=c --expect=a --expect=c --lost=b"},
	{"recover lease voters in a term that was seen", "stale", lostLeaseVoter + "\nnode c term=9",
		"lease-voters recover --node=a --token=t1 --term=9 --name=a --name=b --name=c --expect=a --expect=b --lost=b"},
	{"remove one of two healthy of three", "quorum", "cluster a b c\nnode c down\nmember c down=1h",
		"member remove --id=2 --expect-name=b --expect-voters=3"},
	{"remove the only voter", "quorum", "cluster a\nleader none",
		"member remove --id=1 --expect-name=a --expect-voters=1"},
	{"remove the leader", "quorum", "cluster a b c\nleader c", "member remove --id=3 --expect-name=c --expect-voters=3"},
	{"stop one of two that hold the same data of three", "quorum", "cluster a b c\nnode c differs",
		"member stop --node=b --expect-token=t1 --expect-member-id=2"},
	{"move the lead to one that holds other data", "quorum", "cluster a b c\nnode c differs", "member move-leader --to=c"},
	{"stop one of two healthy of three", "quorum", "cluster a b c\nmember c down=1h",
		"member stop --node=b --expect-token=t1 --expect-member-id=2"},
	{"close the last margin to clients", "quorum", "cluster a b c\nmember c down=1h", "quarantine set --node=b"},
	{"promote a learner that is not healthy", "quorum", "cluster a b c\nnodes d\nmember d id=4 learner=1m down=1m",
		"member promote --name=d --expect-voters=3"},
	{"promote without quorum", "quorum",
		"cluster a b c\nmember b down=1h\nmember c down=1h\nnodes d\nmember d id=4 learner=1m",
		"member promote --name=d --expect-voters=3"},
	{"move the lead to a dead voter", "quorum", "cluster a b c\nmember c down=1h", "member move-leader --to=c"},
	{"move the lead to a learner", "quorum", "cluster a b c\nnodes d\nmember d id=4 learner=1m",
		"member move-leader --to=d"},
	{"move the lead to one whose disk hung until just now", "quorum", "cluster a b c\nnode c disk=recovering",
		"member move-leader --to=c"},
	{"remove one of three where the others do not reach each other", "quorum",
		"cluster a b c\nnode a link=2:down\nnode b link=1:down", "member remove --id=3 --expect-name=c --expect-voters=3"},
	{"promote one that none of two healthy voters reaches", "quorum",
		"cluster a b c\nmember c down=1m\nnode d data=4 running link=1:down link=2:down\nmember d id=4 learner=1m",
		"member promote --name=d --expect-voters=3"},
	{"promote one that a voter that serves does not reach", "peer-port",
		"cluster a b c\nnode d data=4 running link=1 link=2:down link=3\nnode b link=4:down\nmember d id=4 learner=1m",
		"member promote --name=d --expect-voters=3"},
	{"promote one that two do not reach, and accept one", "peer-port",
		"cluster a b c d e\nnode f data=6 running link=2:down link=3:down\nmember f id=6 learner=1m\nlease-voters a,b,c,d,e,f",
		"member promote --name=f --expect-voters=5 --accept-unreached=b"},
	{"promote one whose port has not been tried", "peer-port",
		"cluster a b c\nnode d data=4 running\nnode b link=4:untried\nmember d id=4 learner=1m",
		"member promote --name=d --expect-voters=3"},
	{"promote one and accept a name that no voter has", "unknown",
		"cluster a b c\nnode d data=4 running link=1 link=2 link=3\nmember d id=4 learner=1m",
		"member promote --name=d --expect-voters=3 --accept-unreached=b --accept-unreached=bb"},
	{"promote one and accept itself", "unknown",
		"cluster a b c\nnode d data=4 running link=1 link=2 link=3\nmember d id=4 learner=1m",
		"member promote --name=d --expect-voters=3 --accept-unreached=d"},
	{"promote one that nobody would reach, whatever is accepted", "quorum",
		"cluster a b c\nmember c down=1m\nnode d data=4 running link=1:down link=2:down\nmember d id=4 learner=1m",
		"member promote --name=d --expect-voters=3 --accept-unreached=a --accept-unreached=b"},
	{"add without quorum", "quorum", "cluster a b c\nmember b down=1h\nmember c down=1h\nnodes d",
		"member add-learner --node=d --peer-url=https://d:2380 --expect-voters=3"},
	{"add where one of three is healthy", "quorum", "cluster a b c\nmember b down=1h\nmember c down=1h\nleader a\nnodes d",
		"member add-learner --node=d --peer-url=https://d:2380 --expect-voters=3"},
	{"add a second learner", "one-change", "cluster a b c\nnodes d e\nmember d id=4 learner=1m",
		"member add-learner --node=e --peer-url=https://e:2380 --expect-voters=3"},
	{"add a node twice", "one-change", "cluster a b c",
		"member add-learner --node=c --peer-url=https://c:2380 --expect-voters=3"},
	{"remove a voter while there is a learner", "one-change", "cluster a b c\nnodes d\nmember d id=4 learner=1m",
		"member remove --id=3 --expect-name=c --expect-voters=3"},
	{"remove a voter while there is a learner that is down", "one-change",
		"cluster a b c\nnodes d\nmember d id=4 learner=1m down=1m", "member remove --id=3 --expect-name=c --expect-voters=3"},
	{"remove without a backup", "backup", "cluster a b c\nbackups none",
		"member remove --id=3 --expect-name=c --expect-voters=3"},
	{"remove with an old backup", "backup", "cluster a b c\nbackup age=16m",
		"member remove --id=3 --expect-name=c --expect-voters=3"},
	{"remove with a backup from the future", "backup", "cluster a b c\nbackup age=-1h",
		"member remove --id=3 --expect-name=c --expect-voters=3"},
	{"remove with a damaged backup", "backup", "cluster a b c\nbackup age=5m\ndamaged 2026-11-20T11:55:00Z-000001",
		"member remove --id=3 --expect-name=c --expect-voters=3"},
	{"add with an old backup", "backup", "cluster a b c\nnodes d\nbackup age=16m",
		"member add-learner --node=d --peer-url=https://d:2380 --expect-voters=3"},
	{"restart on a disk that is empty", "fresh-disk", "cluster a b c\nnode c empty stopped",
		"member start --node=c --token=t1 --mode=restart --version=3.6.16"},
	{"join as a voter that has lost its data", "fresh-disk", "cluster a b c\nnode c empty stopped",
		"member start --node=c --token=t1 --mode=join --version=3.6.16"},
	{"join without being a member", "fresh-disk", "cluster a b c\nnodes d",
		"member start --node=d --token=t1 --mode=join --version=3.6.16"},
	{"join as a learner that has lost its data", "fresh-disk", "cluster a b c\nnodes d\nmember d id=4 learner=1m",
		"member start --node=d --token=t1 --mode=join --version=3.6.16"},
	{"start new without a promise", "fresh-disk", recordOf + "nodes a b c",
		"member start --node=a --token=n1 --mode=new --version=3.6.16"},
	{"start new with another promise", "fresh-disk", recordOf + bootstrapOf + "node a promised=n2:a,b,c",
		"member start --node=a --token=n1 --mode=new --version=3.6.16"},
	{"start new where the member has run before", "fresh-disk",
		"cluster a b c\nnode c empty stopped unassigned promised=t1:a,b,c",
		"member start --node=c --token=t1 --mode=new --version=3.6.16"},
	{"start new where the place is taken", "fresh-disk",
		"incarnation 1 token=t1 voters=a,b,c\ncluster a b d\nnode c promised=t1:a,b,c",
		"member start --node=c --token=t1 --mode=new --version=3.6.16"},
	{"start new without a record", "bootstrap", bootstrapOf,
		"member start --node=a --token=n1 --mode=new --version=3.6.16"},
	{"start new beside a running cluster", "bootstrap",
		"cluster a b c\nincarnation 2 token=n2 voters=d\nnode d promised=n2:d",
		"member start --node=d --token=n2 --mode=new --version=3.6.16"},
	{"accept the data of another member", "stale", "cluster a b c\nnode c crashing differs",
		"member start --node=c --token=t1 --mode=restart --version=3.6.16 --accept-data=2"},
	{"start on the data of another incarnation", "live-data", "cluster a b c\nnode c data=3/t0 stopped",
		"member start --node=c --token=t1 --mode=restart --version=3.6.16"},
	{"start on a disk that cannot be read", "live-data", "cluster a b c\nnode c unreadable stopped",
		"member start --node=c --token=t1 --mode=restart --version=3.6.16"},
	{"add a node that has data", "live-data", "cluster a b c\nnode d data=9/t0",
		"member add-learner --node=d --peer-url=https://d:2380 --expect-voters=3"},
	{"move the data of a current member", "live-data", "cluster a b c\nnode c halted",
		"data set-aside --node=c --token=t1 --expect-member-id=3"},
	{"move the data of a member that changed its name", "live-data", "cluster a b c\ngone node c\nnode x data=3 halted",
		"data set-aside --node=x --token=t1 --expect-member-id=3"},
	{"move data while etcd runs on it", "live-data", "cluster a b c\nnode d data=9/t0 running",
		"data set-aside --node=d --token=t0 --expect-member-id=9"},
	{"move data on which etcd is started again and again", "live-data", "cluster a b c\nnode d data=9/t0 crashing",
		"data set-aside --node=d --token=t0 --expect-member-id=9"},
	{"move the data of a learner that has started", "live-data",
		"cluster a b c\nnode d data=4 halted\nmember d id=4 learner=1m",
		"data set-aside --node=d --token=t1 --expect-member-id=4"},
	{"move the data of another current member", "live-data", "cluster a b c\nnode a data=2 stopped\nnode b empty stopped",
		"data set-aside --node=a --token=t1 --expect-member-id=2"},
	{"stop what runs another current member", "quorum",
		"cluster a b c\nnode a data=2 running\nnode b empty stopped\nmember a down=1h",
		"member stop --node=a --expect-token=t1 --expect-member-id=2"},
	{"move old data while nobody knows the members", "live-data", "node c data=3/t0 stopped",
		"data set-aside --node=c --token=t0 --expect-member-id=3"},
	{"open with the last margin", "quorum", "cluster a b c\nnode b quarantined\nmember c down=1h",
		"quarantine lift --node=b"},
	{"restart with another version", "version", "cluster a b c",
		"member start --node=b --token=t1 --mode=restart --version=3.7.3"},
	{"restart with another patch", "version", "cluster a b c",
		"member start --node=b --token=t1 --mode=restart --version=3.6.11"},
	{"start new with another version", "version", recordOf + "node a data=1 stopped",
		"member start --node=a --token=n1 --mode=new --version=3.7.3"},
	{"move data while nobody knows the members", "live-data", "token t1\nnode c data=3 stopped",
		"data set-aside --node=c --token=t1 --expect-member-id=3"},
	{"found over data", "bootstrap", bootstrapOf + "node d data=9/t0",
		"incarnation create --number=1 --token=n1 --version=3.6.16 " + threeInitialMembers},
	{"found over an unreadable disk", "bootstrap", bootstrapOf + "node d unreadable",
		"incarnation create --number=1 --token=n1 --version=3.6.16 " + threeInitialMembers},
	{"found over a marker", "bootstrap", bootstrapOf + "created",
		"incarnation create --number=1 --token=n1 --version=3.6.16 " + threeInitialMembers},
	{"found over a backup", "bootstrap", bootstrapOf + "backup age=100h",
		"incarnation create --number=1 --token=n1 --version=3.6.16 " + threeInitialMembers},
	{"found beside a record that is not understood", "bootstrap", bootstrapOf + "records-problem 000001: rust",
		"incarnation create --number=1 --token=n1 --version=3.6.16 " + threeInitialMembers},
	{"record the running cluster beside a record that is not understood", "bootstrap",
		"cluster a b c\nstore emptied\nrecords-problem 000001: rust",
		"incarnation create --number=1 --token=t1 --version=3.6.16 " + threeInitialMembers},
	{"promise beside a record that is not understood", "bootstrap", "nodes a b c\nrecords-problem 000001: rust",
		"member prepare --node=a --token=n1 --version=3.6.16 " + threeInitialMembers},
	{"start new beside a record that is not understood", "bootstrap",
		recordOf + bootstrapOf + "records-problem 000002: rust",
		"member start --node=a --token=n1 --mode=new --version=3.6.16"},
	{"found over a record", "bootstrap", bootstrapOf + "incarnation 1 token=n0 voters=x",
		"incarnation create --number=2 --token=n1 --version=3.6.16 " + threeInitialMembers},
	{"found without the store", "bootstrap", bootstrapOf + "store unreachable",
		"incarnation create --number=1 --token=n1 --version=3.6.16 " + threeInitialMembers},
	{"found before the backups are known", "bootstrap", bootstrapOf + "store unread",
		"incarnation create --number=1 --token=n1 --version=3.6.16 " + threeInitialMembers},
	{"promise what a restore that may begin follows", "bootstrap", neverBegan + "\nnode c staged=n3/r1:c",
		"member prepare --node=b --token=n1 --version=3.6.16 " + threeInitialMembers},
	{"promise what a restore that has begun follows", "bootstrap", neverBegan + "\nnode c data=9/n3",
		"member prepare --node=b --token=n1 --version=3.6.16 " + threeInitialMembers},
	{"found with an initial member that has not promised", "bootstrap", bootstrapOf + "node c empty",
		"incarnation create --number=1 --token=n1 --version=3.6.16 " + threeInitialMembers},
	{"found with an initial member that does not answer", "bootstrap", bootstrapOf + "node c down",
		"incarnation create --number=1 --token=n1 --version=3.6.16 " + threeInitialMembers},
	{"found with an initial member that nobody knows", "unknown", "node a promised=n1:a,b,c\nnode b promised=n1:a,b,c",
		"incarnation create --number=1 --token=n1 --version=3.6.16 " + threeInitialMembers},
	{"record another cluster than the running one", "bootstrap", "cluster a b c\nstore emptied",
		"incarnation create --number=1 --token=n1 --version=3.6.16 " + threeInitialMembers},
	{"promise over data", "bootstrap", "nodes a b\nnode c data=9/t0",
		"member prepare --node=a --token=n1 --version=3.6.16 " + threeInitialMembers},
	{"promise on a node that has data", "bootstrap", "nodes a b\nnode c data=9/n1",
		"member prepare --node=c --token=n1 --version=3.6.16 " + threeInitialMembers},
	{"promise again after the disk was lost", "fresh-disk", recordOf + "node a data=1/n1\nnodes b c",
		"member prepare --node=b --token=n1 --version=3.6.16 " + threeInitialMembers},
	{"prune the newest", "newest", "cluster a b c\nbackups every=1h for=3h",
		"backup prune --remove=2026-11-20T11:00:00Z-000001 --remove=2026-11-20T10:00:00Z-000001"},
	{"prune the newest good one", "newest", "cluster a b c\nbackups every=1h for=3h\ndamaged 2026-11-20T11:00:00Z-000001",
		"backup prune --remove=2026-11-20T10:00:00Z-000001"},
	{"prune what only a clock calls old", "aged", "cluster a b c\nbackups every=24h for=240h\nlater 26280h",
		"backup prune --remove=2026-11-11T12:00:00Z-000001"},
	{"prune a whole day", "aged", "cluster a b c\nbackups every=24h for=240h",
		"backup prune --remove=2026-11-15T12:00:00Z-000001"},
	{"discard what came first of several", "aside", "cluster a b c\nnode a aside=150h,4h,3h,2h",
		"data discard --node=a --name=old-2 --expect-at=2026-11-20T08:00:00Z"},
	{"discard the oldest for its number", "aside", "cluster a b c\nnode a aside=150h,4h,3h,2h",
		"data discard --node=a --name=old-1 --expect-at=2026-11-14T06:00:00Z"},
	{"discard another of that name", "stale", "cluster a b c\nnode a aside=192h",
		"data discard --node=a --name=old-1 --expect-at=2026-11-01T12:00:00Z"},
	{"discard the newest", "aside", "cluster a b c\nnode a aside=150h,4h,3h,2h",
		"data discard --node=a --name=old-4 --expect-at=2026-11-20T10:00:00Z"},
	{"discard what was set aside just now", "aside", "cluster a b c\nnode a aside=4h,30m,20m,10m",
		"data discard --node=a --name=old-2 --expect-at=2026-11-20T11:30:00Z"},
	{"change the lease voters by two", "lease-voters", "cluster a d e\nlease-voters a,b,c",
		"lease-voters write --token=t1 --name=a --name=d --name=e --expect=a --expect=b --expect=c"},
	{"put one lease voter in the place of another", "lease-voters", "cluster a b d\nlease-voters a,b,c",
		"lease-voters write --token=t1 --name=a --name=b --name=d --expect=a --expect=b --expect=c"},
	{"lease voters who are not expected", "stale", "cluster a b c",
		"lease-voters write --token=t1 --name=a --name=b --expect=a --expect=b --expect=d"},
	{"another number of voters at a promotion", "stale", "cluster a b c\nnodes d\nmember d id=4 learner=1m",
		"member promote --name=d --expect-voters=4"},
	{"another number of voters at an addition", "stale", "cluster a b c\nnodes d",
		"member add-learner --node=d --peer-url=https://d:2380 --expect-voters=2"},
	{"lead to nobody", "stale", "cluster a b c", "member move-leader --to=z"},
	{"other data than expected", "stale", "cluster a b c\nnode d data=9/t0 stopped",
		"data set-aside --node=d --token=t0 --expect-member-id=8"},
	{"write a spec over another", "stale", "cluster a b c\nstore unreachable",
		"spec write --member-count=3 --etcd-version=3.6.16"},
	{"stop on a node that nobody knows", "unknown", "cluster a b c", "member stop --node=z --expect-token=t1"},
}

func TestCheckRefuses(t *testing.T) {
	for _, tt := range refused {
		t.Run(tt.name, func(t *testing.T) {
			err := checkLine(t, tt.world, tt.line)
			var unsafe *plan.UnsafeError
			var stale *plan.StaleError
			switch {
			case tt.invariant == "stale" && errors.As(err, &stale):
			case errors.As(err, &unsafe) && unsafe.Ports != strings.Contains(unsafe.Text, "at their peer ports"):
				t.Errorf("%v: for want of peer ports: %t", err, unsafe.Ports)
			case errors.As(err, &unsafe) && unsafe.Invariant == tt.invariant:
			default:
				t.Errorf("Check returned %v, want a breach of %s", err, tt.invariant)
			}
		})
	}
}

// TestCheckAllows asks the same operations where they are right, so that
// nothing above is refused for another reason.
func TestCheckAllows(t *testing.T) {
	tests := []struct{ name, world, line string }{
		{"remove the dead one", "cluster a b c\nnode c down\nmember c down=1h",
			"member remove --id=3 --expect-name=c --expect-voters=3"},
		{"remove one of three", "cluster a b c", "member remove --id=3 --expect-name=c --expect-voters=3"},
		{"remove what is removed", "cluster a b", "member remove --id=3 --expect-name=c --expect-voters=3"},
		{"remove a learner", "cluster a b c\nbackups none\nnodes d\nmember d id=4 learner=1m unnamed",
			"member remove --id=4 --expect-voters=3"},
		{"stop one of three", "cluster a b c", "member stop --node=b --expect-token=t1 --expect-member-id=2"},
		{"stop what is stopped", "cluster a b c\nnode b halted\nmember b down=1m\nmember c down=1m",
			"member stop --node=b --expect-token=t1 --expect-member-id=9"},
		{"stop what is no member", "cluster a b\nmember b down=1m\nnode d data=9/t0 running",
			"member stop --node=d --expect-token=t0 --expect-member-id=9"},
		{"close one of three", "cluster a b c", "quarantine set --node=b"},
		{"open", "cluster a b c\nnode b quarantined", "quarantine lift --node=b"},
		{"open the only one", "cluster a\nnode a quarantined", "quarantine lift --node=a"},
		{"open one that is down", "cluster a b c\nnode c quarantined\nmember c down=1h", "quarantine lift --node=c"},
		{"open what is open", "cluster a b c\nmember c down=1h", "quarantine lift --node=b"},
		{"start on another version where no data is",
			recordOf + "node a promised=n1:a,b,c assigned=n1 version=3.5.21\nnodes b c",
			"member start --node=a --token=n1 --mode=new --version=3.6.16"},
		{"promote", "cluster a b c\nnodes d\nmember d id=4 learner=1m", "member promote --name=d --expect-voters=3"},
		{"promote one that is reached at one port of the two",
			"cluster a b c\nnode d data=4 running link=2:down\nnode b link=4\nmember d id=4 learner=1m",
			"member promote --name=d --expect-voters=3"},
		{"promote one that a dead voter does not reach",
			"cluster a b c\nmember c down=1m\nnode d data=4 running link=3:down\nmember d id=4 learner=1m",
			"member promote --name=d --expect-voters=3"},
		{"promote one that a voter does not reach, which a person accepts",
			"cluster a b c\nnode d data=4 running link=1 link=2:down link=3\nnode b link=4:down\nmember d id=4 learner=1m",
			"member promote --name=d --expect-voters=3 --accept-unreached=b"},
		{"promote a voter", "cluster a b c", "member promote --name=c --expect-voters=2"},
		{"lead", "cluster a b c", "member move-leader --to=c"},
		{"add", "cluster a b c\nnodes d", "member add-learner --node=d --peer-url=https://d:2380 --expect-voters=3"},
		{"restart", "cluster a b c\nnode c halted", "member start --node=c --token=t1 --mode=restart --version=3.6.16"},
		{"join", "cluster a b c\nnodes d\nmember d id=4 learner=1m unnamed",
			"member start --node=d --token=t1 --mode=join --version=3.6.16"},
		{"start new", recordOf + bootstrapOf, "member start --node=a --token=n1 --mode=new --version=3.6.16"},
		{"start new on the data of the first start", recordOf + "node a data=1 stopped",
			"member start --node=a --token=n1 --mode=new --version=3.6.16"},
		{"start new, late", "cluster a b\nnode c promised=t1:a,b,c\nmember c id=3 unstarted down=1m",
			"member start --node=c --token=t1 --mode=new --version=3.6.16"},
		{"move the data of a member that was removed", "cluster a b\nnode c data=3 halted",
			"data set-aside --node=c --token=t1 --expect-member-id=3"},
		{"move the data of an earlier member of the node", "cluster a b c\nnode c data=9 halted",
			"data set-aside --node=c --token=t1 --expect-member-id=9"},
		{"move old data", "cluster a b\nnode c data=2/t0 stopped", "data set-aside --node=c --token=t0 --expect-member-id=2"},
		{"move the data of a learner that never finished its start",
			"cluster a b c\nnode d data=4 stopped\nmember d id=4 learner=1m unnamed",
			"data set-aside --node=d --token=t1 --expect-member-id=4"},
		{"found", bootstrapOf, "incarnation create --number=1 --token=n1 --version=3.6.16 " + threeInitialMembers},
		{"record what is recorded", recordOf + bootstrapOf + "created\nbackup age=1h",
			"incarnation create --number=1 --token=n1 --version=3.6.16 " + threeInitialMembers},
		{"record the running cluster", "cluster a b c\nstore emptied\nlease-voters a,b,c",
			"incarnation create --number=1 --token=t1 --version=3.6.16 " + threeInitialMembers},
		{"promise", "nodes a b c", "member prepare --node=a --token=n1 --version=3.6.16 " + threeInitialMembers},
		{"promise the winner", recordOf + "node a data=1/n1\nnode b promised=n2:a,b,c earlier=n1",
			"member prepare --node=b --token=n1 --version=3.6.16 " + threeInitialMembers},
		{"promise what a restore that never began follows", neverBegan,
			"member prepare --node=b --token=n1 --version=3.6.16 " + threeInitialMembers},
		{"mark", "cluster a b c\nbare", "incarnation mark --token=t1"},
		{"prune", "cluster a b c\nbackups every=1h for=3h", "backup prune --remove=2026-11-20T10:00:00Z-000001"},
		{"lease-voters", "cluster a d e\nlease-voters a,b,c",
			"lease-voters write --token=t1 --name=a --name=b --name=c --name=d --expect=a --expect=b --expect=c"},
		{"recover the lease voters", lostLeaseVoter,
			"lease-voters recover --node=a --token=t1 --term=1 --name=a --name=b --name=c --expect=a --expect=b --lost=b"},
		{"lease voters who are there", "cluster a b c",
			"lease-voters write --token=t1 --name=a --name=b --name=c --expect=z"},
		{"backup", "cluster a b c", "backup take --node=a --reason=request"},
		{"write the spec that is remembered", "cluster a b c\nspec-missing",
			"spec write --member-count=3 --etcd-version=3.6.16"},
		{"prune the oldest", "cluster a b c\nbackups every=168h for=20000h",
			"backup prune --remove=2024-08-09T12:00:00Z-000001"},
		{"discard", "cluster a b c\nnode a aside=192h",
			"data discard --node=a --name=old-1 --expect-at=2026-11-12T12:00:00Z"},
		{"discard one between two", "cluster a b c\nnode a aside=150h,4h,3h,2h",
			"data discard --node=a --name=old-3 --expect-at=2026-11-20T09:00:00Z"},
		{"discard what is gone", "cluster a b c\nnode a aside=4h",
			"data discard --node=a --name=old-9 --expect-at=2026-11-20T08:00:00Z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := checkLine(t, tt.world, tt.line); err != nil {
				t.Error(err)
			}
		})
	}
}

func checkLine(t *testing.T, world, line string) error {
	t.Helper()
	s := newStage()
	if err := s.observe(world); err != nil {
		t.Fatal(err)
	}
	op, err := plan.Parse(strings.Fields(line))
	if err != nil {
		t.Fatal(err)
	}
	return plan.Check(s.spec, s.obs, op)
}

// A limit lets go the oldest, as many as are over it and no more.
func TestCheckHoldsLimitsToWhatIsOverThem(t *testing.T) {
	const oldest, second = "2026-11-10T12:00:00Z-000001", "2026-11-11T12:00:00Z-000001"
	for _, tc := range []struct {
		count  int
		bytes  int64
		remove []string
		ok     bool
	}{
		{0, 0, []string{oldest}, false},
		{1000, 1 << 40, []string{oldest}, false},
		{10, 0, []string{oldest}, false},
		{9, 0, []string{oldest}, true},
		{9, 0, []string{oldest, second}, false},
		{8, 0, []string{oldest, second}, true},
		{9, 0, []string{"2026-11-15T12:00:00Z-000001"}, true},
		{0, 1000, []string{oldest}, false},
		{0, 999, []string{oldest}, true},
		{0, 900, []string{oldest, second}, false},
	} {
		s := newStage()
		if err := s.observe("cluster a b c\nbackups every=24h for=240h"); err != nil {
			t.Fatal(err)
		}
		for i := range s.obs.Store.Backups {
			s.obs.Store.Backups[i].Size = 100
		}
		s.spec.Policy.MaxBackups, s.spec.Policy.MaxBackupBytes = tc.count, tc.bytes
		err := plan.Check(s.spec, s.obs, &plan.BackupPrune{Remove: tc.remove})
		if (err == nil) != tc.ok {
			t.Errorf("%d backups, limits %d and %d bytes, remove %v: %v", len(s.obs.Store.Backups), tc.count, tc.bytes,
				tc.remove, err)
		}
	}
}

// TestCheckUsesThePolicy makes sure that the bounds come from the spec.
func TestCheckUsesThePolicy(t *testing.T) {
	s := newStage()
	if err := s.observe("cluster a b c\nbackup age=1h"); err != nil {
		t.Fatal(err)
	}
	op := &plan.Remove{ID: 3, ExpectName: "c", ExpectVoters: 3}
	if err := plan.Check(s.spec, s.obs, op); err == nil {
		t.Error("a backup of an hour is fresh")
	}
	s.spec.Policy.BackupFresh = 2 * 3600e9
	if err := plan.Check(s.spec, s.obs, op); err != nil {
		t.Error(err)
	}
	s.spec.Policy.StaticNodes = []cluster.NodeName{"v", "w", "x"}
	if err := s.observe(bootstrapOf); err != nil {
		t.Fatal(err)
	}
	create, err := plan.Parse(
		strings.Fields("incarnation create --number=1 --token=n1 --version=3.6.16 " + threeInitialMembers))
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Check(s.spec, s.obs, create); err == nil {
		t.Error("bootstrapped without a majority of the listed nodes")
	}
}

// TestCheckAsksValidate makes sure that an incomplete operation never passes.
func TestCheckAsksValidate(t *testing.T) {
	s := newStage()
	for _, k := range plan.Kinds() {
		if err := plan.Check(s.spec, s.obs, k.New()); err == nil {
			t.Errorf("%s without flags passes", k.Path)
		}
	}
}

// A refusal to delete what is too young says from when it may be deleted.
func TestDiscardSaysFromWhen(t *testing.T) {
	for line, want := range map[string]string{
		"data discard --node=a --name=old-1 --expect-at=2026-11-14T06:00:00Z": "from 2026-11-21T06:00:00Z",
		"data discard --node=a --name=old-3 --expect-at=2026-11-20T11:40:00Z": "from 2026-11-20T12:40:00Z",
	} {
		s := newStage()
		if err := s.observe("cluster a b c\nnode a aside=150h,30m,20m,10m"); err != nil {
			t.Fatal(err)
		}
		op, err := plan.Parse(strings.Fields(line))
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.Check(s.spec, s.obs, op); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
