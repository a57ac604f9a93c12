package nodeobserve

import (
	"context"
	"crypto/tls"
	"slices"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

func TestWhereTheOwnEtcdIsAsked(t *testing.T) {
	for _, tc := range []struct{ client, listen, want string }{
		{"https://a.example.com:4001", "", "https://127.0.0.1:4001"},
		{"https://a.example.com:4001", "0.0.0.0", "https://127.0.0.1:4001"},
		{"https://[fd00::a]:4001", "::", "https://[::1]:4001"},
		{"http://10.0.0.1:4001", "10.0.0.1", "http://10.0.0.1:4001"},
		{"https://a:4001", "fd00::a", "https://[fd00::a]:4001"},
		{"https://a:4001", "localhost", "https://a:4001"},
		{"://", "0.0.0.0", "://"},
	} {
		if got := localURL(tc.client, tc.listen); got != tc.want {
			t.Errorf("%s, listening on %q, is asked at %s, want %s", tc.client, tc.listen, got, tc.want)
		}
	}
}

func TestHowLongTheOwnEtcdIsWaitedFor(t *testing.T) {
	o := New(Options{})
	within := func(d time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		t.Cleanup(cancel)
		return ctx
	}
	for _, tc := range []struct {
		name     string
		ctx      context.Context
		age      time.Duration
		min, max time.Duration
	}{
		{"one that has run for long", t.Context(), time.Minute, ReportTimeout, ReportTimeout},
		{"one that has just started", t.Context(), time.Second, startingTimeout, startingTimeout},
		{"for somebody with little time", within(time.Second), time.Minute, 400 * time.Millisecond, 500 * time.Millisecond},
		{"for somebody with no time", within(0), time.Minute, -time.Second, 0},
	} {
		if got := o.timeout(tc.ctx, tc.age < startingAge); got < tc.min || got > tc.max {
			t.Errorf("%s is waited for %s", tc.name, got)
		}
	}
}

func TestAMemberIsStartedForItsRecord(t *testing.T) {
	own := cluster.URLs{Peer: []string{"https://a.new:2390"}, Client: []string{"https://a.new:4001"}}
	given := []cluster.InitialMember{
		{Name: "a", PeerURLs: []string{"http://127.0.0.1:1"}}, {Name: "b", PeerURLs: []string{"http://b:1"}},
	}
	keys := new(fakeTLS)
	for _, c := range []struct {
		what string
		tls  interface{ Client() *tls.Config }
		s    nodestate.State
		want string
	}{
		{"nothing is known", keys, nodestate.State{}, "https://a.new:2390"},
		{"what it was given at its start", keys, nodestate.State{Peers: given}, "http://127.0.0.1:1"},
		{"what its member reported last", keys, nodestate.State{Peers: given,
			Voters: []cluster.InitialMember{
				{Name: "b", PeerURLs: []string{"https://b:1"}}, {Name: "a", PeerURLs: []string{"https://a:1"}},
			},
		}, "https://a:1"},
		{"without keys no TLS", nil, nodestate.State{
			Voters: []cluster.InitialMember{{Name: "a", PeerURLs: []string{"https://a:1"}}},
		}, "https://a.new:2390"},
	} {
		o := New(Options{Name: "a", URLs: own, TLS: c.tls})
		got := o.Served(c.s)
		if !slices.Equal(got.Peer, []string{c.want}) || !slices.Equal(got.Client, own.Client) {
			t.Errorf("%s: it is started for %+v, want %s", c.what, got, c.want)
		}
	}
}
