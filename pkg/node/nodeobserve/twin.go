package nodeobserve

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

const (
	// twinTimeout is for how long somebody at the member's old address is waited for. A
	// machine that is off does not answer.
	twinTimeout = 2 * time.Second
	// heartbeatInterval is etcd's default, with which a follower answers its leader.
	heartbeatInterval = 100 * time.Millisecond
)

// A TwinError is returned where the disk of this machine is a copy of another one, whose
// member runs, or has run later than this machine's. Two etcds with one member's id would
// both vote, and an older copy has forgotten what it has acknowledged.
type TwinError struct {
	Name cluster.NodeName
	ID   cluster.MemberID
	// Is says where the member is, as it follows its name.
	Is string
	// Off says that nobody answers there now.
	Off bool
}

func (e *TwinError) Error() string {
	if e.Off {
		return fmt.Sprintf("member %s (%s) %s, and the disk of this machine is an older copy of that member's: turn that "+
			"machine on; or, if it is lost, give this machine an empty data directory, and its member is replaced", e.Name, e.ID, e.Is)
	}
	return fmt.Sprintf("member %s (%s) %s, and the disk of this machine is a copy of that member's: give this machine an "+
		"empty data directory and another name; or, to replace the other one with it, turn that off and keep the name",
		e.Name, e.ID, e.Is)
}

// Twin reports that the member on this disk runs on another machine, or has moved to one.
// Whoever answers at the address that the member had is asked, where this machine has
// another one, and so are the other members: whether etcd looks for this one elsewhere,
// and whether they hear from it while it does not run here. If nobody answers, it is
// started, as after an outage of all.
func (o *Observer) Twin(ctx context.Context, s nodestate.State) error {
	if s.MemberID == 0 || o.opts.Status != nil && o.opts.Status().State == cluster.ProcessRunning {
		return nil
	}
	peer, err := o.peer()
	if err != nil {
		return err
	}
	defer peer.Close()
	if had := s.PeerURLs(o.opts.Name); len(had) > 0 && !cluster.SharePeerURL(had, o.opts.URLs.Peer) {
		if u := o.answers(ctx, peer, s.MemberID, had); u != "" {
			return &TwinError{Name: o.opts.Name, ID: s.MemberID, Is: "runs at " + u}
		}
	}
	voters := s.Voters
	if len(voters) == 0 {
		voters = s.Peers
	}
	lists := o.membersOf(ctx, peer, o.others(voters))
	if err := o.movedAway(ctx, peer, s, len(voters), lists); err != nil {
		return err
	}
	return o.heard(ctx, s.MemberID, lists)
}

// answers returns the first of the URLs at which the member of that id serves, "" for
// none.
func (o *Observer) answers(ctx context.Context, peer *etcdclient.Peer, id cluster.MemberID, urls []string) string {
	ctx, cancel := context.WithTimeout(ctx, twinTimeout)
	defer cancel()
	for _, u := range urls {
		members, err := peer.Members(ctx, u)
		// Whoever answers does not say which member it is. etcd gives an address to one member only.
		if err == nil && slices.ContainsFunc(members, func(m cluster.Member) bool {
			return m.ID == id && cluster.SharePeerURL(m.PeerURLs, []string{u})
		}) {
			return u
		}
	}
	return ""
}

// membersOf returns the member lists that members have, each as it has it on its disk.
func (o *Observer) membersOf(
	ctx context.Context, peer *etcdclient.Peer, of []cluster.InitialMember,
) [][]cluster.Member {
	ctx, cancel := context.WithTimeout(ctx, servesTimeout)
	defer cancel()
	return ask(of, func(m cluster.InitialMember) (list []cluster.Member, err error) {
		err = anyURL(m.PeerURLs, func(u string) error {
			list, err = peer.Members(ctx, u)
			return err
		})
		return list, err
	})
}

// movedAway reports that etcd looks for this node's member where neither the node is nor
// its member ever was: another machine runs on a copy of its disk, and what is here is the
// older one. A single list may itself be old, so where nobody answers at the other
// address, a majority of the voters has to say so.
func (o *Observer) movedAway(ctx context.Context, peer *etcdclient.Peer, s nodestate.State, voters int,
	lists [][]cluster.Member) error {
	reported := map[string]int{}
	for _, list := range lists {
		for _, m := range list {
			if m.ID == s.MemberID && len(m.PeerURLs) > 0 && !cluster.SharePeerURL(m.PeerURLs, o.opts.URLs.Peer) &&
				!cluster.SharePeerURL(m.PeerURLs, s.PeerURLs(o.opts.Name)) {
				reported[strings.Join(m.PeerURLs, ",")]++
			}
		}
	}
	for _, urls := range slices.Sorted(maps.Keys(reported)) {
		if u := o.answers(ctx, peer, s.MemberID, strings.Split(urls, ",")); u != "" {
			return &TwinError{Name: o.opts.Name, ID: s.MemberID, Is: "runs at " + u}
		}
		if reported[urls] >= cluster.Quorum(voters) {
			return &TwinError{Name: o.opts.Name, ID: s.MemberID, Is: "has moved to " + urls, Off: true}
		}
	}
	return nil
}

// heard reports that another member hears from this one, which does not run here: what it
// has had from it grows, and grows again.
func (o *Observer) heard(ctx context.Context, id cluster.MemberID, lists [][]cluster.Member) error {
	var others []cluster.Member
	for _, list := range lists {
		for _, m := range list {
			same := func(o cluster.Member) bool { return o.ID == m.ID }
			if m.ID != id && len(m.ClientURLs) > 0 && !slices.ContainsFunc(others, same) {
				m.ClientURLs = cluster.OwnURLs(m, list) // what another one counts says nothing
				others = append(others, m)
			}
		}
	}
	before := map[cluster.MemberID]int64{}
	for reading := range 3 {
		if reading > 0 && wait.For(ctx, o.hears()) != nil {
			return nil
		}
		timeout := servesTimeout
		if reading > 0 {
			timeout = twinTimeout // who is asked has answered a moment ago
		}
		asking, cancel := context.WithTimeout(ctx, timeout)
		now := o.received(asking, id, others)
		cancel()
		others = slices.DeleteFunc(others, func(m cluster.Member) bool {
			n, ok := now[m.ID]
			return !ok || reading > 0 && n <= before[m.ID]
		})
		if len(others) == 0 {
			return nil
		}
		before = now
	}
	return &TwinError{Name: o.opts.Name, ID: id, Is: fmt.Sprintf("runs on another machine, %s hears from it", others[0].Name)}
}

// hears is a time in which a leader has an answer to a heartbeat from each member that
// runs.
func (o *Observer) hears() time.Duration {
	every := heartbeatInterval
	if ms, err := strconv.Atoi(o.opts.UserEnv["ETCD_HEARTBEAT_INTERVAL"]); err == nil && ms > 0 {
		every = time.Duration(ms) * time.Millisecond
	}
	return min(5*every/2, twinTimeout)
}

// received asks members how much they have had from the one of that id.
func (o *Observer) received(ctx context.Context, id cluster.MemberID, of []cluster.Member) map[cluster.MemberID]int64 {
	type count struct {
		by cluster.MemberID
		n  int64
	}
	got := map[cluster.MemberID]int64{}
	for _, c := range ask(of, func(m cluster.Member) (c count, err error) {
		c.by = m.ID
		err = anyURL(m.ClientURLs, func(u string) error {
			c.n, err = etcdclient.Received(ctx, u, o.clientTLS(), id)
			return err
		})
		return c, err
	}) {
		got[c.by] = c.n
	}
	return got
}

// RunsAt returns that another machine runs the member: it answers at one of the URLs. It
// returns nil where that is not so, or not known.
func (o *Observer) RunsAt(ctx context.Context, id cluster.MemberID, urls []string) *TwinError {
	peer, err := o.peer()
	if err != nil {
		return nil
	}
	defer peer.Close()
	u := o.answers(ctx, peer, id, urls)
	if u == "" {
		return nil
	}
	return &TwinError{Name: o.opts.Name, ID: id, Is: "runs at " + u}
}
