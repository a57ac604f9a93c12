package lease

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func names(s string) []cluster.NodeName {
	var n []cluster.NodeName
	for _, f := range strings.Fields(s) {
		n = append(n, cluster.NodeName(f))
	}
	return n
}

func record(term cluster.Term, seq uint64, who string) cluster.LeaseVoters {
	return cluster.LeaseVoters{Token: "tok", Term: term, Seq: seq, Names: names(who)}
}

// ask is a campaign of holder in term, with the record that everybody has.
func ask(holder cluster.NodeName, term cluster.Term) Request {
	return Request{
		Cluster: "c", Token: "tok", Term: term, Holder: holder, Boot: "boot-" + cluster.Token(holder),
		TTL: MaxTTL, LeaseVoters: record(0, 0, "a b c"),
	}
}

func voter() Grantor {
	return Start(t0, "c", Durable{LeaseVoters: record(0, 0, "a b c")})
}

func granted(t *testing.T, g Grantor, now time.Time, req Request) Grantor {
	t.Helper()
	next, reply := g.Decide(now, req)
	if !reply.Granted {
		t.Fatalf("%s is refused term %d: %s", req.Holder, req.Term, reply.Reason)
	}
	return next
}

func refused(t *testing.T, g Grantor, now time.Time, req Request, why string) Reply {
	t.Helper()
	next, reply := g.Decide(now, req)
	if reply.Granted || !strings.Contains(reply.Reason, why) {
		t.Fatalf("%s in term %d: granted=%v reason=%q, want a refusal with %q", req.Holder, req.Term, reply.Granted,
			reply.Reason, why)
	}
	if !reflect.DeepEqual(next, g) {
		t.Errorf("a refusal changed the grantor from %+v to %+v", g, next)
	}
	return reply
}

func TestOneHolderUntilTheLeaseIsOver(t *testing.T) {
	g := granted(t, voter(), t0, ask("a", 1))
	reply := refused(t, g, t0.Add(2*time.Second), ask("b", 2), "a has the lease of term 1")
	if reply.Holder != "a" || reply.Remaining != time.Second || reply.Term != 1 {
		t.Errorf("reply %+v does not report who holds which term for how long", reply)
	}
	g = granted(t, g, t0.Add(2*time.Second), ask("a", 1)) // a renewal extends
	refused(t, g, t0.Add(4*time.Second), ask("b", 2), "a has the lease")
	g = granted(t, g, t0.Add(5*time.Second), ask("b", 2))
	reply = refused(t, g, t0.Add(9*time.Second), ask("a", 1), "term 1 is over")
	if reply.Term != 2 || reply.Holder != "" {
		t.Errorf("reply %+v, want term 2 and nobody holding", reply)
	}
}

func TestOneHolderPerTermEvenAfterIt(t *testing.T) {
	g := granted(t, voter(), t0, ask("a", 4))
	refused(t, g, t0.Add(time.Hour), ask("b", 4), "term 4 was granted to a")
}

func TestARefusedHigherTermDoesNotEndARunningLease(t *testing.T) {
	g := granted(t, voter(), t0, ask("a", 1))
	refused(t, g, t0.Add(time.Second), ask("b", 9), "a has the lease")
	granted(t, g, t0.Add(time.Second), ask("a", 1))
}

func TestTheSameHolderMayTakeANewTermAtOnce(t *testing.T) {
	g := granted(t, voter(), t0, ask("a", 1))
	granted(t, g, t0.Add(time.Second), ask("a", 2))
}

func TestAnotherRunOfTheSameNameIsAnotherHolder(t *testing.T) {
	g := granted(t, voter(), t0, ask("a", 1))
	again := ask("a", 2)
	again.Boot = "other"
	refused(t, g, t0.Add(time.Second), again, "a has the lease of term 1")
	granted(t, g, t0.Add(MaxTTL), again)
}

func TestAShorterRenewalKeepsThePromisedTime(t *testing.T) {
	g := granted(t, voter(), t0, ask("a", 1))
	short := ask("a", 1)
	short.TTL = time.Millisecond
	g = granted(t, g, t0.Add(time.Second), short)
	refused(t, g, t0.Add(2*time.Second), ask("b", 2), "a has the lease")
}

func TestRequestsThatAreNotForThisNode(t *testing.T) {
	for _, c := range []struct {
		name, why string
		edit      func(*Request)
	}{
		{"other cluster", `belongs to cluster "c"`, func(r *Request) { r.Cluster = "events" }},
		{"other incarnation", "incarnation tok, not old", func(r *Request) { r.Token, r.LeaseVoters.Token = "old", "old" }},
		{"record of another incarnation", "lease voter record is of incarnation old", func(r *Request) {
			r.LeaseVoters.Token = "old"
		}},
		{"no term", "term is missing", func(r *Request) { r.Term = 0 }},
		{"no holder", "name is empty", func(r *Request) { r.Holder = "" }},
		{"no lease voters", "no names", func(r *Request) { r.LeaseVoters.Names = nil }},
		{"lease voters not sorted", "not sorted", func(r *Request) { r.LeaseVoters.Names = names("b a c") }},
		{"lease voter twice", "not sorted", func(r *Request) { r.LeaseVoters.Names = names("a a c") }},
		{"record from the future", "later term", func(r *Request) { r.LeaseVoters.Term = 9 }},
		{"no time", "lease time", func(r *Request) { r.TTL = 0 }},
		{"too long", "lease time", func(r *Request) { r.TTL = MaxTTL + 1 }},
		{"same stamp, other names", "names [a b c] here", func(r *Request) { r.LeaseVoters.Names = names("a b d") }},
		{"same stamp, a name less", "names [a b c] here", func(r *Request) { r.LeaseVoters.Names = names("a b") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := ask("a", 1)
			c.edit(&req)
			refused(t, voter(), t0, req, c.why)
		})
	}
}

func TestAFreshDiskGrantsNothingBeforeItJoins(t *testing.T) {
	fresh := Start(t0, "c", Durable{})
	refused(t, fresh, t0, ask("a", 1), "no lease voter record")
	if _, err := (Durable{}).Join("c", record(4, 1, "a b c")); err == nil ||
		!strings.Contains(err.Error(), "removed from the lease voters first") {
		t.Errorf("a lease voter that lost its disk joins: %v", err)
	}
	d, err := Durable{}.Join("c", record(4, 2, "a b"))
	if err != nil || d.Term != 4 || !reflect.DeepEqual(d.LeaseVoters, record(4, 2, "a b")) {
		t.Fatalf("joined as %+v, %v", d, err)
	}
	fresh.Durable = d
	refused(t, fresh, t0, ask("a", 9), "0.0 is older than 4.2")
	known, err := d.Join("c", record(4, 1, "a b c"))
	if err != nil || !reflect.DeepEqual(known, d) {
		t.Errorf("an older record replaced the newer: %+v, %v", known, err)
	}
	d, err = d.Join("c", record(4, 3, "a b c"))
	if err != nil || stamp(d.LeaseVoters) != "4.3" {
		t.Errorf("a node that knows the incarnation does not learn: %+v, %v", d, err)
	}
	if _, err := d.Join("c", cluster.LeaseVoters{Token: "tok"}); err == nil {
		t.Error("joined a record without names")
	}
}

func TestLeaseVoterRecords(t *testing.T) {
	for _, c := range []struct {
		name     string
		own, req cluster.LeaseVoters
		why      string // of the refusal
		adopted  bool
	}{
		{"campaign with the own record", record(2, 3, "a b c"), record(2, 3, "a b c"), "", false},
		{"campaign with an older record", record(2, 3, "a b c"), record(2, 2, "a b"), "2.2 is older than 2.3", false},
		{"campaign with a record of an older term", record(2, 0, "a b c"), record(1, 9, "a b c d"), "older", false},
		{"campaign with a newer record is granted, not adopted", record(2, 3, "a b c"), record(3, 0, "a b d"), "", false},
		{"stamp of the own term", record(2, 3, "a b c"), record(5, 0, "a b c"), "", true},
		{"stamp of the own term onto a node that was left behind", record(2, 3, "a b c"), record(5, 0, "d e f"), "", true},
		{"add one", record(5, 0, "a b c"), record(5, 1, "a b c d"), "", true},
		{"remove one", record(5, 0, "a b c"), record(5, 1, "a b"), "", true},
		{"swap one is two steps", record(5, 0, "a b c"), record(5, 1, "a b d"), "changes 2 names", false},
		{"node missed a step", record(5, 0, "a b c"), record(5, 2, "a b d"), "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := Start(t0, "c", Durable{Term: 4, LeaseVoters: c.own})
			req := ask("a", 5)
			req.LeaseVoters = c.req
			if c.why != "" {
				reply := refused(t, g, t0, req, c.why)
				if !reflect.DeepEqual(reply.LeaseVoters, c.own) {
					t.Errorf("the refusal carries the record %+v, not the node's own", reply.LeaseVoters)
				}
				return
			}
			want := c.own
			if c.adopted {
				want = c.req
			}
			if got := granted(t, g, t0, req).LeaseVoters(); !reflect.DeepEqual(got, want) {
				t.Errorf("the record is %+v, want %+v", got, want)
			}
		})
	}
}

func TestRestartKeepsQuietForOneLease(t *testing.T) {
	g := granted(t, voter(), t0, ask("a", 1))
	g = Start(t0.Add(time.Second), "c", g.Durable)
	refused(t, g, t0.Add(time.Second+MaxTTL-1), ask("b", 2), "a has the lease")
	granted(t, g, t0.Add(2*time.Second), ask("a", 1))
	granted(t, g, t0.Add(time.Second+MaxTTL), ask("b", 2))
	granted(t, Start(t0, "c", Durable{Term: 7, LeaseVoters: record(0, 0, "a b c")}), t0, ask("b", 8))
}

func TestReleaseFreesTheNextHolderButNotTheTerm(t *testing.T) {
	g := granted(t, voter(), t0, ask("a", 1))
	back := ask("a", 1)
	back.Release = true
	other := ask("b", 1)
	other.Release = true
	refused(t, g, t0, other, "b has no lease of term 1")
	g = granted(t, g, t0.Add(time.Second), back)
	refused(t, g, t0.Add(time.Second), ask("a", 1), "given back") // a late renewal
	refused(t, g, t0.Add(time.Second), ask("b", 1), "term 1 was granted to a")
	granted(t, g, t0.Add(time.Second), ask("b", 2))
	granted(t, Start(t0, "c", g.Durable), t0, ask("b", 2)) // known after a restart
}

func TestWitnessRefusesLowerTerms(t *testing.T) {
	d := Durable{Term: 3, Grant: Grant{Term: 3, Holder: "a"}}
	var stale *StaleError
	if _, err := d.Witness(2, "a"); !errors.As(err, &stale) || stale.Seen != 3 {
		t.Errorf("term 2 after 3: %v", err)
	}
	if _, err := d.Witness(3, "b"); err == nil || errors.As(err, &stale) {
		t.Errorf("another holder of term 3: %v", err)
	}
	d, err := d.Witness(5, "b")
	if err != nil || d.Term != 5 {
		t.Fatalf("term 5: %+v, %v", d, err)
	}
	if _, err := d.Witness(4, "a"); !errors.As(err, &stale) || stale.Seen != 5 {
		t.Errorf("term 4 after 5, in which nobody was granted anything: %v", err)
	}
	g := Start(t0, "c", Durable{Term: d.Term, LeaseVoters: record(0, 0, "a b c")})
	refused(t, g, t0, ask("a", 4), "term 5 has been seen")
}

func TestPrepare(t *testing.T) {
	ran := Durable{Term: 6, Grant: Grant{Term: 6, Holder: "a"}, LeaseVoters: record(6, 2, "a b")}
	promised := Durable{LeaseVoters: record(0, 0, "a b c")}
	for _, c := range []struct {
		name  string
		d     Durable
		token cluster.Token
		who   string
		want  cluster.LeaseVoters
		err   string
	}{
		{"fresh disk", Durable{}, "tok", "c a b", record(0, 0, "a b c"), ""},
		{"again", promised, "tok", "a b c", record(0, 0, "a b c"), ""},
		{"again with other names", promised, "tok", "a b d", promised.LeaseVoters, "already prepared"},
		{"a record of this incarnation stays", ran, "tok", "a b c", ran.LeaseVoters, ""},
		{"no names", ran, "new", "", ran.LeaseVoters, "no names"},
		{"next incarnation", ran, "new", "a", cluster.LeaseVoters{Token: "new", Names: names("a")}, ""},
		{"no token", ran, "", "a", ran.LeaseVoters, "token is empty"},
		{"name twice", ran, "new", "a a", ran.LeaseVoters, "not sorted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.d.Prepare(c.token, names(c.who))
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if !reflect.DeepEqual(got.LeaseVoters, c.want) && len(got.LeaseVoters.Names)+len(c.want.Names) > 0 {
				t.Errorf("record %+v, want %+v", got.LeaseVoters, c.want)
			}
			if got.Term != c.d.Term || got.Grant != c.d.Grant {
				t.Errorf("term or grant changed: %+v", got)
			}
		})
	}
}

func TestOnlyTheRunThatHoldsTheLeaseGivesItBack(t *testing.T) {
	g := granted(t, voter(), t0, ask("a", 1))
	back := ask("a", 1)
	back.Release, back.Boot = true, "an earlier run"
	refused(t, g, t0, back, "a has no lease of term 1")
	refused(t, g, t0, ask("b", 2), "a has the lease of term 1")
}

func TestRecover(t *testing.T) {
	next := record(5, 0, "b c d")
	expect, lost := names("a b c"), names("a c")
	held := granted(t, voter(), t0, ask("b", 3))
	later := held.Until.Add(time.Nanosecond)
	tests := []struct {
		name         string
		g            Grantor
		now          time.Time
		record       cluster.LeaseVoters
		expect, lost []cluster.NodeName
		want         string // empty: it is done
	}{
		{"without a majority of the old record", voter(), t0, next, expect, lost, ""},
		{"a node without a record", Start(t0, "c", Durable{}), t0, next, nil, nil, ""},
		{"the same record again", Start(t0, "c", Durable{Term: 5, LeaseVoters: next}), t0, next, expect, lost, ""},
		{"the same names in a higher term", voter(), t0, record(5, 0, "a b c"), nil, nil, "names [a b c] here already"},
		{"without a word of its record", voter(), t0, next, nil, lost, "names [a b c] here, not []"},
		{"when the lease is over", held, later, next, expect, lost, ""},
		{"while it grants the lease", held, t0, next, expect, lost, "has the lease of term 3"},
		{"in a term that it has seen", held, later, record(3, 0, "b c d"), expect, lost, "term 3 is over"},
		{"in a term out of reach", voter(), t0, record(MaxTerm+1, 0, "b c d"), expect, lost, "too far above"},
		{"in another incarnation", voter(), t0, cluster.LeaseVoters{Token: "other", Term: 5, Names: names("b")}, expect, lost,
			"incarnation tok"},
		{"from another record", voter(), t0, next, names("a b"), lost, "names [a b c] here"},
		{"with a majority left", voter(), t0, next, expect, names("a"), "a majority of the lease voters"},
		{"to nobody", voter(), t0, record(5, 0, ""), expect, lost, "no names"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := tt.g.Recover(tt.now, tt.record, tt.expect, tt.lost)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || !reflect.DeepEqual(d, tt.g.Durable) {
					t.Errorf("%+v, %v, want a refusal with %q", d, err, tt.want)
				}
				return
			}
			if err != nil || d.Term != tt.record.Term || !reflect.DeepEqual(d.LeaseVoters, tt.record) {
				t.Fatalf("%+v, %v", d, err)
			}
			// It grants on the old record no more, and on the new one to whoever comes.
			g := Start(tt.now, "c", Durable{Term: d.Term, LeaseVoters: d.LeaseVoters})
			if len(tt.expect) > 0 {
				refused(t, g, tt.now, ask("z", d.Term+1), "is older than")
			}
			req := ask(d.LeaseVoters.Names[0], d.Term+1)
			req.LeaseVoters = d.LeaseVoters
			granted(t, g, tt.now, req)
		})
	}
}
