package handover

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/store"
)

func TestDescribed(t *testing.T) {
	h := newCluster(t, "a", "b", "c")[0]
	observed := func() machine.Observation {
		r := newRunner(h.o, machine.ToManager)
		defer r.close(context.WithoutCancel(t.Context()))
		obs, err := r.observe(t.Context())
		h.must(err)
		return obs
	}
	obs := observed()
	goal := machine.Goal{Action: machine.ToManager, Manager: h.o.Manager}
	j, why := machine.DecideHandover(goal, h.cfg, obs)
	if why != nil || j.Node != "a" || j.MemberID != idOf("a") || j.Version != v36 || len(j.Peers) != 3 ||
		len(j.Others) != 2 || j.EtcdAddress != "0.0.0.0" {
		t.Fatalf("%+v, %v", j, why)
	}
	if want := []string{"ETCD_QUOTA_BACKEND_BYTES=8589934592"}; !slices.Equal(j.Environment, want) {
		t.Errorf("the operator's variables are %q", j.Environment)
	}
	for name, c := range map[string]struct {
		reason machine.Reason
		says   string
		spoil  func(h *host)
	}{
		"a learner": {
			machine.MembersUnsettled, "63 is a learner", func(h *host) { obs.Remote.Members[2].Learner = true },
		},
		"it is a learner": {
			machine.MembersUnsettled, "61 is a learner", func(h *host) { obs.Remote.Members[0].Learner = true },
		},
		"one that never started": {machine.MembersUnsettled, "62 (https://10.0.0.98:2380) has never started", func(h *host) {
			obs.Remote.Members[1].Name = ""
		}},
		"one that is ill": {
			machine.QuorumMargin, "b is not healthy", func(h *host) { obs.Remote.Members[1].Healthy = false },
		},
		"one name for two": {
			machine.NameUnfit, "two members have the name a", func(h *host) { obs.Remote.Members[1].Name = "a" },
		},
		"a strange name": {
			machine.NameUnfit, "has the character", func(h *host) { obs.Remote.Members[1].Name = "a b" },
		},
		"plain text": {
			machine.NameUnfit, "only a member with TLS",
			func(h *host) { obs.Remote.Members[0].PeerURLs = []string{"http://10.0.0.97:2380"} },
		},
		"another address": {
			machine.NameUnfit, "10.0.0.9:2380", func(h *host) { h.cfg.Listen.Address = "10.0.0.9" },
		},
		"a log apart": {
			machine.DataApart, "/fast", func(h *host) { obs.Written["ETCD_WAL_DIR"] = "/fast" },
		},
		"no quorum": {
			machine.ClusterUnreachable, "hangs", func(h *host) { obs.Remote.Answered, obs.Remote.Problem = false, "hangs" },
		},
		"two clusters": {
			machine.DataForeign, "belong to cluster c2", func(h *host) { obs.Remote.ClusterID = 0xc2 },
		},
		"etcd is unreachable": {
			machine.NotRunning, "does not answer", func(h *host) { obs.Local = nil },
		},
		"not in the list": {
			machine.NotVoter, "61 is not in the list", func(h *host) { obs.Remote.Members = obs.Remote.Members[1:] },
		},
		"no data, but etcd": {
			machine.DataForeign, "does not hold", func(h *host) { obs.Data.State = cluster.DiskEmpty },
		},
		"names no URL": {
			machine.NameUnfit, "no client URL", func(h *host) { obs.Remote.Members[0].ClientURLs = nil },
		},
	} {
		obs = observed()
		changed := *h
		c.spoil(&changed)
		_, why := machine.DecideHandover(goal, changed.cfg, obs)
		if why == nil || why.Reason != c.reason || !strings.Contains(why.Text, c.says) {
			t.Errorf("%s: %v", name, why)
		}
	}
}

func TestTheDaemonsLine(t *testing.T) {
	h := newCluster(t, "a", "b", "c")[0]
	h.o.ClusterName = "it's mine"
	d := h.ok(machine.ToManager).Daemon
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
	s, err := store.Open(t.Context(), h.o.BackupStore)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	if err := s.WriteSpec(t.Context(), cluster.Spec{MemberCount: 3, EtcdVersion: v36}); err != nil {
		t.Fatal(err)
	}
	if d := h.ok(machine.ToManager).Daemon; d.Configure != "" {
		t.Errorf("there is a spec, and %s", d.Configure)
	}
}
