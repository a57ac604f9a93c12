package observe

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func TestWhatTheObserverIsIsPartOfTheObservation(t *testing.T) {
	obs := newWorld().merge(cluster.Observation{})
	equal(t, "observation", obs, cluster.Observation{
		Cluster: "main", At: noon, Observer: "a", Since: noon.Add(-time.Hour), Nonce: "nonce",
		Store: cluster.Store{Reachable: true},
	})
}

func TestAnUnreachableNodeKeepsWhatItSaidLast(t *testing.T) {
	before := newWorld().node("b", assigned("t1"), func(a *cluster.Answer) {
		a.Now = noon.Add(3 * time.Second)
		a.Node.FreeBytes = 1000
		a.Node.SetAside = []cluster.SetAside{{Name: "old"}}
	}).merge(cluster.Observation{})
	equal(t, "skew before", nodeOf(t, before, "b").ClockSkew, 3*time.Second)

	later := newWorld().unreachable("b")
	later.in.at = noon.Add(time.Minute)
	obs := later.merge(before)

	n := nodeOf(t, obs, "b")
	want := nodeOf(t, before, "b")
	want.Reachable, want.ClockSkew = false, 0 // what is not known now is not carried on
	equal(t, "unreachable node", n, want)
	equal(t, "last seen", n.LastSeen, noon)
	equal(t, "gaps", obs.Gaps, []cluster.Gap{{Source: "node b", Text: "no route"}})

	// It keeps it over any number of observations.
	equal(t, "after another observation", nodeOf(t, newWorld().unreachable("b").merge(obs), "b"), want)
}

func TestAnUnreachableNodeThatNeverAnsweredIsKnownByNameOnly(t *testing.T) {
	n := nodeOf(t, newWorld().unreachable("b").merge(cluster.Observation{}), "b")
	equal(t, "node", n, cluster.Node{Name: "b", Address: "b:1"})
	// An empty disk state is "unknown", which bootstrap must not take for empty.
	if n.Disk.State == cluster.DiskEmpty {
		t.Error("a node that never answered is said to have an empty disk")
	}
}

func TestAnUnreachableNodeThatHasMovedIsAskedAtItsNewAddress(t *testing.T) {
	before := newWorld().node("b").merge(cluster.Observation{})
	w := newWorld().unreachable("b")
	w.in.nodes[0].peer.Address = "b:2"
	equal(t, "address", nodeOf(t, w.merge(before), "b").Address, "b:2")
	w.in.nodes[0].peer.Address = "" // a peer that gossip knows without an address
	equal(t, "address", nodeOf(t, w.merge(before), "b").Address, "b:1")
}

func TestANodeCannotNameItself(t *testing.T) {
	obs := newWorld().node("b", func(a *cluster.Answer) { a.Node.Name = "c" }).merge(cluster.Observation{})
	equal(t, "nodes", nodeNames(obs), "b")
}

func TestRecordsWithoutPeersAreKnownAndUnreachable(t *testing.T) {
	obs := newWorld().node("a").records(
		Record{Name: "z", Address: "z:9", Boot: "boot-z"},
		Record{Name: "b", Address: "b:9", Boot: "boot-b"},
		Record{Name: "a", Address: "a:9", Boot: "boot-a"},
	).merge(cluster.Observation{})
	equal(t, "nodes", nodeNames(obs), "a b z")
	equal(t, "recorded node", nodeOf(t, obs, "b"), cluster.Node{Name: "b", Address: "b:9"})
	equal(t, "address of the one that answers", nodeOf(t, obs, "a").Address, "a:1")
	// Nobody was asked, so nobody failed to answer.
	equal(t, "gaps", gapSources(obs), "")
}

func TestARecordWithoutPeerKeepsWhatTheNodeSaidLastWithoutItsConflict(t *testing.T) {
	w := newWorld().node("b", assigned("t1"))
	w.in.nodes[0].peer.Conflict = "10.0.0.9:1"
	before := w.merge(cluster.Observation{})
	equal(t, "conflict", nodeOf(t, before, "b").Conflict, "10.0.0.9:1")

	n := nodeOf(t, newWorld().records(Record{Name: "b", Address: "b:7"}).merge(before), "b")
	equal(t, "reachable", n.Reachable, false)
	equal(t, "address", n.Address, "b:7")
	equal(t, "assignment", n.Assigned, &cluster.Assigned{Token: "t1"})
	equal(t, "conflict of a daemon that gossip has forgotten", n.Conflict, "")
}

func TestTwoDaemonsOfOneNameAreAConflictAsLongAsGossipSaysSo(t *testing.T) {
	w := newWorld().unreachable("b")
	w.in.nodes[0].peer.Conflict = "10.0.0.9:1"
	obs := w.merge(cluster.Observation{})
	equal(t, "conflict of an unreachable node", nodeOf(t, obs, "b").Conflict, "10.0.0.9:1")
	equal(t, "conflict after it is over", nodeOf(t, newWorld().unreachable("b").merge(obs), "b").Conflict, "")
}

func TestPublishedNeedsTheRecordOfThisBoot(t *testing.T) {
	for _, tc := range []struct {
		name    string
		boot    cluster.Token
		records []Record
		want    bool
	}{
		{"the same boot", "b2", []Record{{Name: "b", Boot: "b2"}}, true},
		{"a record of an earlier boot, maybe in a copied store", "b2", []Record{{Name: "b", Boot: "b1"}}, false},
		{"no record", "b2", nil, false},
		{"another node's record", "b2", []Record{{Name: "c", Boot: "b2"}}, false},
		{"neither says a boot", "", []Record{{Name: "b"}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obs := newWorld().node("b", func(a *cluster.Answer) { a.Node.Boot = tc.boot; a.Node.Published = !tc.want }).
				records(tc.records...).merge(cluster.Observation{})
			equal(t, "published", nodeOf(t, obs, "b").Published, tc.want)
		})
	}
}

func TestClockSkewIsMeasuredInTheMiddleOfTheQuestion(t *testing.T) {
	for _, tc := range []struct {
		name       string
		took, says time.Duration // after the question was sent
		want       time.Duration
	}{
		{"same clock, halfway", 2 * time.Second, time.Second, 0},
		{"ahead", 0, 5 * time.Second, 5 * time.Second},
		{"behind", 200 * time.Millisecond, -time.Minute, -time.Minute - 100*time.Millisecond},
		// Half the way is the largest error that a slow answer can make.
		{"same clock, slow way back", 2 * time.Second, 0, -time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld().node("b", func(a *cluster.Answer) { a.Now = noon.Add(tc.says) })
			w.in.nodes[0].got = noon.Add(tc.took)
			equal(t, "skew", nodeOf(t, w.merge(cluster.Observation{}), "b").ClockSkew, tc.want)
		})
	}
}

func TestAStoreThatDoesNotAnswerIsAGapWithWhatItSaidLast(t *testing.T) {
	w := newWorld().incarnations("t1").unreachable("c").unreachable("b")
	w.in.store.Err = errors.New("access denied")
	w.in.store.Store.Reachable = true // a view's last answer
	obs := w.merge(cluster.Observation{})
	equal(t, "reachable", obs.Store.Reachable, false)
	equal(t, "incarnations", len(obs.Store.Incarnations), 1)
	equal(t, "gaps, sorted", gapSources(obs), "node b, node c, store")
}

// A refusedError is the answer of a daemon of another cluster.
type refusedError struct{}

func (refusedError) Error() string        { return "node b belongs to cluster prod" }
func (refusedError) OtherCluster() string { return "prod" }

func TestADaemonOfAnotherClusterIsThereAndReportsNothing(t *testing.T) {
	w := newWorld().unreachable("b")
	w.in.nodes[0].err = fmt.Errorf("observe b: %w", refusedError{})
	obs := w.merge(cluster.Observation{})
	n := nodeOf(t, obs, "b")
	if n.Reachable || n.OtherCluster != "prod" {
		t.Errorf("node b is %+v, want one that belongs to prod and is not reachable", n)
	}
	// It is known for one observation only.
	if n := nodeOf(t, newWorld().unreachable("b").merge(obs), "b"); n.OtherCluster != "" {
		t.Errorf("an unreachable node is said to belong to %s", n.OtherCluster)
	}
}
