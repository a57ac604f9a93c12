package machine

import (
	"slices"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

const agreeID = cluster.ClusterID(0xc1)

var v36 = etcdversion.Must("3.6.16")

func initialMembers(names ...string) []cluster.InitialMember {
	var list []cluster.InitialMember
	for _, n := range names {
		list = append(list, cluster.InitialMember{Name: cluster.NodeName(n), PeerURLs: []string{"https://" + n + ":2380"}})
	}
	return list
}

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func incarnation(n int, token cluster.Token, names ...string) cluster.Incarnation {
	return cluster.Incarnation{Number: n, Token: token, Version: v36, Voters: initialMembers(names...), At: t0}
}

func TestAgree(t *testing.T) {
	kept := func(token cluster.Token, names ...string) lease.Durable {
		e := cluster.LeaseVoters{Token: token, Term: 7}
		for _, n := range names {
			e.Names = append(e.Names, cluster.NodeName(n))
		}
		return lease.Durable{Term: 7, LeaseVoters: e}
	}
	first := incarnation(1, "c1", "a", "b", "c")
	for name, c := range map[string]struct {
		q question
		// create, token and lease voters are what comes of it, or reason.
		create      bool
		token       cluster.Token
		leaseVoters string
		reason      Reason
	}{
		"the first machine decides": {question{voters: initialMembers("a", "b", "c")}, true, "c1", "a, b, c", ""},
		"the second follows": {
			question{voters: initialMembers("a", "b", "c"), control: Control{Incarnations: []cluster.Incarnation{first}}},
			false, "c1", "a, b, c", "",
		},
		"by the record and not the list": {
			question{voters: initialMembers("a", "b", "d"), control: Control{Incarnations: []cluster.Incarnation{first}}},
			false, "c1", "a, b, c", "",
		},
		"who is not in it has none": {
			question{self: "d", voters: initialMembers("a", "b", "d"), control: Control{
				Incarnations: []cluster.Incarnation{first},
			}}, false, "c1", "", "",
		},
		"what is on the disk is kept": {
			question{voters: initialMembers("a", "b", "c"), kept: kept("c1", "a", "b", "c", "d"), control: Control{
				Incarnations: []cluster.Incarnation{first},
			}}, false, "c1", "", "",
		},
		"of another incarnation it is not": {
			question{voters: initialMembers("a", "b", "c"), kept: kept("c0", "a"), control: Control{
				Incarnations: []cluster.Incarnation{first},
			}}, false, "c1", "a, b, c", "",
		},
		"a coordinator has been at work": {
			question{voters: initialMembers("a", "b", "c"), control: Control{
				Created: t0, Incarnations: []cluster.Incarnation{first},
			}}, false, "c1", "", "",
		},
		"it is unknown whether one has": {
			question{voters: initialMembers("a", "b", "c"), control: Control{
				Created: cluster.MarkerUnknown, Incarnations: []cluster.Incarnation{first},
			}}, false, "c1", "", "",
		},
		"one of an earlier incarnation": {
			question{voters: initialMembers("a", "b"), control: Control{
				Created: t0.Add(-1), Incarnations: []cluster.Incarnation{first, incarnation(2, "c1-2", "a", "b")},
			}}, false, "c1-2", "a, b", "",
		},
		"no majority of the record is left": {
			question{voters: initialMembers("a", "d", "e"), control: Control{Incarnations: []cluster.Incarnation{first}}},
			false, "", "", LeaseVotersLost,
		},
		"nor of the one on the disk": {
			question{voters: initialMembers("a", "b", "c"), kept: kept("c1", "a", "x", "y"), control: Control{
				Incarnations: []cluster.Incarnation{first},
			}}, false, "", "", LeaseVotersLost,
		},
		"a new incarnation": {
			question{renew: true, voters: initialMembers("a", "d", "e"), kept: kept("c1", "a", "b", "c"), control: Control{
				Created: t0, Incarnations: []cluster.Incarnation{first},
			}}, true, "c1-2", "a, d, e", "",
		},
		"is made once": {
			question{renew: true, voters: initialMembers("a", "d", "e"), control: Control{
				Incarnations: []cluster.Incarnation{first, incarnation(2, "c1-2", "e", "d", "a")},
			}}, false, "c1-2", "a, d, e", "",
		},
		"another cluster's store": {
			question{voters: initialMembers("a"), control: Control{
				Incarnations: []cluster.Incarnation{incarnation(1, "c12", "a")},
			}}, false, "", "", StoreForeign,
		},
		"the existing tool's": {
			question{voters: initialMembers("a"), control: Control{Created: t0}}, false, "", "", StoreForeign,
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := c.q
			q.now, q.id, q.version = t0, agreeID, v36
			if q.self == "" {
				q.self = "a"
			}
			a, why := agree(q)
			if c.reason != "" {
				if why == nil || why.Reason != c.reason || why.Next == "" {
					t.Fatalf("%+v, %+v", a, why)
				}
				return
			}
			if why != nil || a.Create != c.create || a.Record.Token != c.token || namesOf(a.LeaseVoters) != c.leaseVoters ||
				(a.Why == "") == (c.leaseVoters == "") {
				t.Errorf("%+v, %v", a, why)
			}
			if a.Create && (a.Record.By != q.self || !a.Record.At.Equal(t0) || a.Record.Version != v36) {
				t.Errorf("the record is %+v", a.Record)
			}
		})
	}
}

// Whatever members were changed by hand in between, and in whatever order the
// machines come: two lease voters' records of different names that both have a
// majority among the nodes that hold them would be two coordinators.
func TestNoTwoMajorities(t *testing.T) {
	lists := [][]string{{"a", "b", "c"}, {"a", "b"}, {"a", "b", "d"}, {"a", "d", "e"}, {"d", "e", "f"}, {
		"a", "b", "c", "d", "e",
	}, {"c"}}
	var walk func(control Control, held map[cluster.NodeName]cluster.LeaseVoters, depth int)
	seen := 0
	walk = func(control Control, held map[cluster.NodeName]cluster.LeaseVoters, depth int) {
		seen++
		votes := map[string]int{}
		need := map[string]int{}
		for node, e := range held {
			if key := string(e.Token) + " " + namesOf(e.Names); slices.Contains(e.Names, node) {
				votes[key]++
				need[key] = cluster.Quorum(len(e.Names))
			}
		}
		var winners []string
		for key, n := range votes {
			if n >= need[key] {
				winners = append(winners, key)
			}
		}
		if len(winners) > 1 {
			t.Fatalf("majorities of %q: %v", winners, held)
		}
		if depth == 0 {
			return
		}
		for _, list := range lists {
			for _, self := range list {
				name := cluster.NodeName(self)
				if _, come := held[name]; come {
					continue
				}
				a, why := agree(question{
					now: t0, self: name, id: agreeID, version: v36, voters: initialMembers(list...), control: control,
				})
				if why != nil {
					continue
				}
				next := map[cluster.NodeName]cluster.LeaseVoters{name: {Token: a.Record.Token, Names: a.LeaseVoters}}
				for k, v := range held {
					next[k] = v
				}
				with := control
				if a.Create {
					with.Incarnations = []cluster.Incarnation{a.Record}
				}
				walk(with, next, depth-1)
			}
		}
	}
	walk(Control{}, nil, 4)
	if seen < 1000 {
		t.Errorf("only %d histories were checked", seen)
	}
}

func TestWhereEtcdListens(t *testing.T) {
	cfg := Defaults()
	for address, want := range map[string]string{
		"10.0.0.1": "0.0.0.0", "fd00::1": "::", "127.0.0.2": "127.0.0.2", "::1": "::1",
	} {
		cfg.Listen.Address = address
		if got := listenAt(cfg); got != want {
			t.Errorf("%s: %s", address, got)
		}
	}
	cfg.Listen.Address, cfg.Listen.ClientURLs = "10.0.0.1", []string{"https://10.0.0.1:2379"}
	if got := listenAt(cfg); got != "10.0.0.1" {
		t.Error(got)
	}
}

func TestTheDaemonsLineQuotesValues(t *testing.T) {
	if got := line([]string{"ETCD_CIPHER_SUITES=a b", "x"}); got != "ETCD_CIPHER_SUITES='a b' x" {
		t.Error(got)
	}
}
