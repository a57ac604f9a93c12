package nodeobserve

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/hazards"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

// A node reports what is in the data of its real member, having checked it once for each
// set of files.
func TestHazardsOfARealMember(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := etcdtest.New(t, "a")
	m.DataDir = nodestate.DataDir(dir, "t1")
	m.Start(t, etcdtest.Binaries(t, "3.5.35"))
	etcdtest.AwaitRead(t, etcdtest.Dial(t, m))
	s := nodestate.State{Assigned: &cluster.Assigned{Token: "t1", Version: etcdversion.Must("3.5.21")}}
	disk := cluster.Disk{State: cluster.DiskData, Token: "t1"}
	var l dataWatch
	now := time.Unix(1000, 0)
	var found []cluster.Hazard
	for (len(found) == 0 || found[0].State == cluster.HazardPending) && t.Context().Err() == nil {
		found = l.of(dir, s, disk, now, hazards.Examine)
		l.wait(t.Context())
		now = now.Add(unknownAgeLimit)
	}
	from, to := etcdversion.Must("3.5.21"), etcdversion.Must("3.6.16")
	if held := cluster.HazardsFrom(found, from, to); len(held) > 0 {
		t.Errorf("a clean member has %v", held)
	}
	at := l.at
	l.of(dir, s, disk, now.Add(time.Hour), hazards.Examine)
	if l.wait(t.Context()); l.at != at {
		t.Error("it checks the same files again")
	}
	s.Assigned.Token = "t2"
	if got := l.of(dir, s, disk, now, hazards.Examine); got != nil {
		t.Errorf("of the data of another incarnation it reports %v", got)
	}
}

// etcd repairs its list of members when it starts, and makes no new file then: what was
// found is not found forever. What nobody has found yet is no reason to check again.
func TestWhatIsRepairedIsSeen(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(nodestate.DataDir(dir, "t1"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := nodestate.State{Assigned: &cluster.Assigned{Token: "t1", Version: etcdversion.Must("3.5.35")}}
	disk := cluster.Disk{State: cluster.DiskData, Token: "t1", MemberID: 1}
	data := []cluster.Hazard{{Kind: cluster.HazardMembers, State: cluster.HazardPresent}}
	checks := 0
	examine := func(datadir.Dir) []cluster.Hazard {
		checks++
		return data
	}
	var l dataWatch
	now := time.Unix(1000, 0)
	state := func() cluster.HazardState {
		found := l.of(dir, s, disk, now, examine)
		l.wait(t.Context())
		return cluster.HazardOf(found, cluster.HazardMembers).State
	}
	if got := state(); got != cluster.HazardPending {
		t.Errorf("before the first check it is %s", got)
	}
	if got := state(); got != cluster.HazardPresent {
		t.Errorf("what is there is %s", got)
	}
	data = cluster.NoHazards()
	now = now.Add(presentAgeLimit)
	state()
	if got := state(); got != cluster.HazardAbsent {
		t.Errorf("what was repaired is %s", got)
	}
	seen := checks
	now = now.Add(time.Hour)
	if state(); checks != seen {
		t.Error("it checks again where nothing was found")
	}
	disk.MemberID = 2 // it has joined again
	if got := state(); got != cluster.HazardPending {
		t.Errorf("of another member it is %s", got)
	}
}

// The data of a member that has just been bootstrapped cannot be read for a moment, which is no
// reason to say that it is unknown what is in it.
func TestDataThatCannotBeReadIsPendingAtFirst(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(nodestate.DataDir(dir, "t1"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := nodestate.State{Assigned: &cluster.Assigned{Token: "t1", Version: etcdversion.Must("3.5.21")}}
	disk := cluster.Disk{State: cluster.DiskData, Token: "t1", MemberID: 1}
	unread := []cluster.Hazard{{Kind: cluster.HazardMembers, State: cluster.HazardUnknown, What: "no bucket"}}
	data := unread
	examine := func(datadir.Dir) []cluster.Hazard { return data }
	var l dataWatch
	now := time.Unix(1000, 0)
	after := func(d time.Duration) cluster.Hazard {
		now = now.Add(d)
		l.of(dir, s, disk, now, examine)
		l.wait(t.Context())
		return cluster.HazardOf(l.found, cluster.HazardMembers)
	}
	for range 3 {
		if h := after(retryInterval); h.State != cluster.HazardPending || !strings.Contains(h.What, "no bucket") {
			t.Errorf("data that has just come is %s", h)
		}
	}
	if h := after(unreadGrace); h.State != cluster.HazardUnknown {
		t.Errorf("data that has not been readable for long is %s", h)
	}
	data = cluster.NoHazards()
	if h := after(unknownAgeLimit); h.State != cluster.HazardAbsent {
		t.Errorf("data that can be read is %s", h)
	}
	data = unread
	disk.MemberID = 2 // it has joined again
	if h := after(0); h.State != cluster.HazardPending {
		t.Errorf("data of another member is %s", h)
	}
}

// A check that began before what it finds was forgotten, or known better, proves nothing.
func TestAnOvertakenCheckIsDropped(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(nodestate.DataDir(dir, "t1"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := nodestate.State{Assigned: &cluster.Assigned{Token: "t1", Version: etcdversion.Must("3.5.35")}}
	disk := cluster.Disk{State: cluster.DiskData, Token: "t1", MemberID: 1}
	absent := []cluster.Hazard{{Kind: cluster.HazardMembers, State: cluster.HazardAbsent}}
	present := []cluster.Hazard{{Kind: cluster.HazardMembers, State: cluster.HazardPresent}}
	now := time.Unix(1000, 0)
	for name, overtake := range map[string]func(*dataWatch){
		"forgotten": func(l *dataWatch) {
			l.forget()
			l.of(dir, s, disk, now, nil) // one is under way: none begins
		},
		"known better": func(l *dataWatch) { l.take(present) },
	} {
		t.Run(name, func(t *testing.T) {
			var l dataWatch
			begun, goOn := make(chan bool), make(chan bool)
			l.of(dir, s, disk, now, func(datadir.Dir) []cluster.Hazard {
				close(begun)
				<-goOn
				return absent
			})
			<-begun
			overtake(&l)
			close(goOn)
			l.wait(t.Context())
			got := l.of(dir, s, disk, now, func(datadir.Dir) []cluster.Hazard { return present })
			if len(got) > 0 && got[0].State == cluster.HazardAbsent {
				t.Errorf("the node goes by a check that is old: %v", got)
			}
			l.wait(t.Context())
		})
	}
}
