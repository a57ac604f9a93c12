package apply

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func TestAPromiseIsOnTheDisk(t *testing.T) {
	h := newHost(t)
	op := prepare()
	op.Voters = initialMembers("c", "a", "b")
	h.must(op, op) // twice is once
	h.restart()
	s := h.disk()
	if p := s.Prepared; p == nil || p.Token != "t1" || p.Version != writes || len(p.Voters) != 3 {
		t.Errorf("the promise is %+v", p)
	}
	if e := s.LeaseVoters; e.Token != "t1" || e.Term != 0 || !slices.Equal(e.Names, []cluster.NodeName{"a", "b", "c"}) {
		t.Errorf("the lease voters are %+v", e)
	}
	if s.Assigned != nil || h.observe().Process.State != cluster.ProcessStopped {
		t.Error("a promise started something")
	}
}

func TestALaterPromiseReplacesTheFirst(t *testing.T) {
	h := newHost(t)
	h.must(prepare())
	other := prepare()
	other.Token, other.Version = "t2", newer
	h.must(other)
	if s := h.disk(); s.Prepared.Token != "t2" || s.Prepared.Version != newer || s.LeaseVoters.Token != "t2" {
		t.Errorf("promise %+v, lease voters %+v", s.Prepared, s.LeaseVoters)
	}
	h.refused(start(plan.StartNew), "has not promised incarnation t1")
}

func TestOneBootstrapHasOneListOfVoters(t *testing.T) {
	h := newHost(t)
	h.must(prepare())
	other := prepare()
	other.Voters = initialMembers("a", "b")
	wantError(t, h.do(other), "already prepared with the lease voters")
	if got := h.disk().Prepared.Voters; len(got) != 1 {
		t.Errorf("the promise names %v", got)
	}
}

func TestAPromiseIsRefused(t *testing.T) {
	t.Run("to a bootstrap without the node", func(t *testing.T) {
		op := prepare()
		op.Voters = initialMembers("b", "c")
		newHost(t).refused(op, "a is not one of the voters")
	})
	t.Run("on a disk with data", func(t *testing.T) {
		h := newHost(t)
		h.put("data/t0/member/wal/0.wal")
		h.refused(prepare(), "already has data")
	})
	t.Run("on a disk that cannot be understood", func(t *testing.T) {
		h := newHost(t)
		h.put("data/t0/holiday.jpg")
		h.refused(prepare(), "already has data")
	})
	t.Run("on a node with an assignment", func(t *testing.T) {
		h := bootstrapped(t)
		h.must(stop())
		h.loseData()
		h.refused(prepare(), "assignment")
	})
	t.Run("without binaries", func(t *testing.T) {
		op := prepare()
		op.Version = absent
		h := newHost(t)
		var missing *etcdbin.NotFoundError
		if err := h.do(op); !errors.As(err, &missing) {
			t.Errorf("error %v", err)
		}
		if h.disk().Prepared != nil {
			t.Error("there is a promise")
		}
	})
}

func TestAnInitialMemberStarts(t *testing.T) {
	h := newHost(t)
	h.must(prepare(), start(plan.StartNew))
	if got := h.env("ETCD_INITIAL_CLUSTER_STATE"); got != "new" {
		t.Errorf("its start state is %s", got)
	}
	if got, want := h.env("ETCD_DATA_DIR"), filepath.Join(h.o.DataDir, "data", "t1"); got != want {
		t.Errorf("its data directory is %s, want %s", got, want)
	}
	pid := h.pid()
	h.must(start(plan.StartNew))
	if h.pid() != pid {
		t.Error("the same start again started another process")
	}
	h.hasData()
	s := h.disk()
	if s.Prepared != nil || s.Bootstrap {
		t.Errorf("with data on the disk, the promise is %+v, bootstrap %t", s.Prepared, s.Bootstrap)
	}
	if s.Assigned == nil || *s.Assigned != (cluster.Assigned{Token: "t1", Version: writes}) {
		t.Errorf("the assignment is %+v", s.Assigned)
	}
	n := h.observe()
	if n.Process.State != cluster.ProcessRunning || n.Process.Version != writes || n.Process.Since.IsZero() {
		t.Errorf("the process is %+v", n.Process)
	}
}

func TestThePromiseStaysUntilThereIsData(t *testing.T) {
	h := newHost(t)
	p, s := prepare(), start(plan.StartNew)
	p.Version, s.Version = dataless, dataless
	h.must(p, s)
	for range 3 {
		h.observe()
	}
	if h.disk().Prepared == nil || !h.disk().Bootstrap {
		t.Error("the promise is gone before the first data")
	}
	// The daemon ends before etcd has written: it does not start etcd by itself,
	// and may be ordered to start again.
	h.restart()
	if h.pid() != 0 {
		t.Error("a member without data was started by itself")
	}
	h.must(s)
	if got := h.env("ETCD_INITIAL_CLUSTER_STATE"); got != "new" {
		t.Errorf("its start state is %s", got)
	}
}

func TestALearnerJoins(t *testing.T) {
	h := newHost(t)
	op := start(plan.StartJoin)
	op.Peers = initialMembers("a", "b", "c")
	h.must(op)
	if got := h.env("ETCD_INITIAL_CLUSTER_STATE"); got != "existing" {
		t.Errorf("its start state is %s", got)
	}
	if got := h.env("ETCD_INITIAL_CLUSTER"); got != "a=http://127.0.0.1:1,b=http://b:1,c=http://c:1" {
		t.Errorf("its initial cluster is %s", got)
	}
	s := h.disk()
	if s.Bootstrap || s.Term != 4 || s.LeaseVoters.Term != 4 {
		t.Errorf("bootstrap %t, term %d, lease voters %+v", s.Bootstrap, s.Term, s.LeaseVoters)
	}
	h.must(op) // while it runs, the same again is nothing
}

// TestAFormerLeaseVoterTakesTheNewerRecord makes sure that a node that comes back does
// not stay with the record by which it once voted: those who have become lease voters
// since could never make it one.
func TestAFormerLeaseVoterTakesTheNewerRecord(t *testing.T) {
	h := newHost(t)
	if err := h.state.Update(func(s *nodestate.State) error {
		s.Term, s.LeaseVoters = 2, cluster.LeaseVoters{Token: "t1", Term: 2, Names: []cluster.NodeName{"a", "b"}}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	h.restart()
	h.must(start(plan.StartJoin))
	if e := h.disk().LeaseVoters; e.Term != 4 || !slices.Equal(e.Names, []cluster.NodeName{"b", "c"}) {
		t.Errorf("lease voters %+v", e)
	}
}

func TestALearnerThatLostItsDiskAsALeaseVoterDoesNotJoin(t *testing.T) {
	h := newHost(t)
	err := h.Do(t.Context(), plan.Order{
		Operation:   start(plan.StartJoin),
		LeaseVoters: cluster.LeaseVoters{Token: "t1", Term: 2, Names: []cluster.NodeName{"a", "b", "c"}},
	}, nil)
	wantError(t, err, "join the lease voters")
	wantError(t, err, "must be removed from the lease voters first")
	if s := h.disk(); s.Assigned != nil || s.LeaseVoters.Token != "" || h.pid() != 0 {
		t.Errorf("it was assigned %+v all the same", s.Assigned)
	}
}

func TestARestartKeepsThePeersThatItWasReportedOf(t *testing.T) {
	h := newHost(t)
	op := prepare()
	op.Voters = initialMembers("a", "b")
	first := start(plan.StartNew)
	first.Peers = op.Voters
	h.must(op, first)
	h.hasData()
	h.must(stop(), start(plan.StartRestart))
	if got := h.env("ETCD_INITIAL_CLUSTER"); got != "a=http://127.0.0.1:1,b=http://b:1" {
		t.Errorf("its initial cluster is %s", got)
	}
	if s := h.disk(); s.Assigned.Stopped {
		t.Error("it is still marked as stopped")
	}
}

func TestARestartKeepsTheVersion(t *testing.T) {
	h := bootstrapped(t)
	op := start(plan.StartRestart)
	op.Version = newer
	h.refused(op, "etcdadm member change-version changes the version")
	if got := h.disk().Assigned.Version; got != writes {
		t.Errorf("%s is assigned", got)
	}
}

func TestAStartIsRefused(t *testing.T) {
	modes := []plan.StartMode{plan.StartNew, plan.StartJoin, plan.StartRestart}
	all := func(h *host, text string) {
		for _, m := range modes {
			h.refused(start(m), text)
		}
	}
	t.Run("new, without a promise", func(t *testing.T) {
		newHost(t).refused(start(plan.StartNew), "has not promised incarnation t1")
	})
	t.Run("restart, of nothing", func(t *testing.T) {
		newHost(t).refused(start(plan.StartRestart), "no data to start from")
	})
	t.Run("on data of another incarnation", func(t *testing.T) {
		h := newHost(t)
		h.must(prepare())
		h.put("data/t0/member/wal/0.wal")
		all(h, "data of incarnation t0")
	})
	t.Run("on data that no state file names", func(t *testing.T) {
		h := newHost(t)
		h.put("data/t1/member/wal/0.wal")
		all(h, "the disk holds data without a state file")
	})
	t.Run("on a disk that cannot be understood", func(t *testing.T) {
		h := newHost(t)
		h.must(prepare())
		h.put("data/t1/holiday.jpg")
		all(h, "unreadable")
	})
	t.Run("of another incarnation than the assigned one", func(t *testing.T) {
		h := bootstrapped(t)
		h.must(stop())
		h.loseData()
		for _, m := range modes {
			op := start(m)
			op.Token = "t2"
			h.refused(op, "assigned to incarnation t1")
		}
	})
	t.Run("where the data was lost", func(t *testing.T) {
		h := bootstrapped(t)
		h.must(stop())
		h.loseData()
		h.refused(start(plan.StartNew), "has started it before")
		h.refused(start(plan.StartJoin), "has lost its data")
		h.refused(start(plan.StartRestart), "no data to start from")
	})
	t.Run("without binaries", func(t *testing.T) {
		h := bootstrapped(t)
		op := start(plan.StartRestart)
		op.Version = absent
		var missing *etcdbin.NotFoundError
		if err := h.do(op); !errors.As(err, &missing) {
			t.Errorf("error %v", err)
		}
		if h.disk().Assigned.Version != writes || h.observe().Process.State != cluster.ProcessRunning {
			t.Error("it changed something all the same")
		}
	})
}

func TestAProcessThatDiesIsReportedWithItsLastWords(t *testing.T) {
	h := newHost(t)
	p, s := prepare(), start(plan.StartNew)
	p.Version, s.Version = dies, dies
	h.must(p, s)
	testwait.Until(h.t, "three deaths", func() bool { return h.observe().Process.State == cluster.ProcessCrashing })
	testwait.Until(h.t, "its last words", func() bool { return slices.Contains(h.observe().Process.LastLines, "no luck") })
	if exit := h.observe().Process.LastExit; !strings.Contains(exit, "3") {
		t.Errorf("its last exit is %q", exit)
	}
	// It may be ordered to run what works.
	s.Version = writes
	h.must(s)
	h.hasData()
}

func TestBootStartsTheMemberOfTheDisk(t *testing.T) {
	h := bootstrapped(t)
	h.close()
	h.start()
	if h.pid() != 0 {
		t.Fatal("it runs before Boot")
	}
	h.forget()
	for range 2 { // a second Boot finds it running
		if err := h.Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// Should the data vanish between the observation and the start, etcd must not found
	// another cluster.
	if got := h.env("ETCD_INITIAL_CLUSTER_STATE"); got != "existing" {
		t.Errorf("its start state is %s", got)
	}
}

func TestABootstrapThatWasCutOffBeginsAgain(t *testing.T) {
	h := newHost(t)
	op, begin := prepare(), start(plan.StartNew)
	op.Version, begin.Version = cutOff, cutOff
	h.must(op, begin)
	h.hasData()
	if s := h.disk(); s.Bootstrap || s.Assigned == nil {
		t.Errorf("%+v", s)
	}
}

func TestBootStartsNothingElse(t *testing.T) {
	for _, tc := range []struct {
		name    string
		prepare func(h *host)
	}{
		{"an empty disk", func(*host) {}},
		{"a promise", func(h *host) { h.must(prepare()) }},
		{"a member that was stopped", func(h *host) {
			h.must(prepare(), start(plan.StartNew))
			h.hasData()
			h.must(stop())
		}},
		{"a member whose data is gone", func(h *host) {
			h.must(prepare(), start(plan.StartNew))
			h.hasData()
			h.loseData()
		}},
		{"a member whose disk holds the data of another incarnation", func(h *host) {
			h.must(prepare(), start(plan.StartNew))
			h.hasData()
			h.loseData()
			h.put("data/t0/member/wal/0.wal")
		}},
		{"a member whose disk cannot be understood", func(h *host) {
			h.must(prepare(), start(plan.StartNew))
			h.hasData()
			h.loseData()
			h.put("data/t1/holiday.jpg")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHost(t)
			tc.prepare(h)
			h.restart()
			if st := h.proc.Status(); st.PID != 0 || st.State != cluster.ProcessStopped {
				t.Errorf("it runs: %+v", st)
			}
		})
	}
}

func TestBootSaysWhyItCannotStart(t *testing.T) {
	h := bootstrapped(t)
	h.close()
	h.o.Bin = etcdbin.Finder{Opt: t.TempDir()}
	h.start()
	var missing *etcdbin.NotFoundError
	if err := h.Boot(t.Context()); !errors.As(err, &missing) {
		t.Errorf("error %v", err)
	}
}

func TestBootWaitsItsTurnWithADeadline(t *testing.T) {
	h := newHost(t)
	if err := h.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer h.leave()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range map[string]error{
		"boot":  h.Boot(ctx),
		"do":    h.Do(ctx, plan.Order{Operation: prepare()}, nil),
		"close": h.Local.Close(ctx),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A node that had promised to take part in a bootstrap, which others made without
// it, joins as a learner: its old promise must not let it found that once more.
func TestALearnerKeepsNoPromise(t *testing.T) {
	h := newHost(t)
	old := prepare()
	old.Token = "t0"
	h.must(old)
	h.must(start(plan.StartJoin))
	if s := h.disk(); s.Prepared != nil || s.Bootstrap || s.Assigned == nil || s.Assigned.Token != "t1" {
		t.Errorf("after joining t1: promise %+v, bootstrap %t, assigned %+v", s.Prepared, s.Bootstrap, s.Assigned)
	}
}

// A learner's node that had promised a bootstrap which others made forgets the
// promise: it would let the node start on an empty disk as a voter.
func TestAJoinEndsAnOldPromise(t *testing.T) {
	h := newHost(t)
	h.must(&plan.MemberPrepare{
		Node: "a", Token: "t0", Version: writes, Voters: []cluster.InitialMember{{Name: "a", PeerURLs: h.o.URLs.Peer}},
	})
	if h.disk().Prepared == nil {
		t.Fatal("it has not promised")
	}
	h.must(start(plan.StartJoin))
	if p := h.disk().Prepared; p != nil {
		t.Errorf("it runs a member of t1, and still promises %+v", p)
	}
}

func TestMembersAreNamedByTheirRecord(t *testing.T) {
	own := cluster.URLs{Peer: []string{"https://a.new:2380"}, Client: []string{"https://a.new:4001"}}
	s := nodestate.State{
		Voters: []cluster.InitialMember{
			{Name: "a", PeerURLs: []string{"https://10.0.0.1:2380"}}, {Name: "b", PeerURLs: []string{"https://b.old:2380"}},
		},
		Peers: []cluster.InitialMember{{Name: "a", PeerURLs: []string{"https://a.old:2380"}}},
	}
	got := named(own, s, "a")
	want := []string{"https://a.new:2380", "https://10.0.0.1:2380", "https://a.old:2380"}
	if !slices.Equal(got.Peer, want) || !slices.Equal(got.Client, own.Client) || len(own.Peer) != 1 {
		t.Errorf("the URLs are %+v", got)
	}
	// It is what the certificates are issued for.
	var asked cluster.URLs
	h := newHost(t, func(o *LocalOptions) {
		o.TLS = failingTLS(func(urls cluster.URLs) error { asked = urls; return errors.New("no CA") })
	})
	h.must(prepare())
	op := start(plan.StartNew)
	op.Peers = []cluster.InitialMember{{Name: "a", PeerURLs: []string{"https://a.reported:2380"}}}
	if err := h.do(op); err == nil {
		t.Error("it was started without certificates")
	}
	if !slices.Contains(asked.Peer, "https://a.reported:2380") {
		t.Errorf("certificates were asked for %+v", asked)
	}
}

// Whether a member has key material for its peers is known once it was started.
func TestAMemberThatWasStartedHasKeys(t *testing.T) {
	files := etcdconf.Files{CA: "/pki/ca.crt", Cert: "/pki/me.crt", Key: "/pki/me.key"}
	h := newHost(t, func(o *LocalOptions) { o.TLS = &fileTLS{etcdconf.TLS{Peer: files, Client: files}} })
	if h.observe().PeerKeys {
		t.Error("it reports keys before a member was started")
	}
	h.must(prepare(), start(plan.StartNew))
	if !h.observe().PeerKeys {
		t.Error("it does not report that its member has keys")
	}
}
