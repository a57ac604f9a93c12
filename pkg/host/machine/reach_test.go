package machine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// joining returns a machine whose learner is in the list of a cluster of three.
func joining() machine.Observation {
	obs := withCA()
	down := healthy("d", 0xd, "10.0.0.4")
	down.Healthy = false
	self := cluster.Member{ID: 0xb, PeerURLs: []string{"https://10.0.0.2:2380"}, Learner: true}
	obs.Remote = answering(healthy("a", 0xa, "10.0.0.1"), healthy("c", 0xc, "10.0.0.3"), down, self)
	return obs
}

// Before a learner votes, the voters have to connect; nobody has to where the machine is none,
// where a person goes on, and who was seen to.
func TestWhoHasToConnect(t *testing.T) {
	for what, tc := range map[string]struct {
		change func(*machine.Goal, *machine.Observation)
		want   string
	}{
		"a join":            {func(*machine.Goal, *machine.Observation) {}, "acd"},
		"its health":        {func(g *machine.Goal, _ *machine.Observation) { g.Phase = "health" }, "acd"},
		"an init":           {func(g *machine.Goal, _ *machine.Observation) { g.Action = machine.Init }, ""},
		"a reset":           {func(g *machine.Goal, _ *machine.Observation) { g.Action = machine.Reset }, ""},
		"a person goes on":  {func(g *machine.Goal, _ *machine.Observation) { g.AnyPeerPorts = true }, ""},
		"nobody answers":    {func(_ *machine.Goal, o *machine.Observation) { o.Remote.Answered = false }, ""},
		"a voter":           {func(_ *machine.Goal, o *machine.Observation) { o.Remote.Members[3].Learner = false }, ""},
		"not in the list":   {func(_ *machine.Goal, o *machine.Observation) { o.Remote.Members = o.Remote.Members[:3] }, ""},
		"another learner":   {func(_ *machine.Goal, o *machine.Observation) { o.Remote.Members[1].Learner = true }, "ad"},
		"one was seen to":   {func(_ *machine.Goal, o *machine.Observation) { o.Record = saw(o, 0xb, 0) }, "cd"},
		"seen of an old ID": {func(_ *machine.Goal, o *machine.Observation) { o.Record = saw(o, 0xbb, 0, 1) }, "acd"},
		"seen one by one": {func(_ *machine.Goal, o *machine.Observation) {
			o.Record = saw(o, 0xb, 0)
			o.Record = saw(o, 0xb, 1)
		}, "d"},
	} {
		t.Run(what, func(t *testing.T) {
			goal, obs := machine.Goal{Action: machine.Join}, joining()
			tc.change(&goal, &obs)
			_, voters := machine.Connecting(goal, desired(), obs)
			got := ""
			for _, v := range voters {
				got += string(v.Name)
			}
			if got != tc.want {
				t.Errorf("%q have to connect, want %q", got, tc.want)
			}
		})
	}
}

func saw(o *machine.Observation, self cluster.MemberID, voters ...int) machine.Record {
	var came []cluster.Member
	for _, i := range voters {
		came = append(came, o.Remote.Members[i])
	}
	return o.Record.WithReached(self, came)
}

// The hold names each pair, with addresses and the port, and how to go on. Who reaches the machine, and of
// whom nothing is known, is not in it.
func TestUnreachedSaysWhoWhereAndWhatToDo(t *testing.T) {
	voters := joining().Remote.Members[:3]
	seen := map[cluster.MemberID]machine.Reach{0xa: machine.NotReached, 0xc: machine.Reached}
	closed, unknown := machine.StillNotReached(voters, seen), machine.ReachNotKnown(voters, seen)
	if len(closed) != 1 || closed[0].ID != 0xa || len(unknown) != 1 || unknown[0].ID != 0xd {
		t.Fatalf("closed %+v, unknown %+v", closed, unknown)
	}
	why := machine.Unreached(desired(), closed, "it is tried")
	if why == nil || why.Reason != machine.PeerPortClosed || why.Kind() != "held" || why.Wait || why.Momentary ||
		why.Text != "member a (https://10.0.0.1:2380) does not reach the peer port of this machine "+
			"(https://10.0.0.2:2380): it is tried" {
		t.Fatalf("%+v", why)
	}
	for _, want := range []string{"open TCP port 2380 of this machine for 10.0.0.1,", "--ignore-preflight-errors=PeerPorts"} {
		if !strings.Contains(why.Next, want) {
			t.Errorf("no %q in %q", want, why.Next)
		}
	}
	two := machine.Unreached(desired(), voters[:2], "x")
	if !strings.HasPrefix(two.Text, "members a (https://10.0.0.1:2380), c (https://10.0.0.3:2380) do not reach ") {
		t.Errorf("%s", two.Text)
	}
	if why := machine.Unreached(desired(), nil, "x"); why != nil {
		t.Errorf("%v", why)
	}
	if why := machine.OthersUnreached(voters[1], closed); why == nil || !why.Wait || !why.Others ||
		!strings.Contains(why.Text, "by a") {
		t.Errorf("%+v", why)
	}
	if why := machine.OthersUnreached(voters[1], nil); why != nil {
		t.Errorf("%v", why)
	}
}

// What stands in for etcd listens where etcd will, with the files that it will have.
func TestWhereThePeersAreTaken(t *testing.T) {
	e := machine.Peers(desired())
	if !slices.Equal(e.URLs, []string{"https://10.0.0.2:2380"}) || e.CA != "/etc/etcd/pki/ca.crt" ||
		e.Cert != "/etc/etcd/pki/peer.crt" || e.Key != "/etc/etcd/pki/peer.key" {
		t.Errorf("%+v", e)
	}
	e = machine.Peers(desired(func(c *machine.Config) { c.Listen.PeerURLs = []string{"https://0.0.0.0:2380"} }))
	if !slices.Equal(e.URLs, []string{"https://0.0.0.0:2380"}) {
		t.Errorf("%+v", e)
	}
	e = machine.Peers(desired(func(c *machine.Config) {
		c.Etcd.Flags = map[string]string{"listen-peer-urls": "https://10.0.0.9:1,https://10.0.0.8:1", "peer-cert-file": "/x"}
	}))
	if !slices.Equal(e.URLs, []string{"https://10.0.0.9:1", "https://10.0.0.8:1"}) || e.Cert != "/x" {
		t.Errorf("%+v", e)
	}
}
