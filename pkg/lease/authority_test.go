package lease

import (
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func rec(token cluster.Token, term cluster.Term, seq uint64, names ...cluster.NodeName) cluster.Electors {
	return cluster.Electors{Token: token, Term: term, Seq: seq, Names: names}
}

// stands is what nodes say that vote by a record; those of votes have granted
// term 7 to x.
func stands(r cluster.Electors, all, votes string) map[cluster.NodeName]Standing {
	m := map[cluster.NodeName]Standing{}
	for n := range strings.FieldsSeq(all) {
		m[cluster.NodeName(n)] = Standing{Electors: r}
	}
	for n := range strings.FieldsSeq(votes) {
		m[cluster.NodeName(n)] = Standing{Term: 7, Holder: "x", Remaining: time.Second, Electors: r}
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

func TestWhatProvesAClaim(t *testing.T) {
	abc, xyz := rec("t1", 5, 0, "a", "b", "c"), rec("t1", 1000, 0, "x", "y", "z")
	moved := rec("t1", 5, 1, "b", "c", "d")
	other := rec("t2", 1, 0, "x", "y", "z")
	for _, tc := range []struct {
		name    string
		claimed cluster.Electors
		own     cluster.Electors
		newest  cluster.Token
		answers map[cluster.NodeName]Standing
		proven  bool
	}{
		{"a majority of the known electors", abc, abc, "", stands(abc, "a", "b c"), true},
		{"one of them", abc, abc, "", stands(abc, "a b", "c"), false},
		{"all of electors made up", xyz, abc, "", stands(xyz, "", "x y z"), false},
		{"the same, where the known ones say otherwise", xyz, abc, "", join(stands(abc, "a b c", ""), stands(xyz, "", "x y z")), false},
		{"electors that came later, as one of the known says", moved, abc, "", join(stands(abc, "a", ""), stands(moved, "b", "c d")), true},
		{"the same, with one vote", moved, abc, "", join(stands(abc, "a", ""), stands(moved, "b c", "d")), false},
		{"electors made up, to a node that is behind", xyz, abc, "", join(stands(moved, "b c d", ""), stands(xyz, "", "x y z")), false},
		{"the newest incarnation", other, abc, "t2", join(stands(abc, "a b c", ""), stands(other, "", "x y")), true},
		{"another incarnation", other, abc, "t1", join(stands(abc, "a b c", ""), stands(other, "", "x y")), false},
		{"another incarnation, and the store does not answer", other, abc, "", stands(other, "", "x y"), false},
		{"another incarnation, to which most have gone", rec("t2", 1, 0, "a", "b", "x"), abc, "", stands(rec("t2", 1, 0, "a", "b", "x"), "", "a b"), true},
		{"no electors are known", abc, cluster.Electors{}, "", stands(abc, "", "a b"), true},
		{"no electors are known, and others are", xyz, cluster.Electors{}, "", join(stands(abc, "a b", ""), stands(xyz, "", "x y z")), false},
		{"no electors are known, and an old record is about", moved, cluster.Electors{}, "", join(stands(abc, "a", ""), stands(moved, "", "b c d")), true},
		{"votes of another incarnation", abc, abc, "", stands(rec("t0", 5, 0, "a", "b", "c"), "", "a b c"), false},
		{"no names", rec("t1", 5, 0), abc, "", nil, false},
		{"names out of order", rec("t1", 5, 0, "b", "a", "c"), cluster.Electors{}, "", stands(abc, "", "a b c"), false},
	} {
		c := Claim{Holder: "x", Term: 7, Electors: tc.claimed}
		if err := c.Proven(tc.own, tc.newest, tc.answers); (err == nil) != tc.proven {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	many := rec("t1", 5, 0)
	for i := range maxClaimed + 1 {
		many.Names = append(many.Names, cluster.NodeName(rune('A'+i)))
	}
	c := Claim{Holder: "x", Term: 7, Electors: many}
	if err := c.Proven(cluster.Electors{}, "", nil); err == nil || c.Ask(abc) != nil {
		t.Errorf("a claim with %d electors: %v, it asks %v", len(many.Names), err, c.Ask(abc))
	}
}

func TestAStandingIsOfARunningGrant(t *testing.T) {
	own := rec("t1", 5, 0, "a", "b", "c")
	g := Grantor{Cluster: "c", Durable: Durable{Term: 7, Grant: Grant{Term: 7, Holder: "x"}, Electors: own}, Until: t0.Add(time.Second)}
	claim := Claim{Holder: "x", Term: 7, Electors: own}
	if s := g.Standing(t0); !claim.Grants(s) || s.Remaining != time.Second {
		t.Errorf("it says %+v", s)
	}
	for name, change := range map[string]func(*Grantor, *Claim){
		"it is over":             func(g *Grantor, _ *Claim) { g.Until = t0 },
		"it was given back":      func(g *Grantor, _ *Claim) { g.Durable.Grant.Released = true },
		"another term":           func(_ *Grantor, c *Claim) { c.Term = 8 },
		"another holder":         func(_ *Grantor, c *Claim) { c.Holder = "y" },
		"another incarnation":    func(_ *Grantor, c *Claim) { c.Electors.Token = "t2" },
		"no term, and no holder": func(g *Grantor, c *Claim) { g.Until, c.Term, c.Holder = t0, 0, "" },
	} {
		g, c := g, claim
		change(&g, &c)
		if s := g.Standing(t0); c.Grants(s) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// The lease is for electors, and for persons; a candidate's own record does not
// make it one.
func TestWhoMayBeGranted(t *testing.T) {
	own := rec("t1", 5, 0, "a", "b", "c")
	d := Durable{Term: 5, Electors: own, Grant: Grant{Term: 5, Holder: "old", Boot: "o"}}
	for _, tc := range []struct {
		name    string
		holder  cluster.NodeName
		boot    cluster.Token
		term    cluster.Term
		record  cluster.Electors
		entitle bool
		want    bool
	}{
		{"an elector", "b", "x", 6, own, false, true},
		{"a stranger", "x", "x", 6, own, false, false},
		{"a stranger with a record of its own", "x", "x", 6, rec("t1", 6, 0, "x"), false, false},
		{"a person", "operator-alice", "x", 6, own, true, true},
		{"who has the term, and is no elector any more", "old", "o", 5, own, false, true},
		{"the same, in a new term", "old", "o", 6, own, false, false},
		{"the same, started again", "old", "p", 5, own, false, false},
	} {
		req := Request{Cluster: "c", Token: "t1", Term: tc.term, Holder: tc.holder, Boot: tc.boot, TTL: DefaultTTL, Electors: tc.record, Entitled: tc.entitle}
		next, reply := Grantor{Cluster: "c", Durable: d}.Decide(t0, req)
		if reply.Granted != tc.want {
			t.Errorf("%s: granted %t, %s", tc.name, reply.Granted, reply.Reason)
		}
		if !reply.Granted && next.Durable.Electors.Term != own.Term {
			t.Errorf("%s: its record was adopted", tc.name)
		}
	}
}
