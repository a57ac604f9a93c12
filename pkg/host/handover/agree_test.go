package handover

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// goal is what an observation is for.
var goal = machine.Goal{Action: machine.Reset}

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
		// create, token and lease voters are what comes of it, or rule.
		create      bool
		token       cluster.Token
		leaseVoters string
		rule        Reason
	}{
		"the first machine decides": {question{voters: initialMembers("a", "b", "c")}, true, "c1", "a, b, c", ""},
		"the second follows": {
			question{voters: initialMembers("a", "b", "c"), control: store.View{Incarnations: []cluster.Incarnation{first}}},
			false, "c1", "a, b, c", "",
		},
		"by the record and not the list": {
			question{voters: initialMembers("a", "b", "d"), control: store.View{Incarnations: []cluster.Incarnation{first}}},
			false, "c1", "a, b, c", "",
		},
		"who is not in it has none": {
			question{self: "d", voters: initialMembers("a", "b", "d"), control: store.View{
				Incarnations: []cluster.Incarnation{first},
			}}, false, "c1", "", "",
		},
		"what is on the disk is kept": {
			question{voters: initialMembers("a", "b", "c"), kept: kept("c1", "a", "b", "c", "d"), control: store.View{
				Incarnations: []cluster.Incarnation{first},
			}}, false, "c1", "", "",
		},
		"of another incarnation it is not": {
			question{voters: initialMembers("a", "b", "c"), kept: kept("c0", "a"), control: store.View{
				Incarnations: []cluster.Incarnation{first},
			}}, false, "c1", "a, b, c", "",
		},
		"a coordinator has been at work": {
			question{voters: initialMembers("a", "b", "c"), control: store.View{
				Created: t0, Incarnations: []cluster.Incarnation{first},
			}}, false, "c1", "", "",
		},
		"one of an earlier incarnation": {
			question{voters: initialMembers("a", "b"), control: store.View{
				Created: t0.Add(-1), Incarnations: []cluster.Incarnation{first, incarnation(2, "c1-2", "a", "b")},
			}}, false, "c1-2", "a, b", "",
		},
		"no majority of the record is left": {
			question{voters: initialMembers("a", "d", "e"), control: store.View{Incarnations: []cluster.Incarnation{first}}},
			false, "", "", LeaseVotersLost,
		},
		"nor of the one on the disk": {
			question{voters: initialMembers("a", "b", "c"), kept: kept("c1", "a", "x", "y"), control: store.View{
				Incarnations: []cluster.Incarnation{first},
			}}, false, "", "", LeaseVotersLost,
		},
		"a new incarnation": {
			question{renew: true, voters: initialMembers("a", "d", "e"), kept: kept("c1", "a", "b", "c"), control: store.View{
				Created: t0, Incarnations: []cluster.Incarnation{first},
			}}, true, "c1-2", "a, d, e", "",
		},
		"is made once": {
			question{renew: true, voters: initialMembers("a", "d", "e"), control: store.View{
				Incarnations: []cluster.Incarnation{first, incarnation(2, "c1-2", "e", "d", "a")},
			}}, false, "c1-2", "a, d, e", "",
		},
		"another cluster's store": {
			question{voters: initialMembers("a"), control: store.View{
				Incarnations: []cluster.Incarnation{incarnation(1, "c12", "a")},
			}}, false, "", "", StoreForeign,
		},
		"the existing tool's": {
			question{voters: initialMembers("a"), control: store.View{Created: t0}}, false, "", "", StoreForeign,
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := c.q
			q.now, q.id, q.version = t0, clusterID, v36
			if q.self == "" {
				q.self = "a"
			}
			a, why := agree(q)
			if c.rule != "" {
				if why == nil || why.Reason != c.rule || why.Next == "" {
					t.Fatalf("%+v, %+v", a, why)
				}
				return
			}
			if why != nil || a.Create != c.create || a.Record.Token != c.token || text(a.LeaseVoters) != c.leaseVoters ||
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
	var walk func(control store.View, held map[cluster.NodeName]cluster.LeaseVoters, depth int)
	seen := 0
	walk = func(control store.View, held map[cluster.NodeName]cluster.LeaseVoters, depth int) {
		seen++
		votes := map[string]int{}
		need := map[string]int{}
		for node, e := range held {
			if key := string(e.Token) + " " + text(e.Names); slices.Contains(e.Names, node) {
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
					now: t0, self: name, id: clusterID, version: v36, voters: initialMembers(list...), control: control,
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
	walk(store.View{}, nil, 4)
	if seen < 1000 {
		t.Errorf("only %d histories were checked", seen)
	}
}

func TestDescribed(t *testing.T) {
	h := newCluster(t, "a", "b", "c")[0]
	obs, err := h.Observe(t.Context(), goal)
	if err != nil {
		t.Fatal(err)
	}
	j, why := described(h.cfg, obs)
	if why != nil || j.Node != "a" || j.MemberID != idOf("a") || j.Version != v36 || len(j.Peers) != 3 ||
		len(j.Others) != 2 || j.EtcdAddress != "0.0.0.0" {
		t.Fatalf("%+v, %v", j, why)
	}
	if want := []string{"ETCD_QUOTA_BACKEND_BYTES=8589934592"}; !slices.Equal(j.Environment, want) {
		t.Errorf("the operator's variables are %q", j.Environment)
	}
	for name, c := range map[string]struct {
		rule  Reason
		says  string
		spoil func(h *host)
	}{
		"a learner":       {MembersUnsettled, "63 is a learner", func(h *host) { obs.Remote.Members[2].Learner = true }},
		"it is a learner": {MembersUnsettled, "61 is a learner", func(h *host) { obs.Remote.Members[0].Learner = true }},
		"one that never started": {MembersUnsettled, "62 (https://10.0.0.98:2380) has never started", func(h *host) {
			obs.Remote.Members[1].Name = ""
		}},
		"one that is ill":  {QuorumMargin, "b is not healthy", func(h *host) { obs.Remote.Members[1].Healthy = false }},
		"one name for two": {NameUnfit, "two members are called a", func(h *host) { obs.Remote.Members[1].Name = "a" }},
		"a strange name":   {NameUnfit, "has the character", func(h *host) { obs.Remote.Members[1].Name = "a b" }},
		"plain text": {
			NameUnfit, "speaks TLS", func(h *host) { obs.Remote.Members[0].PeerURLs = []string{"http://10.0.0.97:2380"} },
		},
		"another address": {NameUnfit, "10.0.0.9:2380", func(h *host) { h.cfg.Listen.Address = "10.0.0.9" }},
		"a log apart":     {DataApart, "/fast", func(h *host) { obs.Written["ETCD_WAL_DIR"] = "/fast" }},
		"no quorum": {
			ClusterUnreachable, "hangs", func(h *host) { obs.Remote.Answered, obs.Remote.Problem = false, "hangs" },
		},
		"two clusters":        {DataForeign, "of cluster c2", func(h *host) { obs.Remote.ClusterID = 0xc2 }},
		"etcd is unreachable": {NotRunning, "does not answer", func(h *host) { obs.Local = nil }},
		"not in the list": {
			NotVoter, "61 is not in the list", func(h *host) { obs.Remote.Members = obs.Remote.Members[1:] },
		},
		"no data, but etcd": {DataForeign, "does not hold", func(h *host) { obs.Data.State = cluster.DiskEmpty }},
		"tells no URL":      {NameUnfit, "no client URL", func(h *host) { obs.Remote.Members[0].ClientURLs = nil }},
	} {
		if obs, err = h.Observe(t.Context(), goal); err != nil {
			t.Fatal(err)
		}
		changed := *h
		c.spoil(&changed)
		if _, why := described(changed.cfg, obs); why == nil || why.Reason != c.rule || !strings.Contains(why.Text, c.says) {
			t.Errorf("%s: %v", name, why)
		}
	}
}

func TestWhereEtcdListens(t *testing.T) {
	h := hostAt(t, t.TempDir(), "a")
	for address, want := range map[string]string{
		"10.0.0.1": "0.0.0.0", "fd00::1": "::", "127.0.0.2": "127.0.0.2", "::1": "::1",
	} {
		h.cfg.Listen.Address = address
		if got := listenAt(h.cfg); got != want {
			t.Errorf("%s: %s", address, got)
		}
	}
	h.cfg.Listen.Address, h.cfg.Listen.ClientURLs = "10.0.0.1", []string{"https://10.0.0.1:2379"}
	if got := listenAt(h.cfg); got != "10.0.0.1" {
		t.Error(got)
	}
}

func TestTheDaemonsLine(t *testing.T) {
	h := newCluster(t, "a", "b", "c")[0]
	h.o.ClusterName = "it's mine"
	d := h.ok(ToManager).Daemon
	for _, want := range []string{
		"ETCD_QUOTA_BACKEND_BYTES=8589934592 etcd-manager ", `'--cluster-name=it'\''s mine'`,
		" --backup-store=" + h.o.BackupStore, " --data-dir=" + h.o.ManagerDir + " ",
		" --node-name=a ", " --address=10.0.0.97 ", " --etcd-address=0.0.0.0 ", " --grpc-port=8000 ",
		" --peer-urls=https://10.0.0.97:2380 ", " --client-urls=https://10.0.0.97:2379 ",
		" --pki-dir=" + h.o.PKIDir + " ", " --etcd-dir=" + h.o.EtcdDir + " ", " --seeds=10.0.0.98:8000,10.0.0.99:8000",
	} {
		if !strings.Contains(d.Line, want) {
			t.Errorf("the line lacks %q: %s", want, d.Line)
		}
	}
	if want := "etcd-manager-ctl --backup-store=" + h.o.BackupStore +
		" --member-count=3 --etcd-version=3.6.16 configure-cluster"; d.Configure != want {
		t.Errorf("the spec is to be written by %s", d.Configure)
	}
	if got := line([]string{"ETCD_CIPHER_SUITES=a b", "x"}); got != "ETCD_CIPHER_SUITES='a b' x" {
		t.Error(got)
	}
	s, err := store.Open(t.Context(), h.o.BackupStore)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	if err := s.WriteSpec(t.Context(), cluster.Spec{MemberCount: 3, EtcdVersion: v36}); err != nil {
		t.Fatal(err)
	}
	if d := h.ok(ToManager).Daemon; d.Configure != "" {
		t.Errorf("there is a spec, and %s", d.Configure)
	}
}
