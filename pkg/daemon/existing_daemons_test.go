package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/discovery"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/store"
)

func TestNeighboursAreHeardForAWhile(t *testing.T) {
	now := time.Now()
	n := newNeighbours(time.Minute, func() time.Time { return now })
	n.noteForeignCall(rpc.Caller{Name: "x"}, "10.0.0.1", "/privateapi.ClusterService/Ping")
	n.noteForeignCall(rpc.Caller{}, "10.0.0.2", "/etcd.EtcdManagerService/GetInfo")
	n.noteForeignCall(rpc.Caller{Name: "y"}, "10.0.0.3", "/grpc.health.v1.Health/Check")
	want := func(existing, unreachable []string, listened bool) {
		t.Helper()
		s := n.say()
		if !slices.Equal(s.Existing, existing) || !slices.Equal(s.Unreachable, unreachable) || s.Listened != listened {
			t.Errorf("it says %+v", s)
		}
	}
	want([]string{"10.0.0.2", "x"}, nil, false)
	now = now.Add(time.Minute)
	want([]string{"10.0.0.2", "x"}, nil, false) // nobody has been asked
	at := func(addresses ...string) (list []discovery.Machine) {
		for _, a := range addresses {
			list = append(list, discovery.Machine{Addresses: []string{a}})
		}
		return list
	}
	n.ask(t.Context(), at("1:1", "2:2", "3:3"), func(_ context.Context, address string) error {
		return map[string]error{
			"2:2": fmt.Errorf("hello: %w", rpc.ErrUnimplemented), "3:3": errors.New("connection refused"),
		}[address]
	})
	want([]string{"10.0.0.2", "2:2", "x"}, []string{"3:3"}, true)
	now = now.Add(time.Minute)
	want([]string{"2:2"}, []string{"3:3"}, true)
	n.ask(t.Context(), at("2:2"), func(context.Context, string) error { return nil })
	now = now.Add(time.Second)
	want(nil, nil, true)
}

// TestAMachineAnswersAtOneOfItsAddresses: clouds return all addresses of all interfaces of a
// machine, and its daemon listens at one of them.
func TestAMachineAnswersAtOneOfItsAddresses(t *testing.T) {
	n := newNeighbours(time.Minute, time.Now)
	machines := []discovery.Machine{
		{Name: "b", Addresses: []string{"b:1", "b:2", "b:3"}}, {Name: "c", Addresses: []string{"c:1", "c:2"}},
		{Name: "d", Addresses: []string{"d:1", "d:2"}},
	}
	var mu sync.Mutex
	var asked []string
	answers := map[string]error{"b:2": nil, "c:2": fmt.Errorf("hello: %w", rpc.ErrUnimplemented)}
	hello := func(_ context.Context, address string) error {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, address)
		if err, there := answers[address]; there {
			return err
		}
		return errors.New("connection refused")
	}
	ask := func(wantAsked, existing, unreachable string) {
		t.Helper()
		asked = nil
		n.ask(t.Context(), machines, hello)
		slices.Sort(asked)
		s := n.say()
		if got := strings.Join(asked, " "); got != wantAsked || strings.Join(s.Existing, ", ") != existing ||
			strings.Join(s.Unreachable, ", ") != unreachable {
			t.Errorf("asked %s; it says %+v", got, s)
		}
	}
	ask("b:1 b:2 b:3 c:1 c:2 d:1 d:2", "c:2", "d:1 or d:2")
	// Where a daemon has answered, it is asked again; the others are not called all the time.
	ask("b:2 c:2 d:1 d:2", "c:2", "d:1 or d:2")
	delete(answers, "b:2")
	answers["b:3"], answers["d:1"] = nil, nil
	ask("b:1 b:2 b:2 b:3 c:2 d:1 d:2", "c:2", "")
}

// TestNobodyAdoptsWhatTheOthersContradict: a node asks its own store and the other voters,
// whoever gives the order.
func TestNobodyAdoptsWhatTheOthersContradict(t *testing.T) {
	at := time.Now()
	three := []cluster.NodeName{"a", "b", "c"}
	record := func(token cluster.Token, names ...cluster.NodeName) cluster.Incarnation {
		i := cluster.Incarnation{Number: 1, Token: token, At: at}
		for _, n := range names {
			i.Voters = append(i.Voters, cluster.InitialMember{Name: n})
		}
		return i
	}
	standing := func(e cluster.LeaseVoters) lease.Standing { return lease.Standing{LeaseVoters: e} }
	restored := record("t", three...)
	restored.Restored = &cluster.Restored{}
	fine := store.View{Incarnations: []cluster.Incarnation{record("t", three...)}, Created: at.Add(-time.Hour)}
	nobody := map[cluster.NodeName]lease.Standing{"b": {}, "c": standing(cluster.LeaseVoters{Token: "t", Names: three})}
	for name, c := range map[string]struct {
		view    store.View
		answers map[cluster.NodeName]lease.Standing
		may     bool
	}{
		"all agree":                 {fine, nobody, true},
		"no record":                 {store.View{}, nobody, false},
		"a record of another":       {store.View{Incarnations: []cluster.Incarnation{record("u", three...)}}, nobody, false},
		"a record of other voters":  {store.View{Incarnations: []cluster.Incarnation{record("t", "a", "b")}}, nobody, false},
		"a record of a restore":     {store.View{Incarnations: []cluster.Incarnation{restored}}, nobody, false},
		"a coordinator was at work": {store.View{Incarnations: fine.Incarnations, Created: at}, nobody, false},
		"nobody knows of a marker": {
			store.View{Incarnations: fine.Incarnations, Created: cluster.MarkerUnknown}, nobody, false,
		},
		"one does not answer": {fine, map[cluster.NodeName]lease.Standing{"b": {}}, false},
		"one has a later record": {fine, map[cluster.NodeName]lease.Standing{
			"b": {}, "c": standing(cluster.LeaseVoters{Token: "t", Seq: 1, Names: three}),
		}, false},
		"one has other names": {fine, map[cluster.NodeName]lease.Standing{
			"b": {}, "c": standing(cluster.LeaseVoters{Token: "t", Names: three[1:]}),
		}, false},
		"one had lease voters before": {fine, map[cluster.NodeName]lease.Standing{
			"b": {}, "c": standing(cluster.LeaseVoters{Token: "t0", Term: 7, Names: three[1:]}),
		}, true},
	} {
		a := &authority{self: "a", ask: func(_ context.Context, n cluster.NodeName) (lease.Standing, error) {
			s, ok := c.answers[n]
			if !ok {
				return s, errors.New("no answer")
			}
			return s, nil
		}}
		why := a.unadoptable(t.Context(), &plan.LeaseVotersAdopt{Node: "a", Token: "t", Names: three}, c.view)
		if (why == "") != c.may {
			t.Errorf("%s: %q", name, why)
		}
	}
}
