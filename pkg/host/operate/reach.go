package operate

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// reachTime is how long a member may take to connect to a machine that joins. It tries ten times a
// second, and gives up a try that is not answered after its election timeout and a second.
const reachTime = 5 * time.Second

// meetPeers begins to listen for the members at the peer port of this machine, whose etcd does not
// run yet. Where it cannot, as when etcd has the port, the members are asked later.
func (m *Machine) meetPeers(ctx context.Context) {
	if m.peers == nil {
		if p, err := listenPeers(ctx, machine.Peers(m.cfg)); err == nil {
			m.peers = p
		}
	}
}

// leavePeers ends that.
func (m *Machine) leavePeers() {
	m.peers.close()
	m.peers = nil
}

// metPeers waits, before this machine's learner is started, until every voter that answers has
// connected to its peer port. A learner that some do not reach is not started: whoever asks it for
// its health meanwhile would find one that is to be undone.
// It returns the machine's record, where the voters that have are written.
func (m *Machine) metPeers(ctx context.Context, goal machine.Goal, obs machine.Observation) (machine.Record, error) {
	self, voters := machine.Connecting(goal, m.cfg, obs)
	if voters = m.answering(ctx, voters); len(voters) == 0 || obs.Local != nil {
		m.leavePeers()
		return obs.Record, nil
	}
	m.meetPeers(ctx)
	if m.peers == nil {
		return obs.Record, nil
	}
	defer m.leavePeers()
	limited, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	missing := m.peers.await(limited, voters, func(missing []cluster.Member) {
		m.say(machine.PeerPortClosed, "not yet connected to this machine's peer port: "+names(missing), time.Now())
	})
	if err := ctx.Err(); err != nil {
		return obs.Record, err
	}
	if m.peers.nobody() && !m.hasAddress() {
		return obs.Record, nil // it is reached at an address that this process does not see: the members are asked
	}
	seen := fmt.Sprintf("no connection within %s", reachTime)
	if why := m.peers.problem(); why != "" {
		seen += "; " + why
	}
	if why := machine.Unreached(m.cfg, m.serving(ctx, missing), seen); why != nil {
		return obs.Record, why
	}
	came := slices.DeleteFunc(voters, func(v cluster.Member) bool {
		return slices.ContainsFunc(missing, func(m cluster.Member) bool { return m.ID == v.ID })
	})
	record := obs.Record.WithReached(self.ID, came)
	return record, writeRecord(m.cfg, record)
}

// answering returns which members answer their clients. One that did not in the last observation is
// asked once more: it may be slow.
func (m *Machine) answering(ctx context.Context, members []cluster.Member) []cluster.Member {
	var healthy, others []cluster.Member
	for _, member := range members {
		if member.Healthy {
			healthy = append(healthy, member)
		} else {
			others = append(others, member)
		}
	}
	return append(healthy, m.serving(ctx, others)...)
}

// serving returns which members answer their clients now.
func (m *Machine) serving(ctx context.Context, members []cluster.Member) []cluster.Member {
	errs := make([]error, len(members))
	var all sync.WaitGroup
	for i, member := range members {
		all.Go(func() { _, errs[i] = m.report(ctx, member.ClientURLs) })
	}
	all.Wait()
	var serving []cluster.Member
	for i, member := range members {
		if errs[i] == nil {
			serving = append(serving, member)
		}
	}
	return serving
}

// hasAddress says whether the machine's address is one of its interfaces'.
func (m *Machine) hasAddress() bool {
	u, err := url.Parse(machine.URLs(m.cfg).Peer[0])
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return ip == nil || ip.IsLoopback() || slices.Contains(addresses(), ip.String())
}

func names(members []cluster.Member) string {
	list := make([]string, len(members))
	for i, m := range members {
		list[i] = name(m)
	}
	return strings.Join(list, ", ")
}

// reaching says of each voter, as its own etcd does, whether it reaches a learner.
func reaching(ctx context.Context, conf *tls.Config, learner cluster.MemberID, voters []cluster.Member) (
	seen map[cluster.MemberID]machine.Reach) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	found := make([]machine.Reach, len(voters))
	var all sync.WaitGroup
	for i, v := range voters {
		if len(v.ClientURLs) == 0 {
			continue
		}
		all.Go(func() {
			active, err := etcdclient.ActivePeers(ctx, v.ClientURLs[0], conf, v.ID)
			found[i] = reach(active, err, v, learner)
		})
	}
	all.Wait()
	seen = map[cluster.MemberID]machine.Reach{}
	for i, v := range voters {
		seen[v.ID] = found[i]
	}
	return seen
}

// reach is what a member's answer says. From 3.4 on it has no number for a member that it has never
// reached.
func reach(active map[cluster.MemberID]bool, err error, from cluster.Member, to cluster.MemberID) machine.Reach {
	is, reports := active[to]
	switch {
	case err != nil || !reports && !from.Version.AtLeast(3, 4):
		return machine.ReachUnknown
	case is:
		return machine.Reached
	}
	return machine.NotReached
}

// addConnected puts what this machine's kernel shows over what the members' etcds say.
func (m *Machine) addConnected(ctx context.Context, seen map[cluster.MemberID]machine.Reach, members []cluster.Member) {
	for id, r := range m.connected(ctx, members) {
		if r != machine.ReachUnknown {
			seen[id] = r
		}
	}
}

// askReach asks the voters whether they reach a learner, again and again for a time while some say
// that they do not. It returns those, and the voters of which nothing is known. Here says that the
// learner is this machine's.
func (m *Machine) askReach(ctx context.Context, learner cluster.MemberID, voters []cluster.Member, here bool,
	limit time.Duration) (closed, unknown []cluster.Member) {
	conf, err := m.credentials()
	if err != nil {
		return nil, voters
	}
	for began := time.Now(); ; {
		seen := reaching(ctx, conf, learner, voters)
		if here {
			m.addConnected(ctx, seen, voters)
		}
		closed, unknown = machine.StillNotReached(voters, seen), machine.ReachNotKnown(voters, seen)
		if len(closed) == 0 || time.Since(began) > limit || wait.For(ctx, pause/5) != nil {
			return closed, unknown
		}
	}
}

// mayVote says why a learner does not get its vote now: a voter does not reach its peer port. Those
// that were seen to connect before etcd started are not asked.
func (m *Machine) mayVote(ctx context.Context, goal machine.Goal, obs machine.Observation,
	op *machine.Membership) error {
	promote, ok := op.Operation.(*plan.Promote)
	if !ok || goal.Action != machine.Join || goal.AnyPeerPorts {
		return nil
	}
	if machine.Helps(m.cfg, op) {
		return m.otherMayVote(ctx, obs, promote)
	}
	self, voters := machine.Connecting(goal, m.cfg, obs)
	if voters = m.answering(ctx, voters); len(voters) == 0 {
		return nil
	}
	closed, unknown := m.askReach(ctx, self.ID, voters, true, apartGrace)
	if err := ctx.Err(); err != nil {
		return err
	}
	if why := machine.Unreached(m.cfg, closed, "its etcd reports no connection"); why != nil {
		return why
	}
	m.warnReachUnknown(unknown)
	return nil
}

// otherMayVote is for the learner of another machine, which has served for a while.
func (m *Machine) otherMayVote(ctx context.Context, obs machine.Observation, op *plan.Promote) error {
	i := slices.IndexFunc(obs.Remote.Members, func(o cluster.Member) bool { return o.Name == op.Name })
	if i < 0 {
		return nil
	}
	learner := obs.Remote.Members[i]
	voters := slices.DeleteFunc(slices.Clone(obs.Remote.Members), func(o cluster.Member) bool {
		return o.Learner || !o.Healthy
	})
	closed, _ := m.askReach(ctx, learner.ID, voters, false, 0)
	if why := machine.OthersUnreached(learner, closed); why != nil {
		return why
	}
	return nil
}

// warnReachUnknown names the voters of which nothing is known, once.
func (m *Machine) warnReachUnknown(unknown []cluster.Member) {
	if len(unknown) > 0 && m.o.Warned != nil && !m.warnedReach {
		m.warnedReach = true
		m.o.Warned("PeerPorts", "it is not known whether this machine's peer port is reached by "+names(unknown))
	}
}
