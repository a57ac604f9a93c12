// Package observe checks everything once and makes one value of it.
//
// [Collect] asks all sources at the same time, each with a deadline; a source
// that does not answer becomes a gap. [Merge] puts the answers together; it is
// pure, so what is made of strange answers can be tested without a network.
package observe

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A Peer is a node that is known to exist, from gossip or from a record.
type Peer struct {
	Name    cluster.NodeName
	Address string
	// Conflict is the address of a second daemon with this name.
	Conflict string
	// Unreachable says that the peer is not expected to answer. It is asked all the
	// same, and waited for less long.
	Unreachable bool
}

// A StoreAnswer is what the control store says, or said last.
type StoreAnswer struct {
	Store cluster.Store
	// Records are the nodes that have published themselves.
	Records []Record
	// Err says why this observation could not read the store.
	Err error
}

// A Record is a node's own entry in the control store.
type Record struct {
	Name    cluster.NodeName
	Address string
	Boot    cluster.Token
}

// Sources are what an observation asks. The functions may be called at the same time.
type Sources struct {
	Cluster  string
	Observer cluster.NodeName
	// Since is when the observer began to observe.
	Since time.Time
	Now   func() time.Time
	Nonce func() cluster.Token

	Peers func() []Peer
	// Ask asks one node.
	Ask func(ctx context.Context, p Peer) (cluster.Answer, error)
	// Store returns the store's answer; it may be a recent one.
	Store func(ctx context.Context) StoreAnswer
	// Probe asks a member whose node did not answer. Where its certificate has to be of a
	// name that is not in the URLs, that is host.
	Probe func(ctx context.Context, clientURLs []string, host string) (cluster.Report, error)
}

// A question has a deadline; a healthy answer takes milliseconds. What did not
// answer the last observation, or is not expected to, gets the shorter one: a machine
// that is off shall not make every observation slow. So does a node that still runs what a
// restore has ended: its member has lost the others, and waits for them in vain.
const (
	timeout            = 2 * time.Second
	unreachableTimeout = 500 * time.Millisecond
	// A node that runs what a restore has ended, and does not answer in the shorter time, gets the
	// longer one for fullTimeoutWindow in each fullTimeoutInterval: a slow machine would never be ordered to change over,
	// and clients would wait for it.
	fullTimeoutInterval = 5 * time.Second
	fullTimeoutWindow   = time.Second
	// lateTime is for how long after all others those are waited for whom nobody expects
	// to answer: the first observation of a new coordinator is not to wait for the machine
	// that was switched off with the last one.
	lateTime = 100 * time.Millisecond
)

// errLate is why a peer that was not expected to answer is not waited for any longer.
var errLate = errors.New("it was not expected to answer, and did not when the others had")

// An asked node is one question's outcome.
type asked struct {
	peer   Peer
	answer cluster.Answer
	err    error
	// sent and got enclose the answer, by the observer's clock.
	sent, got time.Time
}

// A probed member is one that was asked directly.
type probed struct {
	member cluster.Member
	report cluster.Report
	err    error
}

// Collect observes once. It takes no longer than the slowest source's deadline, waits
// for those that are not expected to answer only a little longer than for all others,
// and never fails: what did not answer is a gap. prev carries what was true
// before (since when a member is unhealthy, what an unreachable node said last).
func Collect(ctx context.Context, s Sources, prev cluster.Observation) cluster.Observation {
	var wg sync.WaitGroup
	var st StoreAnswer
	wg.Go(func() {
		sctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		st = s.Store(sctx)
	})
	peers := s.Peers()
	nodes := make([]asked, len(peers))
	late, end := context.WithCancelCause(ctx)
	defer end(nil)
	var unexpected sync.WaitGroup
	for i, p := range peers {
		if p.Unreachable {
			unexpected.Go(func() { nodes[i] = s.ask(late, p, prev) })
		} else {
			wg.Go(func() { nodes[i] = s.ask(ctx, p, prev) })
		}
	}
	var gone, there []probed
	off, others := split(unreachable(prev), peers)
	unexpected.Go(func() { gone = s.probe(late, off, prev) })
	wg.Go(func() { there = s.probe(ctx, others, prev) })
	wg.Wait()
	timer := time.AfterFunc(lateTime, func() { end(errLate) })
	defer timer.Stop()
	unexpected.Wait()
	probes := slices.Concat(gone, there)
	return Merge(inputs{sources: s, at: s.Now(), store: st, nodes: nodes, probes: probes}, prev)
}

// split returns the members on peers that are not expected to answer, and the others.
func split(members []cluster.Member, peers []Peer) (off, others []cluster.Member) {
	for _, m := range members {
		if slices.ContainsFunc(peers, func(p Peer) bool { return p.Name == m.Name && p.Unreachable }) {
			off = append(off, m)
		} else {
			others = append(others, m)
		}
	}
	return off, others
}

func (s Sources) ask(ctx context.Context, p Peer, prev cluster.Observation) asked {
	ctx, cancel := context.WithTimeout(ctx, s.timeFor(p, prev))
	defer cancel()
	a := asked{peer: p, sent: s.Now()}
	a.answer, a.err = s.Ask(ctx, p)
	if a.err != nil && errors.Is(context.Cause(ctx), errLate) {
		a.err = errLate
	}
	a.got = s.Now()
	return a
}

// timeFor returns how long a peer has to answer.
func (s Sources) timeFor(p Peer, prev cluster.Observation) time.Duration {
	i := slices.IndexFunc(prev.Nodes, func(n cluster.Node) bool { return n.Name == p.Name })
	if p.Unreachable {
		return unreachableTimeout
	}
	if i < 0 {
		return timeout
	}
	n := prev.Nodes[i]
	ended := n.Assigned != nil && prev.Ended(n.Assigned.Token)
	switch {
	case ended && !n.Reachable && whole(s.Now().Sub(n.LastSeen)):
		return timeout
	case ended, !n.Reachable:
		return unreachableTimeout
	}
	return timeout
}

// whole reports whether a node that has been unreachable for so long gets the whole time to
// answer. That its clock went back, or that it was never seen, is no reason against it.
func whole(unreachable time.Duration) bool {
	return unreachable < 0 || unreachable >= 365*24*time.Hour ||
		unreachable%fullTimeoutInterval >= fullTimeoutInterval-fullTimeoutWindow
}

// unreachable returns the members whose nodes did not answer the last observation, or got
// nothing out of their etcd: it may deny the one and not the other. They are
// asked themselves.
func unreachable(prev cluster.Observation) []cluster.Member {
	var list []cluster.Member
	for _, m := range prev.Members {
		answered := slices.ContainsFunc(prev.Nodes, func(n cluster.Node) bool {
			return n.Name == m.Name && n.Reachable && n.Process.NoReport == nil
		})
		if !answered && len(m.ClientURLs) > 0 {
			list = append(list, m)
		}
	}
	return list
}

func (s Sources) probe(ctx context.Context, members []cluster.Member, prev cluster.Observation) []probed {
	if s.Probe == nil {
		return nil
	}
	out := make([]probed, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, unreachableTimeout)
			defer cancel()
			out[i].member = m
			urls, host := endpoints(m, prev)
			out[i].report, out[i].err = s.Probe(ctx, urls, host)
		})
	}
	wg.Wait()
	return out
}

// endpoints returns the client URLs of a member at the address of its node, or else those
// that no other member has, and the name that its certificate has in any case: one that the
// existing etcd-manager has issued does not have the address.
func endpoints(m cluster.Member, prev cluster.Observation) (urls []string, host string) {
	urls = cluster.OwnURLs(m, prev.Members)
	for _, n := range prev.Nodes {
		if n.Name == m.Name {
			urls = cluster.URLsAt(urls, n.Address)
		}
	}
	if u, err := url.Parse(m.ClientURLs[0]); err == nil && urls[0] != m.ClientURLs[0] {
		host = u.Hostname()
	}
	return urls, host
}
