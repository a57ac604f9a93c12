package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc/election"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdproc"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/apply"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

var version = etcdversion.Must("3.6.16")

// A site is a node with a real disk, a real vote and a real executor, and a
// binary that is never run.
type site struct {
	*node
	t   *testing.T
	dir string
	log bytes.Buffer
	// standings are what other nodes say of the lease, view what the store says.
	standings map[cluster.NodeName]lease.Standing
	view      store.View
	viewErr   error
	// published are the lease voters in the store, asked whom the node has asked.
	published cluster.LeaseVoters
	mu        sync.Mutex
	asked     []cluster.NodeName
	// kept is what goes to the store of the orders.
	kept []store.HistoryEntry
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, dir: filepath.Join(t.TempDir(), "data")}
	state, err := nodestate.Open(s.dir, nodestate.Self{Name: "a"})
	must(t, err)
	proc, err := etcdproc.New(t.Context(), etcdproc.Options{Dir: s.dir})
	must(t, err)
	bins := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(bins, "etcd-v3.6.16"), 0o755))
	must(t, os.WriteFile(filepath.Join(bins, "etcd-v3.6.16", "etcd"), []byte("#!/bin/false\n"), 0o755))
	voter := voterOf(state)
	s.node = &node{
		neighbours: newNeighbours(time.Minute, time.Now),
		address:    "10.0.0.1:8000", boot: "boot-a", state: state, voter: voter, keys: &keys{}, now: time.Now,
		local: apply.NewLocal(apply.LocalOptions{
			Name: "a", DataDir: s.dir, State: state, LeaseVoter: voter, Proc: proc, Bin: etcdbin.Finder{
				Dirs: []string{bins}, Opt: bins,
			}, Now: time.Now,
		}),
	}
	s.orders = &orderBook{log: slog.New(slog.NewTextHandler(&s.log, nil)), now: time.Now,
		keep: func(e store.HistoryEntry) { s.kept = append(s.kept, e) }}
	s.authority = &authority{
		self: "a", voter: voter, others: func() []cluster.NodeName { return slices.Collect(maps.Keys(s.standings)) },
		ask: func(_ context.Context, n cluster.NodeName) (lease.Standing, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.asked = append(s.asked, n)
			if x, ok := s.standings[n]; ok {
				return x, nil
			}
			return lease.Standing{}, errors.New("no answer")
		},
		records:   func(context.Context, time.Duration) (store.View, error) { return s.view, s.viewErr },
		published: func(context.Context) (cluster.LeaseVoters, error) { return s.published, s.viewErr },
		hasData:   func() bool { return nodestate.Disk(s.dir, state.State()).State != cluster.DiskEmpty },
	}
	t.Cleanup(func() {
		must(t, s.local.Close(context.Background()))
		must(t, state.Close())
	})
	return s
}

func voterOf(state *nodestate.File) *election.Voter {
	return election.NewVoter(election.VoterOptions{
		Cluster: "main", Self: "a", Durable: durable(state), Persist: persist(state), Reload: reload(state),
	})
}

// disk is the state as it is on the disk.
func (s *site) disk() nodestate.State {
	s.t.Helper()
	st, err := nodestate.Read(s.dir)
	must(s.t, err)
	return st
}

// assign makes the node one that runs a member.
func (s *site) assign(peers ...cluster.NodeName) {
	s.t.Helper()
	must(s.t, s.state.Update(func(st *nodestate.State) error {
		st.Assigned = &cluster.Assigned{Token: "t1", Version: version, Stopped: true}
		for _, p := range peers {
			st.Peers = append(st.Peers, cluster.InitialMember{Name: p, PeerURLs: []string{"http://" + string(p) + ":1"}})
		}
		return nil
	}))
}

func order(term cluster.Term, holder cluster.NodeName, op plan.Operation) plan.Order {
	return plan.Order{Operation: op, Term: term, Holder: holder}
}

var (
	prepareA = &plan.MemberPrepare{
		Node: "a", Token: "t1", Version: version, Voters: []cluster.InitialMember{
			{Name: "a", PeerURLs: []string{"http://a:1"}},
		},
	}
	discardA = &plan.DataDiscard{Node: "a", Name: "old", ExpectAt: "2026-01-01T00:00:00Z"}
)

func TestWithoutATermOnlyABootstrapIsTaken(t *testing.T) {
	s := newSite(t)
	var stale *lease.StaleError
	if err := s.Execute(t.Context(), order(0, "b", discardA)); !errors.As(err, &stale) {
		t.Errorf("an order that bootstraps nothing: %v", err)
	}
	must(t, s.Execute(t.Context(), order(0, "b", prepareA)))
	if p := s.disk().Prepared; p == nil || p.Token != "t1" {
		t.Errorf("the promise is %+v", p)
	}
	s = newSite(t)
	s.assign()
	if err := s.Execute(t.Context(), order(0, "b", prepareA)); !errors.As(err, &stale) {
		t.Errorf("an order without a term to a node that runs something: %v", err)
	}
	if s.disk().Prepared != nil {
		t.Error("it was carried out all the same")
	}
	// A backup is taken without a term where the node itself has planned it.
	backup := &plan.BackupTake{Node: "a", Reason: "interval"}
	if err := s.entitled(t.Context(), order(0, "b", backup)); !errors.As(err, &stale) {
		t.Errorf("another's order of a backup: %v", err)
	}
	if err := s.Execute(t.Context(), order(0, "a", backup)); err == nil || errors.As(err, &stale) {
		t.Errorf("its own backup, without a store: %v", err)
	}
}

func TestTermsOnlyGrow(t *testing.T) {
	s := newSite(t)
	must(t, s.Execute(t.Context(), order(5, "b", discardA)))
	if got := s.disk().Term; got != 5 {
		t.Errorf("the highest term on the disk is %d", got)
	}
	var stale *lease.StaleError
	if err := s.Execute(t.Context(), order(4, "c", discardA)); !errors.As(err, &stale) || stale.Seen != 5 {
		t.Errorf("an order of an earlier term: %v", err)
	}
	must(t, s.Execute(t.Context(), order(5, "b", discardA)))
	must(t, s.Execute(t.Context(), order(7, "c", discardA)))
	if l := s.Observe(t.Context()).Node.Lease; l != (cluster.Lease{Term: 7}) {
		t.Errorf("it says of the lease %+v, and has voted for nobody", l)
	}
}

func TestATermThatCannotBeRememberedIsNotObeyed(t *testing.T) {
	s := newSite(t)
	must(t, s.state.Close()) // as good as a disk that fails
	if err := s.Execute(t.Context(), order(5, "b", discardA)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

// ask is a candidate's request to a bootstrap lease voter; the candidate is a person.
func ask(term cluster.Term, holder cluster.NodeName) lease.Request {
	return lease.Request{
		Cluster: "main", Token: "t1", Term: term, Holder: holder, Boot: "boot-" + cluster.Token(holder),
		TTL: lease.DefaultTTL, Entitled: true,
		LeaseVoters: cluster.LeaseVoters{Token: "t1", Names: []cluster.NodeName{"a"}},
	}
}

func TestAVoteIsOnTheDiskAndInTheAnswer(t *testing.T) {
	s := newSite(t)
	if r, err := s.Lease(t.Context(), ask(3, "b")); err != nil || r.Granted || s.voted.Load() != nil {
		t.Errorf("a node that is no lease voter granted %+v, %v", r, err)
	}
	must(t, s.Execute(t.Context(), order(0, "b", prepareA)))
	began := time.Now()
	if r, err := s.Lease(t.Context(), ask(3, "b")); err != nil || !r.Granted {
		t.Fatalf("it answers %+v, %v", r, err)
	}
	if g := s.disk().Grant; g.Term != 3 || g.Holder != "b" || s.disk().Term != 3 {
		t.Errorf("on the disk is %+v", g)
	}
	if v := s.voted.Load(); v == nil || v.To != "b" || v.At.Before(began) {
		t.Errorf("the vote was noted as %+v", v)
	}
	if r, err := s.Lease(t.Context(), ask(3, "c")); err != nil || r.Granted {
		t.Errorf("another got the same term: %+v, %v", r, err)
	}
	if err := s.Execute(t.Context(), order(3, "c", discardA)); err == nil {
		t.Error("another's order in the same term was obeyed")
	}
	a := s.Observe(t.Context())
	if a.Node.Lease != (cluster.Lease{Term: 3, Holder: "b", Running: true}) || a.Node.Boot != "boot-a" ||
		a.Node.Address != "10.0.0.1:8000" || a.Now.Before(began) {
		t.Errorf("it says %+v at %s", a.Node, a.Now)
	}
	woken := 0
	s.released = func() { woken++ }
	if r, err := s.Lease(t.Context(), lease.Request{
		Cluster: "main", Token: "t1", Term: 3, Holder: "b", Boot: "boot-b", Release: true,
	}); err != nil || !r.Granted || woken != 1 {
		t.Fatalf("giving it back: %+v, %v; the loop was woken %d times", r, err, woken)
	}
	if v := s.voted.Load(); v == nil || v.To != "" || v.At.Before(began) {
		t.Errorf("others would wait for the end of a lease that was released: %+v", v)
	}
	if err := s.Execute(t.Context(), order(3, "c", discardA)); err == nil {
		t.Error("another's order in the term that was released was obeyed")
	}
	if l := s.Observe(t.Context()).Node.Lease; l != (cluster.Lease{Term: 3, Holder: "b", Released: true}) {
		t.Errorf("of a lease that was released it says %+v", l)
	}
	// What is remembered is what the next run starts from.
	if d := durable(s.state); d.Term != 3 || d.Grant.Holder != "b" ||
		!slices.Equal(d.LeaseVoters.Names, []cluster.NodeName{"a"}) {
		t.Errorf("the next run starts from %+v", d)
	}
}

// A campaign that was lost is given back to the node itself, too. That wakes its own loop no more: it
// would ask for the next term at once, for as long as it takes the coordinator for gone.
func TestWhatADaemonGivesBackItselfDoesNotWakeItsLoop(t *testing.T) {
	s := newSite(t)
	must(t, s.Execute(t.Context(), order(0, "b", prepareA)))
	woken := 0
	s.released = func() { woken++ }
	for i, boot := range []cluster.Token{s.boot, "boot-of-a-command"} {
		req := ask(cluster.Term(3+i), "a")
		req.Boot = boot
		if r, err := s.Lease(t.Context(), req); err != nil || !r.Granted {
			t.Fatalf("it answers %+v, %v", r, err)
		}
		req.Release = true
		if r, err := s.Lease(t.Context(), req); err != nil || !r.Granted || woken != i {
			t.Fatalf("%s gives it back: %+v, %v; the loop was woken %d times", boot, r, err, woken)
		}
	}
}

// A daemon that stood still listens as at its start, and its missing coordinator counts from then.
func TestADaemonThatStoodStillListensFirst(t *testing.T) {
	s := newSite(t)
	now := time.Now()
	s.now = func() time.Time { return now }
	record := cluster.LeaseVoters{Token: "t1", Names: []cluster.NodeName{"a", "b", "c"}}
	vote := &lease.Vote{At: now.Add(-20 * time.Second), To: "b"}
	s.voted.Store(vote)
	s.late(now.Add(-time.Second), record)
	if v := s.voted.Load(); v != vote {
		t.Errorf("a busy machine made it %+v", v)
	}
	s.late(now.Add(-17*time.Second), record)
	if v := s.voted.Load(); v == nil || !v.Started || !v.At.Equal(now) {
		t.Errorf("after a gap it is %+v", v)
	}
}

func TestThePortAnswersAsTheNode(t *testing.T) {
	s := newSite(t)
	h := handler{s.node}
	r, err := h.Observe(t.Context(), rpc.Caller{Name: "b"})
	if err != nil || r.Node.Name != "a" || r.Node.Address != "10.0.0.1:8000" || r.Report != nil || r.Now.IsZero() {
		t.Errorf("it says %+v, %v", r, err)
	}
	// What it knows of the others is for persons.
	s.known = func(context.Context) *cluster.Known { return &cluster.Known{Peers: []cluster.KnownPeer{{Name: "b"}}} }
	for role, reported := range map[rpc.Role]bool{rpc.RoleNode: false, rpc.RoleOperator: true, rpc.RoleReadOnly: true} {
		if r, err = h.Observe(t.Context(), rpc.Caller{Name: "x", Role: role}); err != nil || (r.Known != nil) != reported {
			t.Errorf("to the role %s it answers %+v, %v", role, r.Known, err)
		}
	}
	s.confirmed(2, "b", "b", "c")
	err = h.Execute(t.Context(), rpc.Caller{Name: "b"},
		s.signed(2, "b", &plan.MemberStart{Node: "a", Token: "t1", Mode: plan.StartRestart, Version: version}))
	if rpc.KindOf(err) != rpc.Refused || !strings.Contains(err.Error(), "no data to start from") {
		t.Errorf("error %v of kind %s", err, rpc.KindOf(err))
	}
	if reply, err := h.Lease(t.Context(), rpc.Caller{Name: "b"}, ask(3, "b")); err != nil || reply.Granted ||
		reply.Term != 2 {
		t.Errorf("it answers %+v, %v", reply, err)
	}
}

func TestErrorsKeepTheirKindOnTheWire(t *testing.T) {
	plainError := errors.New("disk full")
	for _, tc := range []struct {
		err  error
		kind rpc.Kind
		hint bool
	}{
		{nil, "", false},
		{&plan.StaleError{Want: "x", Got: "y"}, rpc.Stale, false},
		{&lease.StaleError{Want: 1, Seen: 2}, rpc.Stale, false},
		{&etcdbin.NotFoundError{Version: version, Places: []string{"/opt"}}, rpc.Refused, true},
		{apply.ErrPrecondition, rpc.Refused, false},
		{plainError, rpc.Internal, false},
	} {
		err := tc.err
		if err != nil {
			err = fmt.Errorf("outer: %w", err)
		}
		got := wireError(err)
		if rpc.KindOf(got) != tc.kind || (rpc.HintOf(got) != "") != tc.hint || err != nil && got.Error() != err.Error() {
			t.Errorf("%v became %v of kind %s, hint %q", err, got, rpc.KindOf(got), rpc.HintOf(got))
		}
	}
}

// An order waits for the semaphore while a later term is seen: it is yesterday's by
// then. So is one whose sender has hung up, as it does when it has stood still.
func TestAnOrderIsHeldToItsTermWhenItsTurnHasCome(t *testing.T) {
	s := newSite(t)
	must(t, s.state.Update(func(st *nodestate.State) error { st.Term = 4; return nil }))
	s.aside()
	at := s.read().SetAside[0].At
	discard := &plan.DataDiscard{Node: "a", Name: "old", ExpectAt: plan.MomentOf(at)}
	free := s.busy()
	results := make(chan error, 2)
	go func() { results <- s.Execute(t.Context(), order(5, "b", discard)) }()
	testwait.Until(t, "a term on the disk", func() bool { return s.disk().Term == 5 }) // it has been let in
	must(t, s.voter.Witness(t.Context(), 6, "c"))
	gone, hangUp := context.WithCancel(t.Context())
	free()
	var stale *lease.StaleError
	if err := <-results; !errors.As(err, &stale) || stale.Seen != 6 {
		t.Errorf("an order of term 5, carried out after term 6 was seen: %v", err)
	}
	hangUp()
	for range 20 { // a free semaphore and an end of the context at the same time
		if err := s.Execute(gone, order(6, "c", discard)); !errors.Is(err, context.Canceled) {
			t.Fatalf("an order whose sender has hung up: %v", err)
		}
	}
	if left := s.read().SetAside; len(left) != 1 {
		t.Errorf("the data is gone: %+v", left)
	}
	must(t, s.Execute(t.Context(), order(6, "c", discard)))
}

// read observes the node until its disk was read for that: a busy machine may take
// longer than an observation waits.
func (s *site) read() (n cluster.Node) {
	s.t.Helper()
	testwait.Until(s.t, "a reading of the disk", func() bool {
		n = s.Observe(s.t.Context()).Node
		return n.FactsAge == 0 && n.Disk.State != cluster.DiskUnreadable
	})
	return n
}

// busy keeps the node's executor busy until the function it returns is called.
func (s *site) busy() (free func()) {
	s.t.Helper()
	begun, end := make(chan struct{}), make(chan struct{})
	go func() {
		_ = s.local.Do(context.Background(), plan.Order{Operation: discardA}, func(context.Context) error {
			close(begun)
			<-end
			return errors.New("it was only to take time")
		})
	}()
	<-begun
	return func() { close(end) }
}

// A node that runs a member takes the order to recover its lease voters without a
// term only where no majority of them is left; the rest is for its disk and for
// etcd's quorum to say.
func TestLeaseVotersAreRecoveredWithoutATermWhereTheyAreLost(t *testing.T) {
	recoverA := &plan.LeaseVotersRecover{
		Node: "a", Token: "t1", Term: 9, Names: []cluster.NodeName{"a", "c"}, Expect: []cluster.NodeName{"a", "b"},
	}
	s := newSite(t)
	s.assign()
	must(t, s.voter.Prepare(t.Context(), "t1", []cluster.NodeName{"a", "b"}))
	var stale *lease.StaleError
	if err := s.Execute(t.Context(), order(0, "c", recoverA)); !errors.As(err, &stale) {
		t.Errorf("with all lease voters there: %v", err)
	}
	recoverA.Lost = []cluster.NodeName{"b"}
	if err := s.Execute(t.Context(), order(0, "c", recoverA)); err == nil || errors.As(err, &stale) ||
		!strings.Contains(err.Error(), "URL") {
		t.Errorf("with one lost, and no etcd to ask: %v", err)
	}
	if e := s.disk().LeaseVoters; e.Term != 0 {
		t.Errorf("nobody asked etcd, and the record is %+v", e)
	}
}

// Who has just started and refuses another knows that there is one, and asks for no lease
// before that one's renewals are granted. Its own request is none of another.
func TestARefusalAfterTheStartIsHeard(t *testing.T) {
	s := newSite(t)
	s.voted.Store(&lease.Vote{At: time.Now(), Started: true})
	if r, err := s.Lease(t.Context(), ask(3, "a")); err != nil || r.Granted || s.voted.Load().Heard {
		t.Errorf("to itself it answers %+v, %v, and notes %+v", r, err, s.voted.Load())
	}
	if r, err := s.Lease(t.Context(), ask(3, "b")); err != nil || r.Granted || !s.voted.Load().Heard {
		t.Errorf("it answers %+v, %v, and notes %+v", r, err, s.voted.Load())
	}
}

// A node that was made a lease voter, and is asked for no vote, counts from when it finds that out: it
// does not wait forever for the lowest one, whose disk may hang.
func TestALeaseVoterWithoutAVoteCounts(t *testing.T) {
	s := newSite(t)
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	names := []cluster.NodeName{"a", "b"}
	if v := s.vote("b", []cluster.NodeName{"a"}, now); v != nil {
		t.Fatalf("a node that is no lease voter has the vote %+v", v)
	}
	for _, later := range []time.Duration{0, time.Minute} {
		at := now.Add(later)
		v := s.vote("b", names, at)
		if v == nil || *v != (lease.Vote{At: now}) {
			t.Errorf("after %s the vote is %+v", later, v)
		}
		if got := lease.ShouldCampaign("b", names, names, v, at); got != (later > 0) {
			t.Errorf("after %s it campaigns: %t", later, got)
		}
	}
}
