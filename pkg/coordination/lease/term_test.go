package lease

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// unusable are terms that nobody may take over who has seen term 5.
var unusable = []cluster.Term{10 + maxJump, MaxTerm + 1, math.MaxUint64 - 1, math.MaxUint64}

func TestNobodyTakesOverATermOutOfReach(t *testing.T) {
	d := Durable{Term: 5, LeaseVoters: record(0, 0, "a b c")}
	for _, term := range unusable {
		g := Start(t0, "c", d)
		refused(t, g, t0, ask("a", term), "term")
		req := ask("a", 6)
		req.LeaseVoters.Term = term
		refused(t, g, t0, req, "later term")
		if got, err := d.Witness(term, "a"); err == nil || !reflect.DeepEqual(got, d) {
			t.Errorf("an order of term %d is obeyed: %+v, %v", term, got, err)
		}
		if got, err := d.Join("d", record(term, 0, "a b")); err == nil || !reflect.DeepEqual(got, d) {
			t.Errorf("a record of term %d is joined: %+v, %v", term, got, err)
		}
		c := candidate(record(5, 0, "a b c"))
		c.Learn(record(term, 0, "x"), 0)
		c.Learn(cluster.LeaseVoters{}, term)
		r, err := c.Campaign(t0)
		if err != nil || r.Request.Term != 6 {
			t.Fatalf("after an observation of term %d: campaign %+v, %v", term, r, err)
		}
		c.Note(r, "b", Reply{Term: term, LeaseVoters: record(term, 0, "x")})
		if r, err = c.Campaign(t0); err != nil || r.Request.Term != 7 || stamp(r.Request.LeaseVoters) != "5.0" {
			t.Errorf("after a reply with term %d: campaign %+v, %v", term, r, err)
		}
	}
}

func TestWhatIsInReachIsTakenOver(t *testing.T) {
	d := Durable{Term: 5, LeaseVoters: record(0, 0, "a b c")}
	granted(t, Start(t0, "c", d), t0, ask("a", 5+maxJump))
	if got, err := d.Witness(5+maxJump, "a"); err != nil || got.Term != 5+maxJump {
		t.Errorf("witness: %+v, %v", got, err)
	}
	// A fresh disk has nothing to compare with.
	if got, err := (Durable{}).Join("d", record(1<<40, 0, "a b")); err != nil || got.Term != 1<<40 {
		t.Errorf("join: %+v, %v", got, err)
	}
	if _, err := (Durable{}).Join("d", record(MaxTerm+1, 0, "a b")); err == nil {
		t.Error("a fresh disk takes over a term above the highest")
	}
	c := candidate(record(1<<40, 0, "a b c"))
	if r, err := c.Campaign(t0); err != nil || r.Request.Term != 1<<40+1 {
		t.Errorf("campaign: %+v, %v", r, err)
	}
}

func TestAtTheHighestTermNobodyCampaigns(t *testing.T) {
	c := candidate(record(MaxTerm, 0, "a b c"))
	var bad *BadTermError
	if _, err := c.Campaign(t0); !errors.As(err, &bad) || bad.Term != MaxTerm ||
		!strings.Contains(bad.Hint(), "etcdadm term reset") {
		t.Errorf("campaign: %v", err)
	}
}

// Each node is stopped, reset and started; the others wait. In the end the
// lease voters grant again, and at no time two of them do what they had promised not to.
func TestNodesThatAreResetOneByOneElectAgain(t *testing.T) {
	poisoned := Durable{
		Term: math.MaxUint64, Grant: Grant{Term: math.MaxUint64, Holder: "x", Boot: "boot-x"},
		LeaseVoters: record(math.MaxUint64, 3, "a b c"),
	}
	es := leaseVoters{}
	for _, n := range names("a b c") {
		es[n] = Start(t0, "c", poisoned)
	}
	c := candidate(record(7, 1, "a b c"))
	for i, n := range names("a b") {
		if r, _ := c.Campaign(t0); es.answer(c, t0, r, "") {
			t.Fatalf("a campaign is won with %d of 3 lease voters reset", i)
		}
		d, err := es[n].Durable.Reset(7)
		if err != nil {
			t.Fatal(err)
		}
		if want := (Grant{Term: 7, Holder: "x", Boot: "boot-x"}); d.Term != 7 || d.Grant != want {
			t.Fatalf("reset to %+v", d)
		}
		es[n] = Start(t0, "c", d)
		early := ask("b", 9)
		early.LeaseVoters = d.LeaseVoters
		refused(t, es[n], t0.Add(MaxTTL-1), early, "x has the lease")
		refused(t, es[n], t0, ask("x", math.MaxUint64), "term")
	}
	later := t0.Add(MaxTTL)
	win(t, c, es, later, "")
	if got := es["a"].LeaseVoters(); got.Term < 8 || !reflect.DeepEqual(got.Names, names("a b c")) {
		t.Errorf("the record is %+v", got)
	}
}

func TestResetKeepsTheOrderOfRecordsAndRefusesNonsense(t *testing.T) {
	bad := Durable{Term: math.MaxUint64, LeaseVoters: record(math.MaxUint64, 0, "a b")}
	d, err := bad.Reset(7)
	if err != nil || !Newer(d.LeaseVoters, record(7, 1<<31, "a b c")) {
		t.Errorf("the record is %+v, older than one of the term it was reset to: %v", d.LeaseVoters, err)
	}
	kept := Durable{Term: math.MaxUint64, Grant: Grant{Term: 4, Holder: "a", Released: true},
		LeaseVoters: record(4, 2, "a b")}
	d, err = kept.Reset(7)
	if want := (Durable{Term: 7, Grant: kept.Grant, LeaseVoters: kept.LeaseVoters}); err != nil ||
		!reflect.DeepEqual(d, want) {
		t.Errorf("reset changed more than the term: %+v, %v", d, err)
	}
	bad.Grant = Grant{Term: math.MaxUint64, Holder: "a", Released: true}
	d, err = bad.Reset(7)
	if want := (Grant{Term: 7, Holder: "a"}); err != nil || d.Grant != want {
		t.Errorf("what was given back in a term that is gone is %+v, not %+v: %v", d.Grant, want, err)
	}
	for _, term := range []cluster.Term{0, MaxTerm, math.MaxUint64} {
		if got, err := bad.Reset(term); err == nil || !reflect.DeepEqual(got, bad) {
			t.Errorf("reset to %d: %+v, %v", term, got, err)
		}
	}
	if _, err := d.Reset(8); !errors.Is(err, ErrResetTarget) {
		t.Errorf("a reset raises the term: %v", err)
	}
	// A healthy node keeps what it has promised.
	for _, from := range []cluster.Term{7, 12, 5 + maxJump} {
		healthy := Durable{Term: from, Grant: Grant{Term: 6, Holder: "a"}, LeaseVoters: record(6, 2, "a b")}
		if got, err := healthy.Reset(5); !errors.Is(err, ErrInReach) || !reflect.DeepEqual(got, healthy) {
			t.Errorf("a reset of a node at term %d: %+v, %v", from, got, err)
		}
	}
	far := Durable{Term: 6 + maxJump}
	if got, err := far.Reset(5); err != nil || got.Term != 5 {
		t.Errorf("a reset of a node out of reach: %+v, %v", got, err)
	}
}

func TestTheWayOutOfABadTermIsACommand(t *testing.T) {
	for _, tt := range []struct {
		bad  BadTermError
		want string
	}{
		{BadTermError{Term: math.MaxUint64}, `run "etcdadm term reset --to=TERM"`},
		{BadTermError{Term: math.MaxUint64, To: 57}, `run "etcdadm term reset --to=57"`},
		{BadTermError{Term: math.MaxUint64, To: 57, Dir: "/data"}, `run "etcdadm term reset --to=57 --data-dir=/data"`},
	} {
		hint := tt.bad.Hint()
		if !strings.Contains(hint, tt.want) {
			t.Errorf("the hint is %s", hint)
		}
		if explains := strings.Contains(hint, "TERM is"); explains != (tt.bad.To == 0) {
			t.Errorf("the hint says what TERM is: %t: %s", explains, hint)
		}
	}
}
