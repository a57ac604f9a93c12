package lease

import (
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func candidate(e cluster.LeaseVoters) *Candidate {
	c := &Candidate{Cluster: "c", Name: "a", Boot: "boot-a", TTL: DefaultTTL}
	c.Enter(e.Token)
	c.Learn(e, 0)
	return c
}

// leaseVoters answer rounds: a map of grantors, by name.
type leaseVoters map[cluster.NodeName]Grantor

func newLeaseVoters(e cluster.LeaseVoters, more string) leaseVoters {
	es := leaseVoters{}
	for _, n := range e.Names {
		es[n] = Start(t0, "c", Durable{LeaseVoters: e})
	}
	for _, n := range names(more) {
		es[n] = Start(t0, "c", Durable{LeaseVoters: e})
	}
	return es
}

// answer runs r, with the nodes in down not answering.
func (es leaseVoters) answer(c *Candidate, now time.Time, r *Round, down string) bool {
	for _, n := range r.Nodes() {
		if strings.Contains(down, string(n)) {
			r.Fail(n)
			continue
		}
		next, reply := es[n].Decide(now, r.Request)
		es[n] = next
		c.Note(r, n, reply)
	}
	return c.Finish(r)
}

func win(t *testing.T, c *Candidate, es leaseVoters, now time.Time, down string) {
	t.Helper()
	r, err := c.Campaign(now)
	if err != nil || !es.answer(c, now, r, down) {
		t.Fatalf("campaign is lost: %v", err)
	}
	if _, _, ok := c.Held(now); ok {
		t.Fatal("the lease is held before the record is stamped again")
	}
	renew(t, c, es, now, down)
}

func renew(t *testing.T, c *Candidate, es leaseVoters, now time.Time, down string) {
	t.Helper()
	r, err := c.Renew(now)
	if err != nil || !es.answer(c, now, r, down) {
		t.Fatalf("renewal is lost: %v", err)
	}
}

func TestCampaignStampsTheRecordAgain(t *testing.T) {
	e := record(4, 2, "a b c")
	c, es := candidate(e), newLeaseVoters(e, "")
	win(t, c, es, t0, "c")
	term, until, ok := c.Held(t0)
	if want := t0.Add(DefaultTTL - Margin(DefaultTTL)); !ok || term != 5 || !until.Equal(want) {
		t.Errorf("held: term %d until %v (%v), want term 5 until %v", term, until, ok, want)
	}
	for _, n := range names("a b") {
		if got := es[n].LeaseVoters(); stamp(got) != "5.0" {
			t.Errorf("node %s has record %s", n, stamp(got))
		}
	}
	if _, _, ok := c.Held(until); ok {
		t.Error("the lease is held when it is over")
	}
}

func TestAMinorityIsNotEnough(t *testing.T) {
	e := record(0, 0, "a b c")
	c, es := candidate(e), newLeaseVoters(e, "")
	r, _ := c.Campaign(t0)
	if es.answer(c, t0, r, "b c") || !r.Lost() {
		t.Error("one of three is a majority")
	}
	if _, err := c.Renew(t0); err == nil {
		t.Error("a lost campaign can be renewed")
	}
}

func TestAnAnnouncedTermIsPassedNextTime(t *testing.T) {
	e := record(0, 0, "a b c")
	c, es := candidate(e), newLeaseVoters(e, "")
	g := es["b"]
	g.Durable.Term = 41
	es["b"] = g
	r, _ := c.Campaign(t0)
	if es.answer(c, t0, r, "c") {
		t.Fatal("term 1 is granted by a node that has seen 41")
	}
	if !r.Used() {
		t.Error("the round does not show that its term is over")
	}
	win(t, c, es, t0, "c")
	if term, _, _ := c.Held(t0); term != 42 {
		t.Errorf("the second campaign is for term %d, want 42", term)
	}
}

func TestARefusalTeachesTheNewerRecord(t *testing.T) {
	old, e := record(1, 0, "a b c"), record(2, 1, "a b")
	c, es := candidate(old), newLeaseVoters(e, "c")
	r, _ := c.Campaign(t0)
	if es.answer(c, t0, r, "") {
		t.Fatal("an election by the old record is won")
	}
	if got := c.Known(); stamp(got) != "2.1" {
		t.Errorf("known record is %s", stamp(got))
	}
	win(t, c, es, t0, "c")
}

func TestChangeNeedsBothMajorities(t *testing.T) {
	e := record(0, 0, "a b")
	c, es := candidate(e), newLeaseVoters(e, "c")
	win(t, c, es, t0, "")
	if err := c.Change(t0, names("a b c")); err != nil {
		t.Fatal(err)
	}
	for _, down := range []string{"a", "b"} { // two of the new three, one of the old two
		r, _ := c.Renew(t0)
		if es.answer(c, t0, r, down) {
			t.Fatalf("change is done without %s, which the old majority needs", down)
		}
	}
	if err := c.Change(t0, names("a b c d")); err == nil || !strings.Contains(err.Error(), "not finished") {
		t.Errorf("second change before the first is done: %v", err)
	}
	renew(t, c, es, t0, "c")
	if _, changing := c.Record(); changing {
		t.Error("the change is not done after both majorities have it")
	}
	renew(t, c, es, t0, "a") // two of three are enough from now on
}

func TestChangeIsOneStep(t *testing.T) {
	e := record(0, 0, "a b c")
	c, es := candidate(e), newLeaseVoters(e, "")
	if err := c.Change(t0, names("a b")); err == nil {
		t.Error("change without the lease")
	}
	win(t, c, es, t0, "")
	for _, bad := range []string{"a", "a b d", "", "a b b c"} {
		if err := c.Change(t0, names(bad)); err == nil {
			t.Errorf("change to %q is accepted", bad)
		}
	}
	if err := c.Change(t0, names("c b a")); err != nil {
		t.Errorf("change to the present names: %v", err)
	}
	if e, changing := c.Record(); changing || stamp(e) != "1.0" {
		t.Errorf("record is %s, changing=%v", stamp(e), changing)
	}
}

func TestProbeAsksOnlyTheNewNode(t *testing.T) {
	e := record(0, 0, "a b")
	c, es := candidate(e), newLeaseVoters(e, "c")
	win(t, c, es, t0, "")
	r, err := c.Probe(t0, "c")
	if err != nil || len(r.Nodes()) != 1 || r.Nodes()[0] != "c" {
		t.Fatalf("probe asks %v, %v", r.Nodes(), err)
	}
	later := t0.Add(time.Second)
	_, before, _ := c.Held(t0)
	if r, _ = c.Probe(later, "c"); !es.answer(c, later, r, "") {
		t.Fatal("the prepared node does not grant")
	}
	if _, until, _ := c.Held(later); !until.Equal(before) {
		t.Error("a probe made the lease longer")
	}
}

func TestLateRoundsOfADroppedTermChangeNothing(t *testing.T) {
	e := record(0, 0, "a b c")
	c, es := candidate(e), newLeaseVoters(e, "")
	win(t, c, es, t0, "")
	late, _ := c.Renew(t0.Add(time.Second))
	campaign, _ := c.Campaign(t0.Add(time.Second))
	es.answer(c, t0.Add(time.Second), late, "")
	if _, _, ok := c.Held(t0.Add(time.Second)); ok {
		t.Error("a renewal of the dropped term is a lease")
	}
	if _, err := c.Campaign(t0.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if es.answer(c, t0.Add(time.Second), campaign, "") {
		t.Error("a campaign that was given up is won")
	}
}

// What was granted for an earlier term makes no lease of a term that is won and not yet
// stamped.
func TestALateRenewalOfAnEarlierTermIsNoLease(t *testing.T) {
	e := record(0, 0, "a b c")
	c, es := candidate(e), newLeaseVoters(e, "")
	win(t, c, es, t0, "")
	now := t0.Add(time.Second)
	late, err := c.Renew(now)
	if err != nil {
		t.Fatal(err)
	}
	_, reply := es["a"].Decide(now, late.Request)
	r, err := c.Campaign(now)
	if err != nil || !es.answer(c, now, r, "") {
		t.Fatalf("the campaign is lost: %v", err)
	}
	for _, n := range names("a b") {
		c.Note(late, n, reply)
	}
	if c.Finish(late) {
		t.Error("a renewal of the term before is won")
	}
	if _, _, ok := c.Held(now); ok {
		t.Error("the lease is held before the record is stamped again")
	}
}

func TestReleaseAndEnterDropTheLease(t *testing.T) {
	e := record(0, 0, "a b c")
	c, es := candidate(e), newLeaseVoters(e, "")
	if _, _, ok := c.Release(); ok {
		t.Error("nothing can be released")
	}
	win(t, c, es, t0, "")
	req, nodes, ok := c.Release()
	if _, _, held := c.Held(t0); !ok || held || !req.Release || req.Term != 1 || len(nodes) != 3 {
		t.Errorf("release: %+v to %v, held %v", req, nodes, held)
	}
	win(t, c, es, t0, "")
	c.Enter("new")
	if _, _, held := c.Held(t0); held {
		t.Error("the lease of the old incarnation is held in the new one")
	}
	if _, err := c.Campaign(t0); err == nil {
		t.Error("campaign without a record of the new incarnation")
	}
	c.Learn(cluster.LeaseVoters{Token: "new", Names: names("a")}, 0)
	if r, err := c.Campaign(t0); err != nil || r.Request.Term != 3 {
		t.Errorf("the term starts again in the new incarnation: %+v, %v", r, err)
	}
}

// Two changes of different terms are begun and neither is finished. Without the
// stamp of the second term, the first holder could come back and get a majority
// by its own record, beside a majority by the record of the second.
func TestTwoUnfinishedChanges(t *testing.T) {
	e := record(0, 0, "a b c d")
	es := newLeaseVoters(e, "")
	a := candidate(e)
	win(t, a, es, t0, "")
	joined, err := Durable{}.Join("e", es["a"].LeaseVoters())
	if err != nil {
		t.Fatal(err)
	}
	es["e"] = Start(t0, "c", joined)
	if err := a.Change(t0, names("a b c d e")); err != nil {
		t.Fatal(err)
	}
	r, _ := a.Renew(t0)
	if es.answer(a, t0, r, "b c d") {
		t.Fatal("a change that only a and e know of is done")
	}

	later := t0.Add(DefaultTTL)
	b := &Candidate{Cluster: "c", Name: "b", Boot: "boot-b", TTL: DefaultTTL}
	b.Enter("tok")
	b.Learn(es["b"].LeaseVoters(), 1)
	win(t, b, es, later, "a")
	if err := b.Change(later, names("b c d")); err != nil {
		t.Fatal(err)
	}
	r, _ = b.Renew(later)
	if es.answer(b, later, r, "a c d") {
		t.Fatal("a change that only b knows of is done")
	}

	over := later.Add(DefaultTTL)
	a.Learn(es["a"].LeaseVoters(), 2)
	if got := a.Known(); stamp(got) != "1.1" {
		t.Fatalf("a goes by record %s", stamp(got))
	}
	r, _ = a.Campaign(over)
	if es.answer(a, over, r, "b") {
		t.Error("a is elected by the record of its unfinished change")
	}
	win(t, b, es, over, "a e")
}

// The holder's clock runs a twentieth too slow, those of the grantors a twentieth
// too fast. The holder must have stopped when the first of them grants to another.
func TestTheHolderStopsBeforeTheGrantorsByClocksOfDifferentSpeed(t *testing.T) {
	e := record(0, 0, "a b c")
	c, es := candidate(e), newLeaseVoters(e, "")
	win(t, c, es, t0, "")
	byHolder := func(d time.Duration) time.Time { return t0.Add(d * 19 / 20) }
	byGrantor := func(d time.Duration) time.Time { return t0.Add(d * 21 / 20) }
	for d := time.Duration(0); d < 2*DefaultTTL; d += 10 * time.Millisecond {
		_, _, held := c.Held(byHolder(d))
		req := ask("b", 9)
		req.LeaseVoters = es["b"].LeaseVoters()
		_, reply := es["b"].Decide(byGrantor(d), req)
		if held && reply.Granted {
			t.Fatalf("%v after the question the lease is held, and is granted to another", d)
		}
		if d == 0 && !held || d > DefaultTTL*3/2 && !reply.Granted {
			t.Fatalf("after %v: held %v, granted to another %v", d, held, reply.Granted)
		}
	}
}

func TestARenewalThatBeganBeforeTheChangeDoesNotEndIt(t *testing.T) {
	e := record(0, 0, "a b")
	c, es := candidate(e), newLeaseVoters(e, "c")
	win(t, c, es, t0, "")
	early, err := c.Renew(t0)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Change(t0, names("a b c")); err != nil {
		t.Fatal(err)
	}
	if !es.answer(c, t0, early, "") {
		t.Fatal("the renewal is lost")
	}
	if _, changing := c.Record(); !changing {
		t.Error("a round that knew nothing of the change has ended it")
	}
	renew(t, c, es, t0, "")
	if _, changing := c.Record(); changing {
		t.Error("the change is not done after a round that showed it")
	}
}

// A holder that stood still for longer than its lease asks for a new term, although
// nobody else has asked for one. So does one that stood still between its election
// and the first renewal, and one that gave its lease back.
func TestWhatIsOverIsNotRenewed(t *testing.T) {
	hold := DefaultTTL - Margin(DefaultTTL)
	won := func(t *testing.T, c *Candidate, es leaseVoters) {
		t.Helper()
		r, err := c.Campaign(t0)
		if err != nil || !es.answer(c, t0, r, "") {
			t.Fatalf("the campaign is lost: %v", err)
		}
	}
	for name, tt := range map[string]struct {
		begin func(t *testing.T, c *Candidate, es leaseVoters)
		at    time.Duration
		want  bool
	}{
		"a lease that runs": {
			func(t *testing.T, c *Candidate, es leaseVoters) { win(t, c, es, t0, "") }, hold - 1, true,
		},
		"a lease that is over": {
			func(t *testing.T, c *Candidate, es leaseVoters) { win(t, c, es, t0, "") }, hold, false,
		},
		"an election":             {won, hold - 1, true},
		"an election of long ago": {won, hold, false},
		"a lease that was given back": {
			func(t *testing.T, c *Candidate, es leaseVoters) { win(t, c, es, t0, ""); c.Release() }, 0, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := record(0, 0, "a b c")
			c, es := candidate(e), newLeaseVoters(e, "")
			tt.begin(t, c, es)
			now := t0.Add(tt.at)
			r, err := c.Renew(now)
			if (err == nil) != tt.want {
				t.Fatalf("renewal %+v, %v", r, err)
			}
			if tt.want {
				return
			}
			if _, _, ok := c.Held(now); ok {
				t.Error("it is held")
			}
			before := es["b"].Durable.Term
			win(t, c, es, now.Add(MaxTTL), "")
			if term, _, _ := c.Held(now.Add(MaxTTL)); term <= before {
				t.Errorf("it is held in term %d again, after %d", term, before)
			}
		})
	}
}
