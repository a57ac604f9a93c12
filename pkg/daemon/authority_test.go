package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/store"
)

func leaseVoters(token cluster.Token, term cluster.Term, names ...cluster.NodeName) cluster.LeaseVoters {
	return cluster.LeaseVoters{Token: token, Term: term, Names: names}
}

// confirmed makes the named nodes lease voters of t1 that have voted for a holder.
func (s *site) confirmed(term cluster.Term, holder cluster.NodeName, names ...cluster.NodeName) {
	s.standings = map[cluster.NodeName]lease.Standing{}
	for _, n := range names {
		s.standings[n] = lease.Standing{
			Term: term, Holder: holder, Remaining: time.Second, LeaseVoters: leaseVoters("t1", 1, names...),
		}
	}
}

// signed is an order that names as its lease voters those who confirm it.
func (s *site) signed(term cluster.Term, holder cluster.NodeName, op plan.Operation) plan.Order {
	e := order(term, holder, op)
	for _, x := range s.standings {
		e.LeaseVoters = x.LeaseVoters
	}
	return e
}

// leaseVoter makes the node, which has a member, a lease voter of t1 by a record.
func (s *site) leaseVoter(names ...cluster.NodeName) {
	s.t.Helper()
	s.remembers(&cluster.Assigned{Token: "t1", Version: version}, names...)
}

// remembers has the node keep a record of t1.
func (s *site) remembers(a *cluster.Assigned, names ...cluster.NodeName) {
	s.t.Helper()
	must(s.t, s.state.Update(func(st *nodestate.State) error {
		st.Assigned = a
		st.LeaseVoters = leaseVoters("t1", 1, names...)
		return nil
	}))
	s.voter = voterOf(s.state)
	s.authority.voter = s.voter
}

// promised has the node, which has no member, promise to begin t1 with lease voters of whom nobody
// is left, while b, c and d have the lease voters' record by now.
func (s *site) promised() {
	s.t.Helper()
	s.remembers(nil, "a", "y", "z")
	must(s.t, s.state.Update(func(st *nodestate.State) error {
		st.Prepared = &cluster.Prepared{Token: "t1", Version: version}
		return nil
	}))
	s.confirmed(5, "b", "b", "c", "d")
	for n, x := range s.standings {
		x.LeaseVoters.Term = 4
		s.standings[n] = x
	}
	s.view.Incarnations = []cluster.Incarnation{{Number: 1, Token: "t1"}}
}

// aside makes a directory with data that was set aside long ago.
func (s *site) aside() string {
	s.t.Helper()
	dir := filepath.Join(s.dir, "data-trashcan", "old")
	must(s.t, os.MkdirAll(dir, 0o700))
	must(s.t, os.WriteFile(filepath.Join(dir, ".set-aside"), []byte(discardA.ExpectAt+"\n"), 0o600))
	return dir
}

// madeUp is an order of a stranger by lease voters of its own making, who confirm it.
func (s *site) madeUp(record cluster.LeaseVoters) plan.Order {
	e := order(1000, "stranger", discardA)
	e.LeaseVoters = record
	s.standings["stranger"] = lease.Standing{Term: 1000, Holder: "stranger", Remaining: time.Second, LeaseVoters: record}
	return e
}

func obey(s *site, e plan.Order) error {
	return handler{s.node}.Execute(s.t.Context(), rpc.Caller{Name: e.Holder, Role: rpc.RoleNode, Authenticated: true}, e)
}

// Whoever has a certificate can name a term, and lease voters of their own making.
func TestATermWithoutALeaseOrdersNothing(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(s *site) plan.Order
	}{
		{"a lease voter is given a huge term", func(s *site) plan.Order {
			s.leaseVoter("a", "b", "c")
			return order(1000, "stranger", discardA)
		}},
		{"with lease voters made up", func(s *site) plan.Order {
			s.leaseVoter("a", "b", "c")
			e := order(1000, "stranger", discardA)
			e.LeaseVoters = leaseVoters("t1", 1000, "stranger")
			s.standings = map[cluster.NodeName]lease.Standing{
				"stranger": {Term: 1000, Holder: "stranger", Remaining: time.Second, LeaseVoters: e.LeaseVoters},
			}
			return e
		}},
		{"and the true ones cut off", func(s *site) plan.Order {
			s.leaseVoter("a", "b", "c")
			e := order(2, "stranger", discardA)
			e.LeaseVoters = leaseVoters("t1", 1000, "stranger")
			s.standings = map[cluster.NodeName]lease.Standing{
				"stranger": {Term: 2, Holder: "stranger", Remaining: time.Second, LeaseVoters: e.LeaseVoters},
			}
			return e
		}},
		{"in an incarnation made up", func(s *site) plan.Order {
			s.leaseVoter("a", "b", "c")
			e := order(2, "stranger", discardA)
			e.LeaseVoters = leaseVoters("t2", 2, "stranger")
			s.standings = map[cluster.NodeName]lease.Standing{
				"stranger": {Term: 2, Holder: "stranger", Remaining: time.Second, LeaseVoters: e.LeaseVoters},
			}
			return e
		}},
		{"to a spare that remembers lease voters, while others are", func(s *site) plan.Order {
			s.remembers(nil, "z")
			s.confirmed(5, "b", "b", "c", "d")
			e := order(1000, "stranger", discardA)
			e.LeaseVoters = leaseVoters("t1", 1000, "stranger")
			s.standings["stranger"] = lease.Standing{
				Term: 1000, Holder: "stranger", Remaining: time.Second, LeaseVoters: e.LeaseVoters,
			}
			return e
		}},
		{"to a node that knows no lease voters, while others are", func(s *site) plan.Order {
			s.confirmed(5, "b", "b", "c", "d")
			e := order(1000, "stranger", discardA)
			e.LeaseVoters = leaseVoters("t1", 1000, "stranger")
			s.standings["stranger"] = lease.Standing{
				Term: 1000, Holder: "stranger", Remaining: time.Second, LeaseVoters: e.LeaseVoters,
			}
			return e
		}},
		{"a lease that is over", func(s *site) plan.Order {
			s.confirmed(5, "b", "b", "c", "d")
			for n, x := range s.standings {
				x.Remaining = 0
				s.standings[n] = x
			}
			return s.signed(5, "b", discardA)
		}},
		{"a lease that a minority confirms", func(s *site) plan.Order {
			s.confirmed(5, "b", "b", "c", "d")
			e := s.signed(5, "b", discardA)
			delete(s.standings, "c")
			delete(s.standings, "d")
			return e
		}},
		{"another's lease", func(s *site) plan.Order {
			s.confirmed(5, "b", "b", "c", "d")
			return s.signed(5, "c", discardA)
		}},
		{"in an incarnation made up, to a node that knows no lease voters", func(s *site) plan.Order {
			s.confirmed(5, "b", "b", "c", "d")
			s.view.Incarnations = []cluster.Incarnation{{Number: 1, Token: "t1"}}
			return s.madeUp(leaseVoters("t9", 2, "stranger"))
		}},
		{"the same, whose store is away", func(s *site) plan.Order {
			s.confirmed(5, "b", "b", "c", "d")
			s.viewErr = errors.New("the store is away")
			return s.madeUp(leaseVoters("t9", 2, "stranger"))
		}},
		{"with lease voters made up, where no node answers that the store has", func(s *site) plan.Order {
			s.confirmed(5, "b")
			s.view.Incarnations = []cluster.Incarnation{{Number: 1, Token: "t1"}}
			s.published = leaseVoters("t1", 1, "b", "c", "d")
			delete(s.standings, "b")
			return s.madeUp(leaseVoters("t1", 1000, "stranger"))
		}},
		{"to a node without a record that no node answers but the stranger", func(s *site) plan.Order {
			s.confirmed(5, "b")
			s.viewErr = errors.New("the store is away")
			delete(s.standings, "b")
			return s.madeUp(leaseVoters("t1", 1000, "stranger"))
		}},
		{"to a node that does not know all of the lease voters", func(s *site) plan.Order {
			s.confirmed(5, "b", "b", "c", "d", "e")
			s.leaseVoter("a", "b", "c")
			return s.madeUp(leaseVoters("t1", 1000, "stranger"))
		}},
		{"to a node that others have left", func(s *site) plan.Order {
			s.confirmed(5, "b", "b", "c")
			for n, x := range s.standings {
				x.LeaseVoters.Token = "t2"
				s.standings[n] = x
			}
			s.leaseVoter("a", "b", "c")
			s.viewErr = errors.New("the store is away")
			return s.madeUp(leaseVoters("t3", 1, "stranger"))
		}},
		{"to a node that has promised, and whose store does not know them", func(s *site) plan.Order {
			s.promised()
			return s.signed(5, "b", discardA)
		}},
		{"to a node that has promised, and whose store knows others", func(s *site) plan.Order {
			s.promised()
			s.published = leaseVoters("t1", 4, "b", "c", "d")
			return s.madeUp(leaseVoters("t1", 1000, "stranger"))
		}},
		{"to a node that has promised, in the store's earlier incarnation", func(s *site) plan.Order {
			s.promised()
			s.published = leaseVoters("t1", 4, "b", "c", "d")
			s.view.Incarnations = append(s.view.Incarnations, cluster.Incarnation{Number: 2, Token: "t2"})
			return s.signed(5, "b", discardA)
		}},
		{"to a member's node, whatever its store knows", func(s *site) plan.Order {
			s.promised()
			s.leaseVoter("a", "y", "z")
			s.published = leaseVoters("t1", 4, "b", "c", "d")
			return s.signed(5, "b", discardA)
		}},
		{"no lease voters at all", func(*site) plan.Order { return order(5, "b", discardA) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t)
			dir := s.aside()
			e := tc.do(s)
			err := obey(s, e)
			if rpc.KindOf(err) != rpc.Refused {
				t.Errorf("error %v of kind %s", err, rpc.KindOf(err))
			}
			if _, err := os.Stat(dir); err != nil {
				t.Errorf("the data is gone: %v", err)
			}
			if got := s.disk().Term; got != 0 {
				t.Errorf("the node took term %d for seen", got)
			}
			log := s.log.String()
			for _, want := range []string{"order refused", "from=" + string(e.Holder), "data discard", "proven=true"} {
				if !strings.Contains(log, want) {
					t.Errorf("the log does not say %q: %s", want, log)
				}
			}
			if len(s.kept) != 1 || s.kept[0].By != e.Holder || s.kept[0].Error == "" {
				t.Errorf("the store receives %+v", s.kept)
			}
		})
	}
}

func TestWhoHasTheLeaseIsObeyed(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(s *site) plan.Order
	}{
		{"by this node's own vote", func(s *site) plan.Order {
			s.leaseVoter("a", "b", "c")
			r, err := s.Lease(s.t.Context(), lease.Request{
				Cluster: "main", Token: "t1", Term: 5, Holder: "b", Boot: "x", TTL: lease.DefaultTTL,
				LeaseVoters: leaseVoters("t1", 1, "a", "b", "c"),
			})
			if err != nil || !r.Granted {
				s.t.Fatalf("%+v, %v", r, err)
			}
			e := order(5, "b", discardA)
			e.LeaseVoters = leaseVoters("t1", 1, "a", "b", "c")
			return e
		}},
		{"by those of the others", func(s *site) plan.Order {
			s.leaseVoter("a", "b", "c")
			s.confirmed(5, "b", "b", "c")
			e := order(5, "b", discardA)
			e.LeaseVoters = leaseVoters("t1", 1, "a", "b", "c")
			return e
		}},
		{"by those of lease voters that came after the node's own", func(s *site) plan.Order {
			s.leaseVoter("a", "b", "c")
			s.confirmed(5, "d", "c", "d", "e")
			for n, x := range s.standings {
				x.LeaseVoters.Term = 4
				s.standings[n] = x
			}
			return s.signed(5, "d", discardA)
		}},
		{"by those of a restored cluster", func(s *site) plan.Order {
			s.leaseVoter("a", "b", "c")
			s.confirmed(5, "d", "d", "e")
			for n, x := range s.standings {
				x.LeaseVoters.Token = "t2"
				s.standings[n] = x
			}
			s.view.Incarnations = []cluster.Incarnation{{Number: 1, Token: "t1"}, {Number: 2, Token: "t2"}}
			return s.signed(5, "d", discardA)
		}},
		{"of a spare that remembers lease voters of whom nobody is left", func(s *site) plan.Order {
			s.remembers(nil, "z")
			s.confirmed(5, "b", "b", "c", "d")
			s.view.Incarnations = []cluster.Incarnation{{Number: 1, Token: "t1"}}
			return s.signed(5, "b", discardA)
		}},
		{"of a node that has promised, and of whose lease voters nobody is left", func(s *site) plan.Order {
			s.promised()
			s.published = leaseVoters("t1", 4, "b", "c", "d")
			return s.signed(5, "b", discardA)
		}},
		{"of a node that knows no lease voters", func(s *site) plan.Order {
			s.confirmed(5, "b", "b", "c", "d")
			delete(s.standings, "d")
			s.view.Incarnations = []cluster.Incarnation{{Number: 1, Token: "t1"}}
			return s.signed(5, "b", discardA)
		}},
		{"of a node that knows no lease voters, and whose store knows those before", func(s *site) plan.Order {
			s.confirmed(5, "d", "c", "d", "e")
			s.view.Incarnations = []cluster.Incarnation{{Number: 1, Token: "t1"}}
			s.published = leaseVoters("t1", 1, "b", "c", "d")
			return s.signed(5, "d", discardA)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t)
			dir := s.aside()
			must(t, obey(s, tc.do(s)))
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("it was not carried out: %v", err)
			}
			if log := s.log.String(); !strings.Contains(log, "order obeyed") || !strings.Contains(log, "data discard") {
				t.Errorf("the log says %s", log)
			}
			if len(s.kept) != 1 || s.kept[0].Error != "" || s.kept[0].Term != 5 {
				t.Errorf("the store receives %+v", s.kept)
			}
		})
	}
}

// What needs no lease needs the store's word, which the node reads itself.
func TestOrdersWithoutATermAreHeldToTheStore(t *testing.T) {
	initialMember := []cluster.InitialMember{{Name: "a", PeerURLs: []string{"http://a:1"}}}
	stage := &plan.RestoreStage{
		Node: "a", Request: "r1", Backup: "b1", Token: "t2", Version: version, Voters: initialMember, Revision: 9,
		Lost: []cluster.NodeName{"a", "b", "c"},
	}
	change := &plan.RestoreSwitch{Node: "a", Token: "t2", ExpectToken: "t1"}
	running := store.View{Incarnations: []cluster.Incarnation{{Number: 1, Token: "t1"}}, Created: time.Unix(1, 0)}
	restored := running
	restored.Incarnations = append(restored.Incarnations[:1:1], cluster.Incarnation{
		Number: 2, Token: "t2", Restored: &cluster.Restored{Request: "r1"},
	})
	asked := func(lost ...cluster.NodeName) store.View {
		v := running
		v.Requests = []cluster.Request{{Name: "r1", Kind: cluster.RequestRestore, Backup: "b1", Lost: lost}}
		return v
	}
	another := asked("a", "b")
	another.Requests[0].Backup = "b0"
	abc := []cluster.NodeName{"a", "b", "c"}
	for _, tc := range []struct {
		name        string
		op          plan.Operation
		view        store.View
		leaseVoters []cluster.NodeName
		why         string
	}{
		{"a promise where there is nothing", prepareA, store.View{}, nil, ""},
		{"a promise for what has been recorded", prepareA, running, nil, ""},
		{"a promise beside a cluster", prepareA, store.View{Incarnations: []cluster.Incarnation{{Token: "t0"}}}, nil,
			"the store has a cluster"},
		{"a promise where a marker says that there is one", prepareA, store.View{Created: time.Unix(1, 0)}, nil,
			"the store has a cluster"},
		{"to stage what nobody has asked for", stage, running, abc, "no request"},
		{"to stage another backup", stage, another, abc, "no request"},
		{"to stage, despite the lease voters", stage, asked("a"), abc, "no request"},
		{"to stage, the lease voters being lost", stage, asked("a", "b"), abc, ""},
		{"to stage where there are no lease voters", stage, asked(), nil, ""},
		{"to stage what has been recorded", stage, restored, abc, ""},
		{"to change over without a record", change, running, abc, "newest incarnation"},
		{"to change over", change, restored, abc, ""},
		{"to discard what is needed", &plan.RestoreDiscard{Node: "a", Token: "t2"}, restored, nil, "is needed"},
		{"to discard", &plan.RestoreDiscard{Node: "a", Token: "t9"}, restored, nil, ""},
	} {
		if why := unsupported(tc.op, tc.view, tc.leaseVoters); (why == "") != (tc.why == "") ||
			!strings.Contains(why, tc.why) {
			t.Errorf("%s: %q", tc.name, why)
		}
	}

	s := newSite(t)
	s.viewErr = errors.New("the store is away")
	if err := obey(s, order(0, "b", prepareA)); rpc.KindOf(err) != rpc.Unreachable {
		t.Errorf("without its store it says %v of kind %s", err, rpc.KindOf(err))
	}
	s.viewErr = nil
	must(t, obey(s, order(0, "b", prepareA)))
}

func TestRefusalsAreBounded(t *testing.T) {
	s := newSite(t)
	now := time.Unix(1e9, 0)
	s.orders.now = func() time.Time { return now }
	for i := range 1000 {
		if err := obey(s, order(cluster.Term(i+1), "stranger", discardA)); err == nil {
			t.Fatal("it was obeyed")
		}
	}
	if n := strings.Count(s.log.String(), "order refused"); n != refusalBurst || len(s.kept) != refusalBurst {
		t.Errorf("1000 refusals are %d lines, and %d entries", n, len(s.kept))
	}
	now = now.Add(refusalInterval)
	_ = obey(s, order(1, "stranger", discardA))
	if want := fmt.Sprintf("more=%d", 1000-refusalBurst); !strings.Contains(s.log.String(), want) {
		t.Errorf("the log does not say %s", want)
	}
}

// What makes another record the lease voters' needs an operator's word in the store,
// and not only the caller's.
func TestARecoveryOfTheLeaseVotersIsHeldToTheStore(t *testing.T) {
	recovery := func(term cluster.Term) *plan.LeaseVotersRecover {
		return &plan.LeaseVotersRecover{
			Node: "a", Token: "t1", Term: term, Names: []cluster.NodeName{"a", "c"},
			Expect: []cluster.NodeName{"a", "b", "x"}, Lost: []cluster.NodeName{"b", "x"},
		}
	}
	asked := func(kind cluster.RequestKind, lost ...cluster.NodeName) store.View {
		return store.View{
			Incarnations: []cluster.Incarnation{{Number: 1, Token: "t1"}},
			Requests:     []cluster.Request{{Name: "r1", Kind: kind, Lost: lost}},
		}
	}
	for _, tc := range []struct {
		name string
		view store.View
		term cluster.Term
		lost map[cluster.NodeName]lease.Standing
		why  string
	}{
		{"nobody has asked", store.View{}, 200, nil, "no request"},
		{"a restore that declares nobody lost", asked(cluster.RequestRestore), 200, nil, "no request"},
		{"a request for others", asked(cluster.RequestLeaseVoters, "x"), 200, nil, "declares [b x]"},
		{"a term that uses up all others", asked(cluster.RequestLeaseVoters, "b", "x"), 1 << 28, nil, "is far above"},
		{"one of them answers", asked(cluster.RequestLeaseVoters, "b", "x"), 200, map[cluster.NodeName]lease.Standing{
			"b": {LeaseVoters: leaseVoters("t1", 1, "a", "b", "x")},
		}, "is not lost"},
		{"a request", asked(cluster.RequestLeaseVoters, "b", "x"), 200, nil, ""},
		{"a restore that declares them lost", asked(cluster.RequestRestore, "b", "x"), 200, nil, ""},
		{"one has lost its record", asked(cluster.RequestLeaseVoters, "x"), 200, map[cluster.NodeName]lease.Standing{
			"b": {},
		}, ""},
	} {
		s := newSite(t)
		s.leaseVoter("a", "b", "x")
		s.assign("a", "c")
		s.view, s.standings = tc.view, tc.lost
		if tc.lost == nil {
			s.standings = map[cluster.NodeName]lease.Standing{}
		}
		s.standings["c"] = lease.Standing{}
		err := s.entitled(t.Context(), order(0, "stranger", recovery(tc.term)))
		if (err == nil) != (tc.why == "") || err != nil &&
			(rpc.KindOf(err) != rpc.Refused || !strings.Contains(err.Error(), tc.why)) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// What a node that does not serve Standing says in its observation is its vote.
func TestTheVoteOfAnOlderVersion(t *testing.T) {
	record := leaseVoters("t1", 1, "a", "b", "c")
	claim := lease.Claim{Holder: "b", Term: 5, LeaseVoters: record}
	for _, tc := range []struct {
		lease  cluster.Lease
		grants bool
	}{
		{cluster.Lease{Term: 5, Holder: "b"}, true},
		{cluster.Lease{Term: 5, Holder: "c"}, false},
		{cluster.Lease{Term: 6}, false},
		{cluster.Lease{Term: 5, Holder: "b", Released: true}, false},
	} {
		s := standingOf(cluster.Node{Lease: tc.lease, LeaseVoters: record})
		if claim.Grants(s) != tc.grants || s.Seen != tc.lease.Term {
			t.Errorf("%+v is %+v", tc.lease, s)
		}
	}
}
