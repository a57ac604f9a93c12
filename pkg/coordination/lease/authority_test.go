package lease

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func rec(token cluster.Token, term cluster.Term, seq uint64, names ...cluster.NodeName) cluster.LeaseVoters {
	return cluster.LeaseVoters{Token: token, Term: term, Seq: seq, Names: names}
}

// stands is what nodes say that vote by a record; those of votes have granted
// term 7 to x.
func stands(r cluster.LeaseVoters, all, votes string) map[cluster.NodeName]Standing {
	m := map[cluster.NodeName]Standing{}
	for n := range strings.FieldsSeq(all) {
		m[cluster.NodeName(n)] = Standing{LeaseVoters: r}
	}
	for n := range strings.FieldsSeq(votes) {
		m[cluster.NodeName(n)] = Standing{Term: 7, Holder: "x", Remaining: time.Second, LeaseVoters: r}
	}
	return m
}

func join(maps ...map[cluster.NodeName]Standing) map[cluster.NodeName]Standing {
	all := map[cluster.NodeName]Standing{}
	for _, m := range maps {
		for n, s := range m {
			all[n] = s
		}
	}
	return all
}

// heard adds what those answer that a node asks for a claim; self is the node,
// others are those that it asks anyway.
func heard(c Claim, e Evidence, self string, all map[cluster.NodeName]Standing, others ...cluster.NodeName) Evidence {
	e.Answers = map[cluster.NodeName]Standing{}
	if self != "" {
		e.Answers[cluster.NodeName(self)] = e.Own
	}
	for range AskRounds {
		for _, n := range append(c.Ask(e), others...) {
			if s, ok := all[n]; ok {
				e.Answers[n] = s
			}
		}
	}
	return e
}

func TestWhatProvesAClaim(t *testing.T) {
	none := cluster.LeaseVoters{}
	abc, xyz := rec("t1", 5, 0, "a", "b", "c"), rec("t1", 1000, 0, "x", "y", "z")
	moved, grown := rec("t1", 5, 1, "b", "c", "d"), rec("t1", 5, 1, "a", "b", "c", "d")
	other, abx := rec("t2", 1, 0, "x", "y", "z"), rec("t2", 1, 0, "a", "b", "x")
	mine, t9 := rec("t1", 1000, 0, "x"), rec("t9", 1, 0, "x")
	list := func(names ...cluster.NodeName) []cluster.NodeName { return names }
	for _, tc := range []struct {
		name    string
		claimed cluster.LeaseVoters
		own     cluster.LeaseVoters
		store   Evidence
		others  []cluster.NodeName
		answers map[cluster.NodeName]Standing
		proven  bool
	}{
		{"a majority of the known lease voters", abc, abc, Evidence{}, nil, stands(abc, "a", "b c"), true},
		{"one of them", abc, abc, Evidence{}, nil, stands(abc, "a b", "c"), false},
		{"all of lease voters made up", xyz, abc, Evidence{}, nil, stands(xyz, "", "x y z"), false},
		{"the same, where the known ones say otherwise", xyz, abc, Evidence{}, nil,
			join(stands(abc, "a b c", ""), stands(xyz, "", "x y z")), false},
		{"lease voters that came later, as one of the known says", moved, abc, Evidence{}, nil,
			join(stands(abc, "a", ""), stands(moved, "b", "c d")), true},
		{"lease voters of a change under way", moved, abc, Evidence{}, nil,
			join(stands(abc, "a", ""), stands(rec("t1", 5, 2, "b", "c", "d", "e"), "", "b c d e")), true},
		{"the same, with one vote", moved, abc, Evidence{}, nil, join(stands(abc, "a", ""), stands(moved, "b c", "d")),
			false},
		{"lease voters made up, to a node that is behind", xyz, abc, Evidence{}, nil,
			join(stands(moved, "b c d", ""), stands(xyz, "", "x y z")), false},
		{"the same, to one that does not know them all", mine, abc, Evidence{}, nil,
			join(stands(grown, "a b d", ""), stands(mine, "", "x")), false},
		{"the same, of whom one is away", mine, abc, Evidence{}, nil, join(stands(grown, "a b", ""), stands(mine, "", "x")),
			false},
		{"lease voters that only those know who came later", rec("t1", 6, 0, "d", "e"), abc, Evidence{}, nil,
			join(stands(rec("t1", 5, 1, "c", "d"), "c", ""), stands(rec("t1", 6, 0, "d", "e"), "", "d e")), true},

		{"the newest incarnation", other, abc, Evidence{Newest: "t2"}, nil,
			join(stands(abc, "a b c", ""), stands(other, "", "x y")), true},
		{"another incarnation", other, abc, Evidence{Newest: "t1"}, nil,
			join(stands(abc, "a b c", ""), stands(other, "", "x y")), false},
		{"another incarnation, and the store does not answer", other, abc, Evidence{}, nil, stands(other, "", "x y"), false},
		{"another incarnation, to which most have gone", abx, abc, Evidence{}, nil, stands(abx, "", "a b"), true},
		{"one made up, while most have gone to another", t9, abc, Evidence{}, nil,
			join(stands(abx, "a b x", ""), stands(t9, "", "x")), false},
		{"lease voters made up of the one to which most have gone", rec("t2", 9, 0, "s"), abc, Evidence{}, nil,
			join(stands(rec("t2", 1, 0, "d", "e", "f"), "a b", ""), stands(rec("t2", 9, 0, "s"), "", "s")), false},
		{"lease voters made up of the newest incarnation", rec("t2", 9, 0, "s"), abc, Evidence{
			Newest: "t2", InitialMembers: list("a", "b", "x"),
		}, nil, join(stands(abx, "a b x", ""), stands(rec("t2", 9, 0, "s"), "", "s")), false},
		{"the same, and those published do not answer", rec("t2", 9, 0, "s"), abc, Evidence{
			Newest: "t2", LeaseVoters: list("a", "b", "x"),
		}, nil, stands(rec("t2", 9, 0, "s"), "", "s"), false},

		{"no lease voters are known", abc, none, Evidence{}, nil, stands(abc, "", "a b"), true},
		{"no lease voters are known, and others are", xyz, none, Evidence{}, list("a", "b"),
			join(stands(abc, "a b", ""), stands(xyz, "", "x y z")), false},
		{"the same, of another incarnation", t9, none, Evidence{}, list("a"),
			join(stands(abc, "a b", ""), stands(t9, "", "x")), false},
		{"the same, and the store has it", t9, none, Evidence{Newest: "t1"}, nil, stands(t9, "", "x"), false},
		{"the same, in the incarnation of the store", mine, none, Evidence{Newest: "t1", LeaseVoters: list("a", "b", "c")},
			nil, stands(mine, "", "x"), false},
		{"those of the store, which have moved on", moved, none, Evidence{Newest: "t1", LeaseVoters: list("a", "b", "c")},
			nil, stands(moved, "", "b c d"), true},
		{"those after the ones that bootstrapped", rec("t1", 9, 0, "e", "f", "g"), none, Evidence{
			Newest: "t1", InitialMembers: list("a", "b", "c"),
		}, nil, join(stands(abc, "a", ""), stands(rec("t1", 9, 0, "e", "f", "g"), "", "e f g")), true},
		{"no lease voters are known, and an old record is about", moved, none, Evidence{}, list("a"),
			join(stands(abc, "a", ""), stands(moved, "", "b c d")), true},
		{"votes of another incarnation", abc, abc, Evidence{}, nil, stands(rec("t0", 5, 0, "a", "b", "c"), "", "a b c"),
			false},
		{"no names", rec("t1", 5, 0), abc, Evidence{}, nil, nil, false},
		{"names out of order", rec("t1", 5, 0, "b", "a", "c"), none, Evidence{}, nil, stands(abc, "", "a b c"), false},
	} {
		c := Claim{Holder: "x", Term: 7, LeaseVoters: tc.claimed}
		e := tc.store
		e.Own.LeaseVoters = tc.own
		if err := c.Proven(heard(c, e, "", tc.answers, tc.others...)); (err == nil) != tc.proven {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	many := rec("t1", 5, 0)
	for i := range maxClaimed + 1 {
		many.Names = append(many.Names, cluster.NodeName(fmt.Sprintf("n%03d", i)))
	}
	for _, tc := range []struct {
		n      int
		proven bool
	}{{maxClaimed, true}, {maxClaimed + 1, false}} {
		c := Claim{Holder: "x", Term: 7, LeaseVoters: rec("t1", 5, 0, many.Names[:tc.n]...)}
		e := Evidence{Answers: map[cluster.NodeName]Standing{}}
		for _, n := range c.LeaseVoters.Names {
			e.Answers[n] = Standing{Term: 7, Holder: "x", Remaining: time.Second, LeaseVoters: c.LeaseVoters}
		}
		asks := len(c.Ask(Evidence{Own: Standing{LeaseVoters: abc}})) > 0
		if err := c.Proven(e); (err == nil) != tc.proven || asks != tc.proven {
			t.Errorf("a claim with %d lease voters: %v, asks %t", tc.n, err, asks)
		}
	}
}

// Somebody who is believed for want of anybody else cannot name a term that
// leaves the node behind forever.
func TestTheFirstTermIsNearThoseThatWereSeen(t *testing.T) {
	mine := rec("t1", 1, 0, "x")
	for _, tc := range []struct {
		term, own, other cluster.Term
		proven           bool
	}{
		{7, 0, 0, true},
		{1 << 28, 0, 0, true},
		{MaxTerm, 0, 0, false},
		{1 << 40, 0, 1 << 27, false},
		{1 << 40, 1 << 40, 0, true},
		{1 << 29, 0, 1 << 28, true},
	} {
		c := Claim{Holder: "x", Term: tc.term, LeaseVoters: mine}
		e := Evidence{Own: Standing{Seen: tc.own}}
		all := map[cluster.NodeName]Standing{
			"x": {Term: tc.term, Holder: "x", Remaining: time.Second, Seen: tc.term, LeaseVoters: mine}, "s": {Seen: tc.other},
		}
		if err := c.Proven(heard(c, e, "", all, "s")); (err == nil) != tc.proven {
			t.Errorf("term %d, after %d here and %d there: %v", tc.term, tc.own, tc.other, err)
		}
	}
}

func TestAStandingIsOfARunningGrant(t *testing.T) {
	own := rec("t1", 5, 0, "a", "b", "c")
	g := Grantor{Cluster: "c", Durable: Durable{Term: 7, Grant: Grant{Term: 7, Holder: "x"}, LeaseVoters: own},
		Until: t0.Add(time.Second)}
	claim := Claim{Holder: "x", Term: 7, LeaseVoters: own}
	if s := g.Standing(t0); !claim.Grants(s) || s.Remaining != time.Second {
		t.Errorf("it says %+v", s)
	}
	for name, change := range map[string]func(*Grantor, *Claim){
		"it is over":             func(g *Grantor, _ *Claim) { g.Until = t0 },
		"it was given back":      func(g *Grantor, _ *Claim) { g.Durable.Grant.Released = true },
		"another term":           func(_ *Grantor, c *Claim) { c.Term = 8 },
		"another holder":         func(_ *Grantor, c *Claim) { c.Holder = "y" },
		"another incarnation":    func(_ *Grantor, c *Claim) { c.LeaseVoters.Token = "t2" },
		"no term, and no holder": func(g *Grantor, c *Claim) { g.Until, c.Term, c.Holder = t0, 0, "" },
	} {
		g, c := g, claim
		change(&g, &c)
		if s := g.Standing(t0); c.Grants(s) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// The lease is for lease voters, and for persons; a candidate's own record does not
// make it one.
func TestWhoMayBeGranted(t *testing.T) {
	own := rec("t1", 5, 0, "a", "b", "c")
	d := Durable{Term: 5, LeaseVoters: own, Grant: Grant{Term: 5, Holder: "old", Boot: "o"}}
	for _, tc := range []struct {
		name    string
		holder  cluster.NodeName
		boot    cluster.Token
		term    cluster.Term
		record  cluster.LeaseVoters
		entitle bool
		want    bool
	}{
		{"a lease voter", "b", "x", 6, own, false, true},
		{"a stranger", "x", "x", 6, own, false, false},
		{"a stranger with a record of its own", "x", "x", 6, rec("t1", 6, 0, "x"), false, false},
		{"a person", "operator-alice", "x", 6, own, true, true},
		{"who has the term, and is no lease voter any more", "old", "o", 5, own, false, true},
		{"the same, in a new term", "old", "o", 6, own, false, false},
		{"the same, started again", "old", "p", 5, own, false, false},
	} {
		req := Request{Cluster: "c", Token: "t1", Term: tc.term, Holder: tc.holder, Boot: tc.boot, TTL: DefaultTTL,
			LeaseVoters: tc.record, Entitled: tc.entitle}
		next, reply := Grantor{Cluster: "c", Durable: d}.Decide(t0, req)
		if reply.Granted != tc.want {
			t.Errorf("%s: granted %t, %s", tc.name, reply.Granted, reply.Reason)
		}
		if !reply.Granted && next.Durable.LeaseVoters.Term != own.Term {
			t.Errorf("%s: its record was adopted", tc.name)
		}
	}
}
