package apply

import (
	"context"
	"crypto/tls"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/node/nodeobserve"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func TestADifferenceThatPassesCondemnsNobody(t *testing.T) {
	f := newFakeTrio(t, func(o *LocalOptions) { o.recheck = 10 * time.Second })
	f.set(wrong, "a")
	f.found()
	pid := f.pid()
	testwait.Until(f.t, "the suspicion", func() bool {
		return strings.Contains(f.observe().Differs, "if that is still so")
	})
	f.set(func(p *fakePeer) { p.hash = 1 }, "a")
	testwait.Until(f.t, "its end", func() bool { return f.observe().Differs == "" })
	if s := f.disk(); s.Differs != nil || f.pid() != pid {
		t.Errorf("%+v, process %d, was %d", s.Differs, f.pid(), pid)
	}
}

func TestADifferenceThatStaysEndsTheMember(t *testing.T) {
	for _, learner := range []cluster.NodeName{"", "a"} {
		f := newFakeTrio(t)
		f.learner = learner
		f.set(wrong, "a")
		f.found()
		f.fenced("b and c")
	}
}

// TestAPersonMayAcceptTheData: a comparison may be wrong, too.
func TestAPersonMayAcceptTheData(t *testing.T) {
	f := newFakeTrio(t)
	f.set(wrong, "a")
	f.found()
	// Its fake etcd has no id.
	if err := f.state.Update(func(s *nodestate.State) error {
		s.MemberID, s.MemberToken = 1, "t1"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	f.fenced("b and c")
	again := start(plan.StartRestart)
	wantError(t, f.do(again), "its data differs from that of b and c")
	if f.pid() != 0 || f.disk().Differs == nil {
		t.Error("a start without a word about the data has accepted it")
	}
	again.AcceptData = 2
	isStale(t, f.do(again), "expected data of member 2")
	again.AcceptData = 1
	f.set(func(p *fakePeer) { p.hash = 1 }, "a")
	f.must(again)
	if f.pid() == 0 || f.disk().Differs != nil {
		t.Errorf("it does not run: %+v", f.disk())
	}
	f.set(wrong, "a")
	f.must(&plan.MemberStop{Node: "a", ExpectToken: "t1", ExpectMemberID: 1}, again)
	f.fenced("b and c") // it is compared all the same
}

func TestVersionsThatDigestDifferentlyCondemnNobody(t *testing.T) {
	f := newFakeTrio(t)
	f.set(func(p *fakePeer) { p.version, p.hash = newer.String(), 2 }, "a")
	f.found()
	testwait.Until(f.t, "the dispute", func() bool {
		return strings.Contains(f.observe().Differs, "with the same etcd version")
	})
	if s := f.disk(); s.Differs != nil || f.pid() == 0 {
		t.Errorf("it was condemned: %+v", s.Differs)
	}
}

// TestAnOrderDuringAComparison: what was compared may be stopped or gone when the
// comparison ends.
func TestAnOrderDuringAComparison(t *testing.T) {
	f := newFakeTrio(t, func(o *LocalOptions) { o.recheck = time.Hour })
	f.set(wrong, "a")
	f.found()
	testwait.Until(f.t, "a comparison", func() bool { return f.observe().Differs != "" })
	was := f.disk()
	c := nodeobserve.Comparison{
		Own: cluster.MemberDigest{Digest: cluster.Digest{Revision: 9}}, Unlike: []cluster.NodeName{"b", "c"},
	}
	untouched := func(after string) {
		t.Helper()
		if f.fence(t.Context(), was, c) || f.pid() != 0 || f.disk().Differs != nil {
			t.Errorf("%s: process %d, %+v", after, f.pid(), f.disk())
		}
		if d := f.observe().Differs; d != "" {
			t.Errorf("%s: the comparison goes on: %s", after, d)
		}
	}
	f.must(&plan.MemberStop{Node: "a", ExpectToken: "t1"})
	untouched("stopped")
	f.must(setAside())
	untouched("set aside")
}

// A process of etcd that has taken the place of another is compared as it comes, not when
// the next compaction is looked for.
func TestAProcessThatComesByItselfIsCompared(t *testing.T) {
	f := newFakeTrio(t, func(o *LocalOptions) { o.comparePeriod = time.Hour })
	f.found()
	compared := func(than int) func() bool {
		return func() bool { pid := f.pid(); return pid != 0 && pid != than && !f.comparer.compares(pid) }
	}
	testwait.Until(t, "the first comparison", compared(0))
	was := f.pid()
	if err := syscall.Kill(was, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "another comparison", compared(was))
}

func TestASwitchEndsTheComparison(t *testing.T) {
	f := newFakeTrio(t, func(o *LocalOptions) { o.recheck = time.Hour })
	f.set(wrong, "a")
	f.found()
	testwait.Until(f.t, "a comparison", func() bool { return f.observe().Differs != "" })
	was := f.disk()
	f.must(&plan.RestoreSwitch{Node: "a", Token: "t2", ExpectToken: "t1"})
	if f.fence(t.Context(), was, nodeobserve.Comparison{}) || f.pid() != 0 || f.observe().Differs != "" {
		t.Errorf("process %d, %+v", f.pid(), f.observe())
	}
}

// TestNoMoreMembersReadThanAMajorityNeeds: a member that makes a digest commits
// nothing.
func TestNoMoreMembersReadThanAMajorityNeeds(t *testing.T) {
	f := newFakeTrio(t)
	f.found()
	f.comparer.end(t.Context())
	for _, p := range f.peers {
		f.set(func(p *fakePeer) { p.asked = nil }, p.name)
	}
	c, settled := f.compareAt(t.Context(), 0)
	if !settled || c.Compacted != 4 {
		t.Errorf("%+v, settled %t", c, settled)
	}
	if a, b, c := f.asked("a"), f.asked("b"), f.asked("c"); !slices.Equal(a, []cluster.Revision{0}) ||
		!slices.Equal(b, []cluster.Revision{9}) || len(c) != 0 {
		t.Errorf("asked for revisions %d, %d, %d", a, b, c)
	}
}

func TestAMemberAloneReadsNothing(t *testing.T) {
	f := newFakeTrio(t)
	f.alone = true
	f.found()
	if _, settled := f.compareAt(t.Context(), 0); !settled {
		t.Error("it is not settled")
	}
	var k compaction
	if f.compareCompaction(t.Context(), &k, 4); k.done != 4 {
		t.Errorf("%+v", k)
	}
	if a := f.asked("a"); len(a) > 0 {
		t.Errorf("it was asked for revisions %d", a)
	}
}

// TestADigestThatNobodyKeptIsNotReadForEver: members forget their digests of
// compactions when they start, and would read the whole database instead.
func TestADigestThatNobodyKeptIsNotReadForEver(t *testing.T) {
	for name, others := range map[cluster.NodeName]int{"a": 0, "b": compareTries} {
		f := newFakeTrio(t)
		f.found()
		f.comparer.end(t.Context())
		f.set(func(p *fakePeer) { p.asked = nil }, "a", "b", "c")
		f.set(func(p *fakePeer) { p.kept = false }, name)
		if name == "b" {
			f.set(func(p *fakePeer) { p.kept = false }, "c")
		}
		k := compaction{done: 3}
		tries := 0
		for ; k.done != 4 && tries < 10; tries++ {
			f.compareCompaction(t.Context(), &k, 4)
		}
		if tries != compareTries || len(f.asked("b")) != others {
			t.Errorf("%s has kept nothing: %d tries, b was asked for %d", name, tries, f.asked("b"))
		}
	}
}

func TestAMemberThatHangsHoldsNoComparisonUp(t *testing.T) {
	f := newFakeTrio(t)
	f.found()
	f.comparer.end(t.Context())
	f.set(func(p *fakePeer) { p.hangs = make(chan struct{}) }, "a")
	ctx, cancel := context.WithTimeout(t.Context(), 4*lastCompareInterval)
	defer cancel()
	if _, settled := f.compareAt(ctx, 0); settled || ctx.Err() != nil {
		t.Errorf("settled %t, %v", settled, ctx.Err())
	}
}

// TestARefusalThatNobodyCanSettle: etcd's own comparison finds a difference with
// some member, and no majority says who is right.
func TestARefusalThatNobodyCanSettle(t *testing.T) {
	f := newFakeTrio(t)
	f.set(func(p *fakePeer) { p.compacted = 3 }, "b")
	voters := []cluster.InitialMember{}
	for _, n := range []cluster.NodeName{"a", "b", "c"} {
		voters = append(voters, cluster.InitialMember{Name: n, PeerURLs: []string{f.peers[n].url}})
	}
	f.must(&plan.MemberPrepare{Node: "a", Token: "t1", Version: refuses, Voters: voters})
	if err := f.state.Update(func(s *nodestate.State) error { s.Voters = voters; return nil }); err != nil {
		t.Fatal(err)
	}
	f.must(&plan.MemberStart{Node: "a", Token: "t1", Mode: plan.StartNew, Version: refuses, Peers: voters})
	f.comparer.end(t.Context()) // which asks c, too, and more often on a slow machine
	f.hasData()
	if s := f.disk(); s.Differs != nil {
		t.Errorf("it was condemned: %+v", s.Differs)
	}
	if n := len(f.asked("c")); n > 3 {
		t.Errorf("c was asked %d times", n)
	}
}

// fileTLS has the key material of one member in files.
type fileTLS struct{ files etcdconf.TLS }

func (f *fileTLS) Ensure(cluster.Token, cluster.URLs) (*etcdconf.TLS, error) { return &f.files, nil }
func (f *fileTLS) Client() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12}
}
