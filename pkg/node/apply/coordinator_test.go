package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/store"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// A stage is everything that a coordinator acts on, and a protocol of what it
// did to it.
type stage struct {
	obs      cluster.Observation
	protocol []string
	sent     string // the id of the last order

	// proof is how long a confirmed lease lasts.
	proof time.Duration
	// confirms stands in for the context of a proof.
	confirms  func(context.Context) context.Context
	lost      error // of Confirm
	confirmed int

	execute func(ctx context.Context, term cluster.Term) error
	records error
	// wentBack says that the store has no backup that is looked for, lookErr that looking fails.
	wentBack bool
	lookErr  error
	members  []cluster.Member // what etcd says now
	etcdErr  error
	asked    []string // the URLs that etcd was asked at
	// revisions and hashes are of the members, by client URL.
	revisions map[string]cluster.Revision
	hashes    map[string]uint32
	// late are the client URLs of members that serve no reads now.
	late []string
	// unreachable are the client URLs of members that do not answer.
	unreachable []string
	// versions are what the members run, by client URL.
	versions map[string]etcdversion.Version
	// applied are the indexes of the members, by client URL.
	applied map[string]uint64
	mu      sync.Mutex
}

// newStage is a running cluster of three, with a fresh backup.
func newStage() *stage {
	version := etcdversion.Must("3.6.16")
	st := &stage{proof: 3 * time.Second}
	st.obs = cluster.Observation{
		At: noon, Token: "t1", Leader: 1,
		LeaseVoters: cluster.LeaseVoters{Token: "t1", Term: 3, Names: []cluster.NodeName{"a", "b", "c"}},
		Store: cluster.Store{Reachable: true, BackupsKnown: true,
			Backups: []cluster.Backup{
				{Name: "new", At: noon}, {Name: "old", At: noon.Add(-time.Hour)}, {Name: "older", At: noon.Add(-2 * time.Hour)},
			}},
	}
	for i, name := range []cluster.NodeName{"a", "b", "c"} {
		url := "http://" + string(name)
		st.obs.Members = append(st.obs.Members, cluster.Member{
			ID: cluster.MemberID(i + 1), Name: name, PeerURLs: []string{url + ":2380"}, ClientURLs: []string{url + ":4001"},
			Healthy: true,
		})
		st.obs.Nodes = append(st.obs.Nodes, cluster.Node{
			Name: name, Reachable: true, Published: true, Assigned: &cluster.Assigned{Token: "t1", Version: version},
			URLs: cluster.URLs{Peer: []string{url + ":2380"}, Client: []string{url + ":4001"}, Quarantine: []string{
				url + ":8001",
			}},
			Disk: cluster.Disk{State: cluster.DiskData, Token: "t1", MemberID: cluster.MemberID(i + 1)},
		})
	}
	st.obs.Nodes = append(st.obs.Nodes, cluster.Node{
		Name: "d", Reachable: true, Disk: cluster.Disk{State: cluster.DiskEmpty}, URLs: cluster.URLs{
			Peer: []string{"http://d:2380"},
		},
	})
	st.members = slices.Clone(st.obs.Members)
	return st
}

func (st *stage) note(format string, args ...any) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.protocol = append(st.protocol, fmt.Sprintf(format, args...))
}

func (st *stage) coordinator() *Coordinator {
	return &Coordinator{
		Self: "a", Fence: st, Records: st, Now: func() time.Time { return noon },
		Execute: func(ctx context.Context, op plan.Operation, term cluster.Term, id string) error {
			verb := "send"
			if id == st.sent {
				verb += " again"
			}
			st.sent = id
			st.note("%s in term %d: %s", verb, term, plan.KindOf(op).Path)
			if st.execute == nil {
				return nil
			}
			return st.execute(ctx, term)
		},
		Etcd: func(urls []string) (Etcd, error) {
			st.mu.Lock()
			st.asked = urls
			st.mu.Unlock()
			return fakeEtcd{st, urls}, st.etcdErr
		},
	}
}

func (st *stage) do(t *testing.T, op plan.Operation) error {
	t.Helper()
	return st.coordinator().Do(t.Context(), cluster.Spec{}, st.obs, op)
}

func (st *stage) Confirm(ctx context.Context) (context.Context, context.CancelFunc, cluster.Term, error) {
	st.confirmed++
	if st.lost != nil {
		return nil, nil, 0, st.lost
	}
	ctx, cancel := context.WithTimeout(ctx, st.proof)
	if st.confirms != nil {
		ctx = st.confirms(ctx)
	}
	return ctx, cancel, cluster.Term(st.confirmed), nil
}

func (st *stage) ChangeLeaseVoters(_ context.Context, _ cluster.Token, names []cluster.NodeName) error {
	st.note("lease voters %v", names)
	return st.records
}

func (st *stage) CreateIncarnation(_ context.Context, i cluster.Incarnation) error {
	st.note("incarnation %d %s by %s at %s", i.Number, i.Token, i.By, i.At.Format(time.TimeOnly))
	return st.records
}

func (st *stage) MarkAgain(ctx context.Context, at time.Time) error { return st.MarkCreated(ctx, at) }

func (st *stage) MarkCreated(_ context.Context, at time.Time) error {
	st.note("marker of %s", at.Format(time.TimeOnly))
	return st.records
}

func (st *stage) WriteSpec(_ context.Context, s cluster.Spec) error {
	st.note("spec %d %s", s.MemberCount, s.EtcdVersion)
	return st.records
}

func (st *stage) ReplaceSpec(_ context.Context, s cluster.Spec) error {
	st.note("replace the spec by %d members of %s", s.MemberCount, s.EtcdVersion)
	return st.records
}

func (st *stage) CloseRequest(_ context.Context, r store.Closed) error {
	st.note("close %s %s of %s, %s: %s", r.Kind, r.Name, r.Backup, r.Outcome, r.Reason)
	return st.records
}

func (st *stage) HasBackup(_ context.Context, name string) (bool, error) {
	st.note("look for %s", name)
	return !st.wentBack, st.lookErr
}

func (st *stage) DeleteBackup(_ context.Context, name string) error {
	st.note("delete %s", name)
	if st.records != nil && name == "old" {
		return st.records
	}
	return nil
}

// fakeEtcd is the cluster as its quorum has it.
type fakeEtcd struct {
	*stage
	urls []string
}

func (e fakeEtcd) Members(ctx context.Context) ([]cluster.Member, error) {
	return e.members, ctx.Err()
}

func (e fakeEtcd) change(ctx context.Context, format string, args ...any) error {
	e.note(format, args...)
	if err := ctx.Err(); err != nil {
		e.note("after the end of the lease")
	}
	return nil
}

func (e fakeEtcd) AddLearner(ctx context.Context, urls []string) (cluster.MemberID, error) {
	return 9, e.change(ctx, "add %v", urls)
}
func (e fakeEtcd) Promote(ctx context.Context, id cluster.MemberID) error {
	return e.change(ctx, "promote %s", id)
}
func (e fakeEtcd) Remove(ctx context.Context, id cluster.MemberID) error {
	return e.change(ctx, "remove %s", id)
}
func (e fakeEtcd) Update(ctx context.Context, id cluster.MemberID, urls []string) error {
	return e.change(ctx, "update %s to %v", id, urls)
}
func (e fakeEtcd) MoveLeader(ctx context.Context, id cluster.MemberID) error {
	return e.change(ctx, "move to %s", id)
}

func (e fakeEtcd) EnableDowngrade(ctx context.Context, to etcdversion.Version) error {
	return e.change(ctx, "prepare %s", to)
}
func (e fakeEtcd) CancelDowngrade(ctx context.Context) error {
	return e.change(ctx, "cancel the downgrade")
}

// Report and HashKV report the member at the URL that was connected to last.
func (e fakeEtcd) Report(ctx context.Context) (cluster.Report, error) {
	if slices.Contains(e.unreachable, e.urls[0]) {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return cluster.Report{}, ctx.Err()
	}
	r := cluster.Report{Leader: 1, Read: cluster.ReadServed, Revision: e.revisions[e.urls[0]],
		Applied: e.applied[e.urls[0]], Version: e.versions[e.urls[0]]}
	for _, m := range e.obs.Members {
		if strings.HasPrefix(e.urls[0], "http://"+string(m.Name)+":") {
			r.ID = m.ID
		}
	}
	if slices.Contains(e.late, e.urls[0]) {
		r.Read = cluster.ReadLate
	}
	return r, nil
}
func (e fakeEtcd) HashKV(_ context.Context, url string, rev cluster.Revision) (etcdclient.Hash, error) {
	return etcdclient.Hash{Hash: e.hashes[url], Revision: rev}, nil
}
func (e fakeEtcd) Close() error { e.note("close"); return nil }

// said compares the protocol.
func (st *stage) said(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(st.protocol, want) {
		t.Errorf("it did\n%s\nwant\n%s", strings.Join(st.protocol, "\n"), strings.Join(want, "\n"))
	}
}

// The changes of the member list, valid on a new stage.
var (
	addD    = &plan.AddLearner{Node: "d", PeerURLs: []string{"http://d:2380"}, ExpectVoters: 3}
	removeC = &plan.Remove{ID: 3, ExpectName: "c", ExpectVoters: 3}
	moveB   = &plan.MoveLeader{To: "b"}
	mark    = &plan.IncarnationMark{Token: "t1"}
)

func TestEffectsOfTheCoordinator(t *testing.T) {
	initialMembers := []cluster.InitialMember{{Name: "a", PeerURLs: []string{"http://a:2380"}}}
	for _, tc := range []struct {
		op   plan.Operation
		want []string
	}{
		{&plan.IncarnationCreate{Number: 1, Token: "t1", Version: etcdversion.Must("3.6.16"), Voters: initialMembers},
			[]string{"incarnation 1 t1 by a at 12:00:00"}},
		{mark, []string{"marker of 12:00:00"}},
		{&plan.SpecWrite{MemberCount: 3, EtcdVersion: etcdversion.Must("3.6.16")}, []string{"spec 3 3.6.16"}},
		{&plan.LeaseVotersWrite{Token: "t1", Names: []cluster.NodeName{"a", "b"}, Expect: []cluster.NodeName{"a", "b", "c"}},
			[]string{"lease voters [a b]"}},
		{&plan.BackupPrune{Remove: []string{"old", "older"}}, []string{"look for new", "delete old", "delete older"}},
		{addD, []string{"add [http://d:2380]", "close"}},
		{removeC, []string{"close", "close", "remove 3", "close"}}, // a and b are asked whether they serve
		{moveB, []string{"move to 2", "close"}},
		{&plan.DowngradeCancel{ExpectTo: etcdversion.Must("3.5.0")}, []string{"cancel the downgrade", "close"}},
	} {
		t.Run(plan.KindOf(tc.op).Path, func(t *testing.T) {
			st := newStage()
			st.obs.Store.SpecMissing = true
			if err := st.do(t, tc.op); err != nil {
				t.Fatal(err)
			}
			st.said(t, tc.want...)
			if st.confirmed != 1 {
				t.Errorf("the lease was confirmed %d times", st.confirmed)
			}
		})
	}
}

// A record without a backup is of a cluster that is taken over, and newer than the marker of
// the existing tool: that one's clock may have been ahead.
func TestARecordIsNewerThanTheMarker(t *testing.T) {
	st := newStage()
	c := st.coordinator()
	for _, ahead := range []time.Duration{-time.Hour, 0, time.Hour} {
		st.obs.Store.Created = c.Now().Add(ahead)
		i := c.incarnation(st.obs, &plan.IncarnationCreate{Number: 2, Token: "t1"})
		if !i.At.After(st.obs.Store.Created) || ahead < 0 && !i.At.Equal(c.Now()) {
			t.Errorf("%s ahead: the record is of %s, the marker of %s", ahead, i.At, st.obs.Store.Created)
		}
	}
	if i := c.incarnation(st.obs, &plan.IncarnationCreate{Number: 2, Token: "t2", Backup: "b"}); !i.At.Equal(c.Now()) {
		t.Errorf("the record of a restore is of %s", i.At)
	}
}

func TestALearnerIsPromotedByItsName(t *testing.T) {
	st := newStage()
	st.obs.Members = append(st.obs.Members, cluster.Member{ID: 9, Name: "d", Learner: true, Healthy: true})
	st.members = slices.Clone(st.obs.Members)
	slices.Reverse(st.members) // etcd's order is its own affair
	if err := st.do(t, &plan.Promote{Name: "d", ExpectVoters: 3}); err != nil {
		t.Fatal(err)
	}
	st.said(t, "close", "close", "close", "promote 9", "close") // the voters are asked whether they serve
}

func TestWhatTheInvariantsForbidIsNotBegun(t *testing.T) {
	for _, tc := range []struct {
		name string
		op   plan.Operation
		want string
	}{
		{"the leader cannot be removed", &plan.Remove{ID: 1, ExpectName: "a", ExpectVoters: 3}, "raft leader"},
		{"another number of voters", &plan.Remove{ID: 3, ExpectName: "c", ExpectVoters: 5}, "expected 5 voters"},
		{"the newest backup stays", &plan.BackupPrune{Remove: []string{"new"}}, "newest backup"},
		{"data of a member", &plan.DataSetAside{Node: "c", Token: "t1", ExpectMemberID: 3}, "etcd process runs"},
		{"half an operation", &plan.MoveLeader{}, "--to is missing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			st := newStage()
			wantError(t, st.do(t, tc.op), tc.want)
			st.said(t)
			if st.confirmed != 0 {
				t.Error("the lease voters were asked for it")
			}
		})
	}
}

func TestWithoutTheLeaseNothingIsBegun(t *testing.T) {
	for _, op := range []plan.Operation{addD, mark, stopC, &plan.BackupPrune{Remove: []string{"old"}}} {
		st := newStage()
		st.lost = errors.New("b: c has the lease of term 4")
		err := st.do(t, op)
		if !errors.Is(err, st.lost) {
			t.Errorf("%s: error %v", plan.Line(op), err)
		}
		wantError(t, err, "confirm the coordinator's lease")
		st.said(t)
	}
}

func TestAMemberListThatHasChangedIsStale(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(st *stage)
		want   string
	}{
		{"a member more", func(st *stage) { st.members = append(st.members, cluster.Member{ID: 4}) }, "4 voter"},
		{"a member less", func(st *stage) { st.members = st.members[:2] }, "found 1 voter; 2 voter; "},
		{"another in its place", func(st *stage) { st.members[2].ID = 33 }, "21 voter"},
		{"a vote less", func(st *stage) { st.members[2].Learner = true }, "3 learner"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, op := range []plan.Operation{addD, removeC, moveB} {
				st := newStage()
				tc.change(st)
				isStale(t, st.do(t, op), tc.want)
				st.said(t, "close")
			}
		})
	}
}

func TestAMemberWithoutItsNameYetIsStale(t *testing.T) {
	st := newStage()
	st.members[1].Name = "" // the list is the same, and b has not said its name there
	isStale(t, st.do(t, moveB), "a member b")
	st.said(t, "close")
}

func TestWhereEtcdIsAsked(t *testing.T) {
	st := newStage()
	st.obs.Nodes[0].Assigned.Quarantined = true
	st.obs.Members[1].Healthy, st.members[1].Healthy = false, false
	st.obs.Nodes[2].Reachable = false
	st.obs.Members[2].ClientURLs = []string{"http://reported:4001"}
	if err := st.do(t, addD); err != nil {
		t.Fatal(err)
	}
	// a is quarantined, b is unhealthy, and of c only the list knows.
	if want := []string{"http://a:8001", "http://reported:4001"}; !slices.Equal(st.asked, want) {
		t.Errorf("asked at %v, want %v", st.asked, want)
	}
	st = newStage()
	for i := range st.obs.Members { // the URL leads to any of them
		st.obs.Nodes[i].Reachable, st.obs.Members[i].ClientURLs = i == 0, []string{"http://all:4001"}
	}
	if err := st.do(t, addD); err != nil {
		t.Fatal(err)
	}
	if want := []string{"http://a:4001", "http://b:4001", "http://c:4001"}; !slices.Equal(st.asked, want) {
		t.Errorf("asked at %v, want %v", st.asked, want)
	}
	st = newStage()
	if err := st.do(t, moveB); err != nil {
		t.Fatal(err)
	}
	if want := []string{"http://a:4001"}; !slices.Equal(st.asked, want) {
		t.Errorf("the leader is asked at %v, want %v", st.asked, want)
	}
	if urls := leaderURLs(cluster.Observation{}); urls != nil {
		t.Errorf("without a leader, it is at %v", urls)
	}
}

func TestEtcdOutOfReach(t *testing.T) {
	st := newStage()
	st.etcdErr = errors.New("no endpoint")
	if err := st.do(t, addD); !errors.Is(err, st.etcdErr) {
		t.Errorf("error %v", err)
	}
}

func TestAStoreThatRefusesIsTheError(t *testing.T) {
	st := newStage()
	st.records = errors.New("access denied")
	if err := st.do(t, mark); !errors.Is(err, st.records) {
		t.Errorf("error %v", err)
	}
}

func TestPruneGoesOnAfterAnErrorAndReportsIt(t *testing.T) {
	st := newStage()
	st.records = errors.New("access denied")
	err := st.do(t, &plan.BackupPrune{Remove: []string{"old", "older"}})
	wantError(t, err, "delete backup old: access denied")
	st.said(t, "look for new", "delete old", "delete older")
}

// A store that has gone back since it was listed may have nothing newer than what is to go.
func TestNothingIsDeletedWithoutWhatIsToStay(t *testing.T) {
	st := newStage()
	st.wentBack = true
	wantError(t, st.do(t, &plan.BackupPrune{Remove: []string{"old"}}), "new, which is to stay, is not in the store any more")
	st.said(t, "look for new")

	st = newStage()
	st.lookErr = errors.New("access denied")
	wantError(t, st.do(t, &plan.BackupPrune{Remove: []string{"old"}}), "look for backup new, which is to stay: access denied")
	st.said(t, "look for new")
}

func TestAGoodBackupStays(t *testing.T) {
	st := newStage()
	backups := st.obs.Store.Backups
	for _, tc := range []struct {
		name   string
		change func([]cluster.Backup)
		remove []string
		want   string
	}{
		{"the newest", func([]cluster.Backup) {}, []string{"older"}, "new"},
		{"of those that stay", func([]cluster.Backup) {}, []string{"new", "older"}, "old"},
		{"not a damaged one", func(b []cluster.Backup) { b[0].Damaged = true }, []string{"older"}, "old"},
		{"not one of another cluster", func(b []cluster.Backup) { b[0].Foreign = "other" }, []string{"older"}, "old"},
		{"not one of the future", func(b []cluster.Backup) { b[0].At = noon.Add(time.Hour) }, []string{"older"}, "old"},
		{"a damaged one where there is no other", func(b []cluster.Backup) { b[0].Damaged = true },
			[]string{"old", "older"}, "new"},
		{"none", func([]cluster.Backup) {}, []string{"new", "old", "older"}, ""},
	} {
		st.obs.Store.Backups = slices.Clone(backups)
		tc.change(st.obs.Store.Backups)
		if got := staying(st.obs, tc.remove); got != tc.want {
			t.Errorf("%s: %q stays, want %q", tc.name, got, tc.want)
		}
	}
}

func TestTheEffectEndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage()
		c := st.coordinator()
		etcd := c.Etcd
		c.Etcd = func(urls []string) (Etcd, error) {
			time.Sleep(st.proof + time.Millisecond) // the daemon is paused between proof and effect
			return etcd(urls)
		}
		err := c.Do(t.Context(), cluster.Spec{}, st.obs, addD)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		st.said(t, "close")
	})
}

func TestWhatClearsByItself(t *testing.T) {
	for err, want := range map[error]bool{
		fmt.Errorf("add learner: %w", etcdclient.ErrUnhealthy): true,
		fmt.Errorf("promote: %w", etcdclient.ErrNotReady):      true,
		context.DeadlineExceeded:                               false,
		ErrPrecondition:                                        false,
	} {
		if got := NotYet(err); got != want {
			t.Errorf("%v clears by itself: %t", err, got)
		}
	}
	if NotYet(nil) {
		t.Error("success does not clear by itself")
	}
}

func TestEveryOperationHasADeadline(t *testing.T) {
	for _, k := range plan.Kinds() {
		want := quickDeadline
		if plan.InBackground(k.New()) {
			want = backupDeadline
		}
		if _, ok := k.New().(*plan.MemberChangeVersion); ok {
			want = changeDeadline
		}
		if _, ok := k.New().(*plan.MemberForceSnapshot); ok {
			want = snapshotDeadline
		}
		if _, ok := k.New().(*plan.MemberDrain); ok {
			want = drainDeadline // as where a removal gives the order
		}
		if got := Deadline(k.New()); got != want {
			t.Errorf("%s has %s, want %s", k.Path, got, want)
		}
	}
}
