package observe

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// sources answer at once, for the nodes a, b and c; change makes some of them
// do otherwise.
func sources(change func(*Sources)) Sources {
	s := Sources{
		Cluster: "main", Observer: "a", Now: time.Now, Nonce: func() cluster.Token { return "nonce" },
		Peers: func() []Peer { return []Peer{{Name: "a"}, {Name: "b"}, {Name: "c"}} },
		Ask: func(_ context.Context, p Peer) (cluster.Answer, error) {
			return cluster.Answer{Node: cluster.Node{Name: p.Name}, Now: time.Now()}, nil
		},
		Store: func(context.Context) StoreAnswer { return StoreAnswer{} },
		Probe: func(context.Context, []string, string) (cluster.Report, error) {
			return cluster.Report{}, errors.New("refused")
		},
	}
	change(&s)
	return s
}

// hang waits for the end of the context, as a source does that does not answer.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// collect observes once in a bubble of its own time.
func collect(t *testing.T, s Sources, prev cluster.Observation) (cluster.Observation, time.Duration) {
	t.Helper()
	began := time.Now()
	obs := Collect(t.Context(), s, prev)
	return obs, time.Since(began)
}

func TestAHangingSourceIsAGapAtItsDeadline(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Sources)
		gaps   string
	}{
		{"one node", func(s *Sources) {
			ask := s.Ask
			s.Ask = func(ctx context.Context, p Peer) (cluster.Answer, error) {
				if p.Name == "b" {
					return cluster.Answer{}, hang(ctx)
				}
				return ask(ctx, p)
			}
		}, "node b"},
		{"the store", func(s *Sources) {
			s.Store = func(ctx context.Context) StoreAnswer { return StoreAnswer{Err: hang(ctx)} }
		}, "store"},
		{"everything", func(s *Sources) {
			s.Ask = func(ctx context.Context, _ Peer) (cluster.Answer, error) { return cluster.Answer{}, hang(ctx) }
			s.Store = func(ctx context.Context) StoreAnswer { return StoreAnswer{Err: hang(ctx)} }
		}, "node a, node b, node c, store"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				obs, took := collect(t, sources(tc.change), cluster.Observation{})
				equal(t, "gaps", gapSources(obs), tc.gaps)
				equal(t, "time", took, timeout)
				equal(t, "text", obs.Gaps[0].Text, context.DeadlineExceeded.Error())
			})
		})
	}
}

func TestASlowAnswerInTimeIsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		obs, took := collect(t, sources(func(s *Sources) {
			s.Ask = func(_ context.Context, p Peer) (cluster.Answer, error) {
				time.Sleep(timeout - time.Millisecond)
				return cluster.Answer{Now: time.Now()}, nil
			}
		}), cluster.Observation{})
		equal(t, "gaps", gapSources(obs), "")
		equal(t, "time", took, timeout-time.Millisecond)
		equal(t, "skew of a slow answer", nodeOf(t, obs, "b").ClockSkew, (timeout-time.Millisecond)/2)
	})
}

func TestAllSourcesAreAskedAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		release := make(chan struct{})
		wait := func() {
			asked.Add(1)
			<-release
		}
		s := sources(func(s *Sources) {
			s.Ask = func(context.Context, Peer) (cluster.Answer, error) {
				wait()
				return cluster.Answer{Now: time.Now()}, nil
			}
			s.Store = func(context.Context) StoreAnswer { wait(); return StoreAnswer{} }
		})
		done := make(chan cluster.Observation)
		go func() { done <- Collect(t.Context(), s, cluster.Observation{}) }()
		synctest.Wait()
		equal(t, "questions under way", asked.Load(), int32(4))
		close(release)
		equal(t, "gaps", gapSources(<-done), "")
	})
}

// member is a member of the last observation, on the node of its name.
func member(id cluster.MemberID, name cluster.NodeName, urls ...string) cluster.Member {
	return cluster.Member{ID: id, Name: name, ClientURLs: urls}
}

func TestOnlyMembersOfUnreachableNodesAreProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var urls atomic.Value
		s := sources(func(s *Sources) {
			s.Ask = func(_ context.Context, p Peer) (cluster.Answer, error) {
				if p.Name != "a" {
					return cluster.Answer{}, errors.New("refused")
				}
				return cluster.Answer{Node: cluster.Node{Assigned: &cluster.Assigned{Token: "t1"}}, Report: report(1, 1, 2),
					Now: time.Now()}, nil
			}
			s.Probe = func(_ context.Context, u []string, _ string) (cluster.Report, error) {
				if urls.Swap(u[0]) != nil {
					t.Errorf("a second member is probed, at %v", u)
				}
				return *report(2, 1, 2), nil
			}
		})
		prev := cluster.Observation{
			Token: "t1",
			Nodes: []cluster.Node{{Name: "a", Reachable: true}, {Name: "b"}},
			Members: []cluster.Member{
				member(1, "a", "http://a"),  // its node answered the last observation
				member(2, "b", "http://b2"), // its node was unreachable
				member(3, "c"),              // never started: nowhere to ask
			},
		}
		obs, took := collect(t, s, prev)
		equal(t, "probed", urls.Load(), any("http://b2"))
		equal(t, "healthy", healthyNames(obs), "a b")
		equal(t, "time", took, time.Duration(0))
	})
}

// All members advertise one URL, which leads to any of them, or nowhere. Each is asked at the
// address of its node, or at the host of its peer URL, as the one that its certificate names.
func TestMembersWithTheURLOfAllAreProbedThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked []string
		s := sources(func(s *Sources) {
			s.Peers = func() []Peer { return nil }
			s.Probe = func(_ context.Context, u []string, host string) (cluster.Report, error) {
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, strings.Join(u, " ")+" as "+host)
				return cluster.Report{}, errors.New("refused")
			}
		})
		prev := cluster.Observation{Nodes: []cluster.Node{{Name: "a", Address: "10.0.0.1:3996"}, {Name: "b"}}}
		for i, name := range []cluster.NodeName{"a", "b", "c"} {
			m := member(cluster.MemberID(i+1), name, "https://all:4001")
			m.PeerURLs = []string{"https://etcd-" + string(name) + ":2380"}
			prev.Members = append(prev.Members, m)
		}
		collect(t, s, prev)
		slices.Sort(asked)
		equal(t, "asked", strings.Join(asked, ", "),
			"https://10.0.0.1:4001 as all, https://etcd-b:4001 as all, https://etcd-c:4001 as all")
	})
}

func TestMembersWithoutAKnownNodeAreProbedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		probes := atomic.Int32{}
		s := sources(func(s *Sources) {
			s.Peers = func() []Peer { return nil }
			s.Probe = func(context.Context, []string, string) (cluster.Report, error) {
				probes.Add(1)
				return cluster.Report{}, errors.New("refused")
			}
		})
		collect(t, s, cluster.Observation{Members: []cluster.Member{member(1, "x", "http://x"), member(2, "y", "http://y")}})
		equal(t, "probes", probes.Load(), int32(2))
	})
}

func TestHangingProbesEndAtTheirDeadlineTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sources(func(s *Sources) {
			s.Ask = func(ctx context.Context, _ Peer) (cluster.Answer, error) { return cluster.Answer{}, hang(ctx) }
			s.Probe = func(ctx context.Context, _ []string, _ string) (cluster.Report, error) {
				return cluster.Report{}, hang(ctx)
			}
		})
		_, took := collect(t, s, cluster.Observation{
			Members: []cluster.Member{member(1, "a", "http://a"), member(2, "b", "http://b")},
		})
		equal(t, "time", took, timeout)
	})
}

func TestNodesOfWhichLittleIsExpectedAreWaitedForLessLong(t *testing.T) {
	slow := func(s *Sources) {
		s.Store = func(context.Context) StoreAnswer { time.Sleep(time.Second); return StoreAnswer{} }
	}
	for name, tc := range map[string]struct {
		change func(s *Sources, prev *cluster.Observation)
		want   time.Duration
		text   string
	}{
		"in the last observation": {func(_ *Sources, prev *cluster.Observation) {
			prev.Nodes = []cluster.Node{{Name: "a"}}
		}, unreachableTimeout, context.DeadlineExceeded.Error()},
		"and run what a restore has ended": {func(_ *Sources, prev *cluster.Observation) {
			prev.Nodes = []cluster.Node{{Name: "a", Reachable: true, Assigned: &cluster.Assigned{Token: "old"}}}
			prev.Store.Incarnations = []cluster.Incarnation{
				{Number: 1, Token: "old"}, {Number: 2, Token: "new", Restored: &cluster.Restored{}},
			}
		}, unreachableTimeout, context.DeadlineExceeded.Error()},
		"which answered a second ago": {func(_ *Sources, prev *cluster.Observation) {
			runsWhatHasEnded(prev, time.Now().Add(-time.Second))
		}, unreachableTimeout, context.DeadlineExceeded.Error()},
		"but now and then a slow machine gets its time": {func(_ *Sources, prev *cluster.Observation) {
			runsWhatHasEnded(prev, time.Now().Add(-4*time.Second))
		}, timeout, context.DeadlineExceeded.Error()},
		"and again": {func(_ *Sources, prev *cluster.Observation) {
			runsWhatHasEnded(prev, time.Now().Add(-9500*time.Millisecond))
		}, timeout, context.DeadlineExceeded.Error()},
		"not one that is gone to the gossip": {func(s *Sources, prev *cluster.Observation) {
			s.Peers = func() []Peer { return []Peer{{Name: "a", Unreachable: true}} }
			runsWhatHasEnded(prev, time.Now().Add(-4*time.Second))
		}, lateTime, errLate.Error()},
		"to the gossip": {func(s *Sources, _ *cluster.Observation) {
			s.Peers = func() []Peer { return []Peer{{Name: "a", Unreachable: true}} }
		}, lateTime, errLate.Error()},
		"to the gossip, and its member too": {func(s *Sources, prev *cluster.Observation) {
			s.Peers = func() []Peer { return []Peer{{Name: "a", Unreachable: true}} }
			s.Probe = func(ctx context.Context, _ []string, _ string) (cluster.Report, error) {
				return cluster.Report{}, hang(ctx)
			}
			prev.Members = []cluster.Member{member(1, "a", "http://a")}
		}, lateTime, errLate.Error()},
		"to the gossip, while another source is slow": {func(s *Sources, _ *cluster.Observation) {
			s.Peers = func() []Peer { return []Peer{{Name: "a", Unreachable: true}} }
			slow(s)
		}, time.Second, context.DeadlineExceeded.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var prev cluster.Observation
				s := sources(func(s *Sources) {
					s.Peers = func() []Peer { return []Peer{{Name: "a"}} }
					s.Ask = func(ctx context.Context, _ Peer) (cluster.Answer, error) { return cluster.Answer{}, hang(ctx) }
					tc.change(s, &prev)
				})
				obs, took := collect(t, s, prev)
				equal(t, "time", took, tc.want)
				equal(t, "text", obs.Gaps[0].Text, tc.text)
			})
		})
	}
}

// runsWhatHasEnded has node a, which answered last at seen, run what a restore has ended.
func runsWhatHasEnded(prev *cluster.Observation, seen time.Time) {
	prev.Nodes = []cluster.Node{{Name: "a", Assigned: &cluster.Assigned{Token: "old"}, LastSeen: seen}}
	prev.Store.Incarnations = []cluster.Incarnation{
		{Number: 1, Token: "old"}, {Number: 2, Token: "new", Restored: &cluster.Restored{}},
	}
}

func TestAnObservationWithoutProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sources(func(s *Sources) { s.Probe, s.Peers = nil, func() []Peer { return nil } })
		obs, _ := collect(t, s, cluster.Observation{Members: []cluster.Member{member(1, "a", "http://a")}})
		equal(t, "members", len(obs.Members), 0)
	})
}

func TestAnObservationThatIsCalledOffEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := sources(func(s *Sources) {
			s.Ask = func(ctx context.Context, _ Peer) (cluster.Answer, error) { return cluster.Answer{}, hang(ctx) }
		})
		time.AfterFunc(300*time.Millisecond, cancel)
		began := time.Now()
		obs := Collect(ctx, s, cluster.Observation{})
		equal(t, "time", time.Since(began), 300*time.Millisecond)
		equal(t, "gaps", gapSources(obs), "node a, node b, node c")
	})
}
