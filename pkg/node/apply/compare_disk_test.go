package apply

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/isolate"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/keyspace"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/snapshottest"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func TestMain(m *testing.M) {
	if code, ok := isolate.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// A diskTrio is a fakeTrio whose host is down, with a database on its disk, and whose
// other members serve.
type diskTrio struct{ *fakeTrio }

// newDiskTrio returns one whose members all hold the same: up to revision 9, and compacted
// to 4 on the disk.
func newDiskTrio(t *testing.T, change ...func(*LocalOptions)) *diskTrio {
	t.Helper()
	long := func(o *LocalOptions) { o.answerTimeout = time.Minute }
	f := &diskTrio{newFakeTrio(t, append([]func(*LocalOptions){long}, change...)...)}
	f.found()
	var voters []cluster.InitialMember
	for _, n := range []cluster.NodeName{"a", "b", "c"} {
		voters = append(voters, cluster.InitialMember{Name: n, PeerURLs: []string{f.peers[n].url}})
	}
	if err := f.state.Update(func(s *nodestate.State) error { s.Voters = voters; return nil }); err != nil {
		t.Fatal(err)
	}
	f.forget()
	f.close()
	db := snapshottest.New("3.6")
	for _, key := range []string{"a", "b", "a", "b", "c", "a", "d", "e"} {
		db.Put(key, "value", 0)
	}
	db.Compacted(4)
	path := f.database()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, db.Database(t), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := keyspace.Open(t.Context(), path, keyspace.Options{SkipDigest: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	hashes := map[cluster.Revision]uint32{}
	for c := cluster.Revision(4); c <= 9; c++ {
		h, err := s.HashFrom(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		hashes[c] = h.Hash
	}
	f.set(func(p *fakePeer) { p.hashes, p.asked = hashes, nil }, "a", "b", "c")
	return f
}

// other gives a member digests of its own.
func other(p *fakePeer) { p.hashes, p.hash = nil, 2 }

// ran reports whether etcd has been started.
func (f *diskTrio) ran() bool {
	f.t.Helper()
	_, err := os.Stat(filepath.Join(f.bins, "env"))
	if err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
	return err == nil
}

// runs waits for etcd to run, without a comparison of its own.
func (f *diskTrio) runs() {
	f.t.Helper()
	testwait.Until(f.t, "etcd to run", f.ran)
	if f.env("ETCD_NAME") != "a" {
		f.t.Error("it is another etcd")
	}
	b, err := os.ReadFile(filepath.Join(f.bins, "env"))
	if err != nil {
		f.t.Fatal(err)
	}
	if strings.Contains(string(b), "InitialCorruptCheck=true") {
		f.t.Error("etcd compares itself as well")
	}
	if s := f.disk(); s.Differs != nil {
		f.t.Errorf("it was condemned: %+v", s.Differs)
	}
}

// TestAMemberIsComparedBeforeItStarts as long as the cluster serves without it. What
// answers late, fails or lags is no reason to start a member that may hold other data.
func TestAMemberIsComparedBeforeItStarts(t *testing.T) {
	for name, trouble := range map[string]func(f *diskTrio){
		"nothing more": func(*diskTrio) {},
		"the others are slow": func(f *diskTrio) {
			f.set(func(p *fakePeer) { p.slow = 2 * servesTimeout }, "b", "c")
		},
		"the others fail once": func(f *diskTrio) { f.set(func(p *fakePeer) { p.fails = 1 }, "b", "c") },
		"the others lag":       func(f *diskTrio) { f.set(func(p *fakePeer) { p.behind = 1 }, "b", "c") },
		"the others have compacted more": func(f *diskTrio) {
			f.set(func(p *fakePeer) { p.compacted = 7 }, "b", "c")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newDiskTrio(t)
			f.set(other, "b", "c")
			trouble(f)
			f.up()
			f.fenced("b and c")
			if f.ran() {
				t.Error("etcd was started")
			}
			f.close()
			f.set(func(p *fakePeer) { p.asked = nil }, "b", "c")
			f.up()
			f.fenced("b and c") // it is not forgotten
			if f.ran() || len(f.asked("b"))+len(f.asked("c")) > 0 {
				t.Error("it was compared once more")
			}
		})
	}
}

func TestAMemberStartsAfterItsComparison(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *diskTrio)
		asked  int // the digests that b and c make before etcd starts, at least
	}{
		"equal":                     {func(*diskTrio) {}, 1},
		"equal to one, unlike one":  {func(f *diskTrio) { f.set(other, "b") }, 2},
		"equal, and more compacted": {func(f *diskTrio) { f.set(func(p *fakePeer) { p.compacted = 7 }, "b", "c") }, 1},
		"equal, and compacted to its end": {func(f *diskTrio) {
			f.set(func(p *fakePeer) { p.compacted, p.kept = 9, false }, "b", "c")
		}, 1},
		"a difference that passes": {func(f *diskTrio) {
			f.set(func(p *fakePeer) { p.passes = recheck / 2 }, "b", "c")
		}, 3},
		"no majority": {func(f *diskTrio) {
			f.set(other, "b")
			f.set(func(p *fakePeer) { p.hashes, p.hash = nil, 3 }, "c")
		}, 2 * compareTries},
		"other versions": {func(f *diskTrio) {
			f.set(func(p *fakePeer) { other(p); p.version = newer.String() }, "b", "c")
		}, 2 * compareTries},
		// The limit of what can be done: they do not have this revision any more.
		"compacted past its end": {func(f *diskTrio) {
			f.set(func(p *fakePeer) { p.revision, p.compacted = 20, 15 }, "b", "c")
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newDiskTrio(t)
			c.change(f)
			f.set(func(p *fakePeer) { p.hangs = make(chan struct{}) }, "a") // nothing is compared later
			f.up()
			f.runs()
			if n := len(f.asked("b")) + len(f.asked("c")); n < c.asked {
				t.Errorf("b and c were asked %d times, want %d", n, c.asked)
			}
		})
	}
}

// TestAMemberThatIsNeededStarts as soon as it is.
func TestAMemberThatIsNeededStarts(t *testing.T) {
	t.Run("at once", func(t *testing.T) {
		f := newDiskTrio(t)
		f.set(other, "b", "c")
		f.servers["c"].Close()
		f.up()
		f.runs()
	})
	t.Run("while it is compared", func(t *testing.T) {
		f := newDiskTrio(t)
		f.set(func(p *fakePeer) { p.hangsWithDigests = true }, "b", "c")
		f.up()
		testwait.Until(t, "a comparison", func() bool { return len(f.asked("b"))+len(f.asked("c")) > 0 })
		if n := f.observe(); !n.Comparing || n.Process.State != cluster.ProcessRunning || f.ran() {
			t.Errorf("it compares %t, etcd is %s, ran %t", n.Comparing, n.Process.State, f.ran())
		}
		f.servers["c"].CloseClientConnections()
		f.servers["c"].Close()
		f.runs()
	})
}

func TestAComparisonBeforeAStartIsBrokenOff(t *testing.T) {
	f := newDiskTrio(t)
	f.set(func(p *fakePeer) { p.hangsWithDigests = true }, "b", "c")
	f.up()
	testwait.Until(t, "a comparison", func() bool { return len(f.asked("b"))+len(f.asked("c")) > 0 })
	f.must(&plan.MemberStop{Node: "a", ExpectToken: "t1"})
	if f.ran() || f.pid() != 0 || f.disk().Differs != nil {
		t.Errorf("ran %t, process %d, %+v", f.ran(), f.pid(), f.disk().Differs)
	}
}

// TestWhoServesIsWaitedFor only where the answer decides, and a connection is taken.
func TestWhoServesIsWaitedFor(t *testing.T) {
	f := newDiskTrio(t, func(o *LocalOptions) { o.answerTimeout = time.Hour })
	f.start()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes connections, and nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	quiet, gone := "http://"+silent.Addr().String(), f.o.URLs.Quarantine[0]
	slow, busy := f.peers["b"].url, 3*servesTimeout
	f.set(func(p *fakePeer) { p.slow = busy }, "b")
	quick := f.peers["c"].url
	for name, c := range map[string]struct {
		others []string
		serve  bool
	}{
		"one is gone, the other would do nothing for it": {[]string{gone, quiet}, false},
		"both serve, one is slow":                        {[]string{slow, quick}, true},
		"three of four, and the last one hangs":          {[]string{slow, quick, quick, quiet}, true},
		"two of four are gone":                           {[]string{gone, gone, quiet, quiet}, false},
	} {
		s := f.disk()
		s.Voters = []cluster.InitialMember{{Name: "a"}}
		for i, u := range c.others {
			s.Voters = append(s.Voters, cluster.InitialMember{Name: cluster.NodeName('b' + rune(i)), PeerURLs: []string{u}})
		}
		if got := f.servedWithout(t.Context(), s, f.Local.o.answerTimeout); got != c.serve {
			t.Errorf("%s: served %t", name, got)
		}
	}
	m := cluster.InitialMember{Name: "b", PeerURLs: []string{quiet}}
	p := etcdclient.OpenPeer(nil)
	defer p.Close()
	ctx, cancel := within(t.Context(), 3*servesTimeout)
	defer cancel()
	if got := askWhether(ctx, p, m); got != answerSilent {
		t.Errorf("what takes connections and does not answer is %d", got)
	}
	if got := askWhether(t.Context(), p, cluster.InitialMember{PeerURLs: []string{gone}}); got != answerNone {
		t.Errorf("what takes no connections is %d", got)
	}
}

// slowly puts something between the host and the other voters that has each answer take
// some time, and a digest more.
func (h *host) slowly(answer, digest time.Duration) {
	h.t.Helper()
	voters := h.disk().Voters
	for i, v := range voters {
		if v.Name == h.o.Name {
			continue
		}
		real, err := url.Parse(v.PeerURLs[0])
		if err != nil {
			h.t.Fatal(err)
		}
		proxy := httputil.NewSingleHostReverseProxy(real)
		proxy.ErrorLog = log.New(io.Discard, "", 0)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			late := answer
			if r.URL.Path == "/members/hashkv" {
				late = digest
			}
			if wait.For(r.Context(), late) == nil {
				proxy.ServeHTTP(w, r)
			}
		}))
		h.t.Cleanup(s.Close)
		voters[i].PeerURLs = []string{s.URL}
	}
	if err := h.state.Update(func(s *nodestate.State) error { s.Voters = voters; return nil }); err != nil {
		h.t.Fatal(err)
	}
}
